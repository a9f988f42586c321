//! A facilitator as a seller sees it: HTTP and JSON, nothing interpreted.

use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
};
use serde_json::Value;

/// As long as the official clients wait.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);

/// One HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub text: String,
    /// The body as JSON; null if it is not.
    pub json: Value,
}

impl Answer {
    /// A header's value, if it is there and readable.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// `Retry-After` in seconds.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.header(RETRY_AFTER.as_str())?.parse().ok()
    }

    /// Status and JSON.
    pub fn pair(self) -> (u16, Value) {
        (self.status, self.json)
    }
}

/// A client of one facilitator. Follows no redirects and keeps no cookies.
#[derive(Clone, Debug)]
pub struct Facilitator {
    base: String,
    http: reqwest::Client,
    api_key: Option<String>,
}

impl Facilitator {
    /// A client for the facilitator at `base`; nothing is sent yet.
    pub fn new(base: impl Into<String>) -> Result<Self> {
        Self::with_timeout(base, DEFAULT_TIMEOUT)
    }

    /// Like [`Facilitator::new`], giving up after `timeout`: the connection is closed then.
    pub fn with_timeout(base: impl Into<String>, timeout: Duration) -> Result<Self> {
        let base: String = base.into();
        let mut http =
            reqwest::Client::builder().timeout(timeout).redirect(reqwest::redirect::Policy::none());
        // The environment's HTTP proxy is for the way out, not for a server on this machine.
        if ["//127.0.0.1", "//localhost", "//[::1]"].iter().any(|host| base.contains(host)) {
            http = http.no_proxy();
        }
        let http = http.build().context("HTTP client")?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), http, api_key: None })
    }

    /// Sends `Authorization: Bearer …` with everything.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// The base URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// `POST /verify`.
    pub async fn verify(&self, body: &Value) -> Result<(u16, Value)> {
        Ok(self.post("/verify", body, &[]).await?.pair())
    }

    /// `POST /settle`.
    pub async fn settle(&self, body: &Value) -> Result<(u16, Value)> {
        Ok(self.post("/settle", body, &[]).await?.pair())
    }

    /// `POST /settle` with further headers, such as `Idempotency-Key`.
    pub async fn settle_with(&self, body: &Value, headers: &[(&str, &str)]) -> Result<Answer> {
        self.post("/settle", body, headers).await
    }

    /// `GET /supported`.
    pub async fn supported(&self) -> Result<(u16, Value)> {
        Ok(self.get("/supported").await?.pair())
    }

    /// `GET` of any path, with its query.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.request(Method::GET, path, &[], None).await
    }

    /// `POST` of a JSON body to any path.
    pub async fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Result<Answer> {
        let mut all = vec![(CONTENT_TYPE.as_str(), "application/json")];
        all.extend_from_slice(headers);
        self.request(Method::POST, path, &all, Some(body.to_string().into_bytes())).await
    }

    /// `POST` of any bytes under any content type; an empty content type sends none.
    pub async fn post_bytes(&self, path: &str, content_type: &str, bytes: Vec<u8>) -> Result<Answer> {
        let headers =
            if content_type.is_empty() { vec![] } else { vec![(CONTENT_TYPE.as_str(), content_type)] };
        self.request(Method::POST, path, &headers, Some(bytes)).await
    }

    /// Any request. `path` is put behind the base as it stands.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Answer> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = &self.api_key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.with_context(|| format!("{method} {path}: no answer"))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.with_context(|| format!("{method} {path}: answer broke off"))?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, text, json })
    }
}
