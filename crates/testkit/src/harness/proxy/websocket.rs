//! The same over a WebSocket: every message is a request of its own, and answers come as they are ready.

use std::sync::Arc;

use axum::{
    extract::{
        ConnectInfo, State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::StatusCode,
    response::Response,
};
use tokio::task::JoinSet;

use super::{
    Shared,
    line::Line,
    relay::{Outcome, relay},
};

pub(super) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(line): ConnectInfo<Line>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.on_upgrade(|socket| carry(socket, shared, line))
}

/// Ends with the connection; calls that hang then end with it.
async fn carry(mut socket: WebSocket, shared: Arc<Shared>, line: Line) {
    let mut relays = JoinSet::new();
    loop {
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    let shared = shared.clone();
                    relays.spawn(async move { relay(&shared, message.into_data()).await });
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            Some(Ok(outcome)) = relays.join_next() => {
                let message = match outcome {
                    Ok(Outcome::Json(json)) => Message::text(json.to_string()),
                    Ok(Outcome::Http(StatusCode::OK, body)) => Message::text(body),
                    // There is no status here: what cannot be answered ends the connection.
                    Ok(Outcome::Http(..)) | Err(_) => {
                        Message::Close(Some(CloseFrame { code: close_code::ERROR, reason: "".into() }))
                    }
                    Ok(Outcome::Cut) => return line.cut(),
                };
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}
