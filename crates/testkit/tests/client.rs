//! What the facilitator client puts on the wire.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{net::Ipv4Addr, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use quittance_testkit::Facilitator;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// Answers 203 with what it was asked, except on a few paths.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let seen = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    match uri.path() {
        "/moved" => (StatusCode::FOUND, [(header::LOCATION, "/elsewhere")]).into_response(),
        "/busy" => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "3")], "<busy>").into_response(),
        "/never" => std::future::pending().await,
        _ => {
            let seen = json!({
                "method": method.as_str(),
                "uri": uri.to_string(),
                "body": String::from_utf8_lossy(&body),
                "type": seen(header::CONTENT_TYPE),
                "key": seen(header::AUTHORIZATION),
                "idempotency": headers.get("idempotency-key").map(|value| value.to_str().unwrap()),
            });
            (StatusCode::NON_AUTHORITATIVE_INFORMATION, Json(seen)).into_response()
        }
    }
}

struct Echo(String, JoinHandle<()>);

impl Drop for Echo {
    fn drop(&mut self) {
        self.1.abort();
    }
}

async fn server() -> Echo {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let serving = async move { axum::serve(listener, Router::new().fallback(echo)).await.unwrap() };
    Echo(base, tokio::spawn(serving))
}

fn expected(method: &str, uri: &str, body: &str, content_type: Value) -> Value {
    json!({"method": method, "uri": uri, "body": body, "type": content_type, "key": null, "idempotency": null})
}

#[tokio::test]
async fn requests_are_what_sellers_send() {
    let echo = server().await;
    let client = Facilitator::new(&echo.0).unwrap();
    let body = json!({"x402Version": 2});
    let text = r#"{"x402Version":2}"#;
    let json_type = json!("application/json");
    assert_eq!(
        client.verify(&body).await.unwrap(),
        (203, expected("POST", "/verify", text, json_type.clone()))
    );
    assert_eq!(
        client.settle(&body).await.unwrap(),
        (203, expected("POST", "/settle", text, json_type.clone()))
    );
    assert_eq!(client.supported().await.unwrap(), (203, expected("GET", "/supported", "", json!(null))));
    assert_eq!(
        client.get("//verify/?a=b").await.unwrap().json,
        expected("GET", "//verify/?a=b", "", json!(null))
    );
    let odd = client.post_bytes("/verify", "text/plain; charset=utf-8", b"{".to_vec()).await.unwrap();
    assert_eq!(odd.json, expected("POST", "/verify", "{", json!("text/plain; charset=utf-8")));
    let untyped = client.post_bytes("/verify", "", b"{}".to_vec()).await.unwrap();
    assert_eq!(untyped.json, expected("POST", "/verify", "{}", json!(null)));

    let answer = client.api_key("word").settle_with(&body, &[("Idempotency-Key", "one")]).await.unwrap();
    assert_eq!((&answer.json["idempotency"], &answer.json["key"]), (&json!("one"), &json!("Bearer word")));
    assert_eq!(answer.json["type"], json_type);
}

#[tokio::test]
async fn answers_are_not_interpreted() {
    let echo = server().await;
    let client = Facilitator::with_timeout(&echo.0, Duration::from_millis(300)).unwrap();
    assert_eq!(client.get("/moved").await.unwrap().status, 302);
    let busy = client.get("/busy").await.unwrap();
    assert_eq!((busy.status, busy.retry_after_seconds(), busy.text.as_str()), (503, Some(3), "<busy>"));
    assert_eq!(busy.json, Value::Null);
    assert!(client.get("/never").await.is_err());
}
