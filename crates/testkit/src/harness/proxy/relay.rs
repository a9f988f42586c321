//! One request on its way to the node and back.

use std::{sync::Arc, time::Duration};

use alloy::primitives::{Bytes as HexBytes, keccak256};
use anyhow::{Context as _, Result, anyhow};
use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};

use super::{
    Call, Fault, SECRET_MARKER, Shared,
    line::{Line, ProxyListener},
    websocket,
};

const FORWARD_DEADLINE: Duration = Duration::from_secs(120);

pub(super) async fn serve(listener: ProxyListener, shared: Arc<Shared>) {
    let app = Router::new()
        .route(&format!("/{SECRET_MARKER}"), post(handle).get(websocket::upgrade))
        .fallback(|| async { StatusCode::UNAUTHORIZED })
        .layer(DefaultBodyLimit::disable())
        .with_state(shared);
    // Ends only by being aborted.
    let _ = axum::serve(listener, app.into_make_service_with_connect_info::<Line>()).await;
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(line): ConnectInfo<Line>,
    body: Bytes,
) -> Response {
    match relay(&shared, body).await {
        Ok(Outcome::Json(json)) => reply(StatusCode::OK, json.to_string()),
        Ok(Outcome::Http(status, body)) => reply(status, body),
        Ok(Outcome::Cut) => {
            line.cut();
            StatusCode::BAD_GATEWAY.into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, format!("proxy: {error:#}")).into_response(),
    }
}

fn reply(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// What becomes of a request.
pub(super) enum Outcome {
    Json(Value),
    Http(StatusCode, String),
    Cut,
}

/// One call of a request.
struct Item {
    request: Value,
    call: Call,
    rewrites: Vec<Fault>,
    /// The call's answer: made up before the node is asked, or the node's.
    answer: Option<Value>,
    /// What replaces the node's answer.
    afterwards: Option<Fault>,
}

pub(super) async fn relay(shared: &Shared, body: Bytes) -> Result<Outcome> {
    let mut number = 0;
    shared.record(|records| {
        records.http_requests += 1;
        number = records.http_requests;
    });
    let request: Value = serde_json::from_slice(&body).context("not JSON")?;
    let (batch, requests) = match request {
        Value::Array(requests) => (true, requests),
        single => (false, vec![single]),
    };
    let mut items: Vec<Item> =
        requests.into_iter().map(|request| Item::new(request, number, batch)).collect();
    let calls: Vec<Call> = items.iter().map(|item| item.call.clone()).collect();
    // Faults are taken before anyone is told of the call: who waits for it may change the rules.
    let faults: Vec<Vec<Fault>> = {
        let mut rules = shared.rules();
        calls.iter().map(|call| rules.take(call)).collect()
    };
    let released = *shared.released.borrow();
    shared.record(|records| records.see(&calls));

    for (item, faults) in items.iter_mut().zip(faults) {
        for fault in faults {
            if let Some(outcome) = item.meet(fault, shared, released).await? {
                return Ok(outcome);
            }
        }
    }
    forward(shared, &mut items, batch).await?;
    for item in &mut items {
        if let Some(fault) = item.afterwards.take()
            && let Some(outcome) = item.stand_in(fault, shared, released).await?
        {
            return Ok(outcome);
        }
    }
    let mut answers = items.into_iter().filter_map(|item| item.answer);
    Ok(Outcome::Json(if batch { answers.collect() } else { answers.next().unwrap_or(Value::Null) }))
}

/// Asks the node for all answers that are still missing, in one request.
async fn forward(shared: &Shared, items: &mut [Item], batch: bool) -> Result<()> {
    let open: Vec<&Value> =
        items.iter().filter(|item| item.answer.is_none()).map(|item| &item.request).collect();
    let [first, ..] = open.as_slice() else { return Ok(()) };
    let body = if batch { json!(open) } else { (*first).clone() };
    let upstream = shared.http.post(shared.upstream()).timeout(FORWARD_DEADLINE).json(&body);
    let answer: Value = upstream.send().await.context("node")?.json().await.context("node")?;
    let answers = match answer {
        Value::Array(answers) => answers,
        single => vec![single],
    };
    for item in items.iter_mut().filter(|item| item.answer.is_none()) {
        let answer = answers.iter().find(|answer| !batch || answer["id"] == item.request["id"]);
        let mut answer = answer.cloned().ok_or_else(|| anyhow!("node left a call unanswered"))?;
        if let Some(result) = answer.get_mut("result") {
            for rewrite in &item.rewrites {
                if let Fault::Rewrite(change) = rewrite {
                    *result = change(result.take());
                }
            }
        }
        item.answer = Some(answer);
        shared.record(|records| records.answer(&item.call.method));
    }
    Ok(())
}

impl Item {
    fn new(request: Value, http_request: u64, batch: bool) -> Self {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let call = Call { method, params: request["params"].clone(), http_request, batch };
        Self { request, call, rewrites: Vec::new(), answer: None, afterwards: None }
    }

    /// A fault on the way to the node.
    async fn meet(&mut self, fault: Fault, shared: &Shared, released: u64) -> Result<Option<Outcome>> {
        match fault {
            Fault::Rewrite(_) => self.rewrites.push(fault),
            Fault::RewriteParams(change) => self.request["params"] = change(self.request["params"].take()),
            Fault::ForwardThen(after) => self.afterwards = Some(*after),
            other => return self.stand_in(other, shared, released).await,
        }
        Ok(None)
    }

    /// A fault that needs no node: it waits, answers the call, or answers the whole request.
    async fn stand_in(&mut self, fault: Fault, shared: &Shared, released: u64) -> Result<Option<Outcome>> {
        match fault {
            Fault::Delay(time) => tokio::time::sleep(time).await,
            Fault::Hang => {
                // Ends also when the connection does: the request is dropped then.
                shared.released.subscribe().wait_for(|times| *times > released).await?;
            }
            Fault::HttpStatus(status) => {
                return Ok(Some(Outcome::Http(StatusCode::from_u16(status)?, "injected fault".to_owned())));
            }
            Fault::Body(body) => return Ok(Some(Outcome::Http(StatusCode::OK, body))),
            Fault::Drop => return Ok(Some(Outcome::Cut)),
            Fault::Error { code, message, data } => {
                let mut error = json!({"code": code, "message": message});
                if !data.is_null() {
                    error["data"] = data;
                }
                self.answer = Some(json!({"jsonrpc": "2.0", "id": self.request["id"], "error": error}));
            }
            Fault::Answer(result) => self.answer_with(result),
            Fault::Swallow => {
                let raw: HexBytes = serde_json::from_value(self.call.params[0].clone())
                    .with_context(|| format!("nothing to swallow in {}", self.call.method))?;
                self.answer_with(json!(keccak256(raw)));
            }
            Fault::Rewrite(_) | Fault::RewriteParams(_) | Fault::ForwardThen(_) => {
                return Err(anyhow!("{fault:?} cannot stand in for an answer"));
            }
        }
        Ok(None)
    }

    fn answer_with(&mut self, result: Value) {
        self.answer = Some(json!({"jsonrpc": "2.0", "id": self.request["id"], "result": result}));
    }
}
