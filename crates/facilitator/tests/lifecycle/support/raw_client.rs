//! A caller whose socket is in the test's hands.

use super::Reply;
use quittance_testkit::Facilitator;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A request that was sent and not read yet. Dropped, it hangs up.
#[derive(Debug)]
pub(crate) struct RawCall(TcpStream);

impl RawCall {
    /// Sends the whole of a `/settle`.
    pub(crate) async fn settle(client: &Facilitator, body: &Value, headers: &[(&str, &str)]) -> Self {
        Self::post(client, "/settle", body, headers).await
    }

    /// The same, and at once the beginning of a further request.
    pub(crate) async fn settle_and_more(client: &Facilitator, body: &Value) -> Self {
        Self::send(client, "/settle", body, &[], "GET /healthz").await
    }

    /// Sends the whole of a `/verify`.
    pub(crate) async fn verify(client: &Facilitator, body: &Value) -> Self {
        Self::post(client, "/verify", body, &[]).await
    }

    async fn post(client: &Facilitator, path: &str, body: &Value, headers: &[(&str, &str)]) -> Self {
        Self::send(client, path, body, headers, "").await
    }

    async fn send(
        client: &Facilitator,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
        more: &str,
    ) -> Self {
        let host = client.base().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let body = body.to_string();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        // At once: it is read at once.
        stream.write_all([head, body, more.to_owned()].concat().as_bytes()).await.unwrap();
        Self(stream)
    }

    /// Says that nothing more will be sent; still reads.
    pub(crate) async fn close_its_half(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Reads the answer to its last byte, and hangs up in the same moment.
    pub(crate) async fn read_and_hang_up(mut self) -> Option<Reply> {
        let mut bytes = Vec::new();
        loop {
            let mut chunk = [0; 4096];
            let count = self.0.read(&mut chunk).await.ok()?;
            if count == 0 {
                return None;
            }
            bytes.extend_from_slice(&chunk[..count]);
            if let Some(reply) = whole(&bytes) {
                return Some(reply);
            }
        }
    }
}

fn whole(bytes: &[u8]) -> Option<Reply> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    if body.len() < length.trim().parse().ok()? {
        return None;
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, json: serde_json::from_str(body).ok()? })
}
