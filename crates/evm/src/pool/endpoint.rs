//! One endpoint: calls within a deadline, and its record.

use super::{CALL_TIMEOUT, Reply, health::Health, websocket::WebSocket};
use crate::RpcFault;
use alloy::{
    rpc::client::{BatchRequest, RpcClient},
    rpc::json_rpc::{ResponsePacket, RpcError, RpcRecv, transform_response, try_deserialize_ok},
    transports::{TransportError, TransportErrorKind, TransportResult},
};
use alloy_transport_http::Http;
use reqwest::redirect::Policy;
use serde_json::Value;
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::time::timeout;
use tower::ServiceExt as _;
use url::Url;

pub(super) struct Endpoint {
    client: RpcClient,
    health: Mutex<Health>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL can hold a key.
        f.debug_struct("Endpoint").field("health", &self.health()).finish_non_exhaustive()
    }
}

/// What makes connections.
pub(super) struct Clients {
    http: reqwest::Client,
    websocket: reqwest::Client,
}

impl Clients {
    pub(super) fn new(urls: &[Url]) -> reqwest::Result<Self> {
        // A proxy from the environment would see every payment; redirects of a POST would replay it elsewhere.
        let builder = || reqwest::Client::builder().redirect(Policy::none()).no_proxy();
        let http = builder().build()?;
        // Making one reads the system's roots, so no more than needed.
        let websocket =
            if urls.iter().any(is_websocket) { builder().http1_only().build()? } else { http.clone() };
        Ok(Self { http, websocket })
    }
}

impl Endpoint {
    /// Contacts nobody yet.
    pub(super) fn new(clients: &Clients, url: &Url) -> Self {
        let client = if is_websocket(url) {
            RpcClient::new(WebSocket::new(clients.websocket.clone(), url), false)
        } else {
            RpcClient::new(Http::with_client(clients.http.clone(), url.clone()), false)
        };
        Self { client, health: Mutex::default() }
    }

    pub(super) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call. Only an answer with the call's own id counts: a gateway that mixes answers up must not lend one payment
    /// the facts of another.
    pub(super) async fn call<T: RpcRecv>(
        &self,
        method: &'static str,
        params: &Value,
    ) -> Result<Reply<T>, RpcFault> {
        let answer = async {
            let request = self.client.make_request(method, params).serialize().map_err(RpcError::ser_err)?;
            let id = request.id().clone();
            match self.client.transport().clone().oneshot(request.into()).await? {
                ResponsePacket::Single(response) if response.id == id => {
                    try_deserialize_ok(transform_response(response))
                }
                _ => Err(TransportErrorKind::custom_str("the answer to another call")),
            }
        };
        match within_deadline(method, answer).await? {
            Ok(value) => Ok(Reply::Result(value)),
            Err(RpcError::ErrorResp(payload)) => {
                Ok(Reply::Error { code: payload.code, text: payload.message.into_owned() })
            }
            Err(error) => Err(fault(method, &error)),
        }
    }

    /// Several calls at once; `method` stands for them all. One that the node answers with an error is `None`.
    pub(super) async fn batch<T: RpcRecv>(
        &self,
        method: &'static str,
        calls: &[(&'static str, Value)],
    ) -> Result<Vec<Option<T>>, RpcFault> {
        let answers = async {
            let mut batch = BatchRequest::new(&self.client);
            let mut waiters = Vec::with_capacity(calls.len());
            for (method, params) in calls {
                waiters.push(batch.add_call::<_, T>(*method, params)?);
            }
            batch.send().await?;
            let mut answers = Vec::with_capacity(waiters.len());
            for waiter in waiters {
                match waiter.await {
                    Ok(value) => answers.push(Some(value)),
                    Err(RpcError::ErrorResp(_)) => answers.push(None),
                    Err(error) => return Err(error),
                }
            }
            Ok(answers)
        };
        within_deadline(method, answers).await?.map_err(|error| fault(method, &error))
    }
}

fn is_websocket(url: &Url) -> bool {
    matches!(url.scheme(), "ws" | "wss")
}

async fn within_deadline<T>(
    method: &'static str,
    answer: impl Future<Output = TransportResult<T>>,
) -> Result<TransportResult<T>, RpcFault> {
    timeout(CALL_TIMEOUT, answer).await.map_err(|_| RpcFault::Timeout { method })
}

fn fault(method: &'static str, error: &TransportError) -> RpcFault {
    match error {
        RpcError::SerError(_) => RpcFault::Malformed { method, what: "the request cannot be written" },
        RpcError::DeserError { .. } => RpcFault::Malformed { method, what: "not the expected type" },
        RpcError::NullResp => RpcFault::Malformed { method, what: "null" },
        _ => RpcFault::Transport { method },
    }
}
