//! JSON-RPC over a WebSocket: connected when first asked, and again whenever the connection is gone.
//!
//! The upgrade is an HTTP request, made by the client that also speaks to `https` endpoints: the same roots, no proxy, no
//! redirect. Why not alloy's own transport: docs/adr/0010.

use super::CALL_TIMEOUT;
use crate::clock;
use alloy::{
    rpc::json_rpc::{Id, RequestPacket, Response, ResponsePacket, SerializedRequest},
    transports::{TransportError, TransportErrorKind, TransportFut, TransportResult},
};
use futures::{SinkExt as _, StreamExt as _, future::try_join_all};
use reqwest::{
    StatusCode, Upgraded,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep_until, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};
use tower::Service;
use url::Url;

/// Calls on one connection that wait for their answer; more wait to be sent.
const WAITING_MAX: usize = 256;
/// Calls that wait to be sent; more wait for a place.
const QUEUE_MAX: usize = 64;
/// The longest message, in one frame or in many.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A connection on which nothing happens for this long is tried out, so that no payment is the first to find it dead.
const PING_AFTER: Duration = Duration::from_secs(15);

/// One endpoint. Clones share its connection.
#[derive(Clone)]
pub(super) struct WebSocket {
    http: reqwest::Client,
    /// Of the upgrade request: `http` for `ws`, `https` for `wss`.
    url: Url,
    line: Arc<Mutex<Option<Line>>>,
}

/// A connection, or one that is being made.
#[derive(Clone)]
struct Line {
    calls: mpsc::Sender<Call>,
    connected: Arc<AtomicBool>,
}

struct Call {
    id: Id,
    text: Utf8Bytes,
    answer: oneshot::Sender<Response>,
}

/// The connection ended before the answer came.
struct Gone;

impl WebSocket {
    /// Connects to nothing yet. `http` must not negotiate HTTP/2, which knows no upgrade.
    pub(super) fn new(http: reqwest::Client, url: &Url) -> Self {
        let mut url = url.clone();
        let scheme = if url.scheme() == "wss" { "https" } else { "http" };
        // Fails only for schemes that configuration refuses; such a URL is refused by the client then.
        let _ = url.set_scheme(scheme);
        Self { http, url, line: Arc::default() }
    }

    async fn ask(&self, request: &SerializedRequest) -> TransportResult<Response> {
        let line = self.line();
        let answer = match line.call(request).await {
            // Servers end connections whenever they like. What we ask can be asked twice; raw transactions too.
            Err(Gone) if line.connected.load(Ordering::Acquire) => self.line().call(request).await,
            answer => answer,
        };
        answer.map_err(|Gone| TransportErrorKind::backend_gone())
    }

    /// The connection there is, or a new one.
    fn line(&self) -> Line {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        match &*line {
            Some(line) if !line.calls.is_closed() => line.clone(),
            _ => line.insert(Line::open(self.http.clone(), self.url.clone())).clone(),
        }
    }
}

impl Line {
    /// The task ends with the connection, or when nobody can call any more.
    fn open(http: reqwest::Client, url: Url) -> Self {
        let (calls, mut queue) = mpsc::channel(QUEUE_MAX);
        let connected = Arc::new(AtomicBool::new(false));
        let line = Self { calls, connected: connected.clone() };
        tokio::spawn(async move {
            let mut waiting = HashMap::new();
            if let Ok(Some(socket)) = timeout(CALL_TIMEOUT, connect(&http, url)).await {
                connected.store(true, Ordering::Release);
                serve(socket, &mut queue, &mut waiting).await;
            }
            // Before those who wait are told, so that they find the place free for a new connection.
            queue.close();
            drop(waiting);
        });
        line
    }

    async fn call(&self, request: &SerializedRequest) -> Result<Response, Gone> {
        let (answer, answered) = oneshot::channel();
        let call = Call { id: request.id().clone(), text: request.serialized().get().into(), answer };
        self.calls.send(call).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}

async fn connect(http: &reqwest::Client, url: Url) -> Option<WebSocketStream<Upgraded>> {
    let key = generate_key();
    let request = http
        .get(url)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key);
    let response = request.send().await.ok()?;
    let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS
        || accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()
    {
        return None;
    }
    let stream = response.upgrade().await.ok()?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    Some(WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await)
}

/// Carries calls out and answers back, until the connection is of no use any more.
async fn serve(
    mut socket: WebSocketStream<Upgraded>,
    queue: &mut mpsc::Receiver<Call>,
    waiting: &mut HashMap<Id, oneshot::Sender<Response>>,
) {
    // Whether the server owes us something, and since when; else, since when nothing has happened.
    let mut owed = false;
    let mut since = clock::instant();
    loop {
        let patience = if owed { CALL_TIMEOUT } else { PING_AFTER };
        tokio::select! {
            call = queue.recv(), if waiting.len() < WAITING_MAX => {
                let Some(call) = call else { return };
                if call.answer.is_closed() {
                    continue;
                }
                waiting.insert(call.id, call.answer);
                if !owed {
                    (owed, since) = (true, clock::instant());
                }
                if !send(&mut socket, Message::Text(call.text)).await {
                    return;
                }
            }
            message = socket.next() => {
                match message {
                    // Whose answer it was to be is not known, so nobody's can be waited for.
                    Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                        let Ok(response) = serde_json::from_slice::<Response>(&message.into_data()) else { return };
                        if let Some(answer) = waiting.remove(&response.id) {
                            let _ = answer.send(response);
                        }
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => {}
                }
                waiting.retain(|_, answer| !answer.is_closed());
                (owed, since) = (!waiting.is_empty(), clock::instant());
            }
            // It took calls or a ping and has said nothing since: a connection that died without a word looks like this.
            () = sleep_until(since + patience) => {
                if owed || !send(&mut socket, Message::Ping(Default::default())).await {
                    return;
                }
                (owed, since) = (true, clock::instant());
            }
        }
    }
}

/// Whether it could be sent. Nothing is read meanwhile, so it must not take for ever.
async fn send(socket: &mut WebSocketStream<Upgraded>, message: Message) -> bool {
    matches!(timeout(CALL_TIMEOUT, socket.send(message)).await, Ok(Ok(())))
}

impl Service<RequestPacket> for WebSocket {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<TransportResult<()>> {
        Poll::Ready(Ok(()))
    }

    /// Each call of a batch in a message of its own: they wait for each other no more than in one, and not every server
    /// takes lists.
    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let socket = self.clone();
        Box::pin(async move {
            Ok(match packet {
                RequestPacket::Single(request) => ResponsePacket::Single(socket.ask(&request).await?),
                RequestPacket::Batch(requests) => {
                    let calls = requests.iter().map(|request| socket.ask(request));
                    ResponsePacket::Batch(try_join_all(calls).await?)
                }
            })
        })
    }
}
