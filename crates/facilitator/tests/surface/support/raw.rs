//! HTTP written by hand, for what no HTTP client would send.

use anyhow::{Context as _, Result, bail};
use quittance_testkit::client::Answer;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// A test that waits longer for bytes has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// One connection.
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    /// To the server at `base`, an `http://HOST:PORT`.
    pub(crate) async fn connect(base: &str) -> Self {
        let address = base.trim_start_matches("http://");
        let stream = timeout(DEADLINE, TcpStream::connect(address)).await.unwrap().unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        timeout(DEADLINE, self.stream.write_all(bytes.as_ref())).await.context("no room to write")??;
        Ok(())
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn finish(&mut self) {
        // Fails only if the other side has gone already.
        let _ = timeout(DEADLINE, self.stream.shutdown()).await.unwrap();
    }

    /// The next answer on this connection.
    pub(crate) async fn answer(&mut self) -> Result<Answer> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            self.more().await.context("within the head of an answer")?;
        };
        let head: Vec<u8> = self.buffer.drain(..head_end + 4).collect();
        let head = String::from_utf8(head).context("head")?;
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("status line")?.parse()?;
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').context("header")?;
            headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value.trim())?);
        }
        let length =
            headers.get("content-length").map_or(Ok(0), |value| value.to_str().unwrap_or("?").parse())?;
        if headers.contains_key("transfer-encoding") {
            bail!("answers here have a length: {head}");
        }
        while self.buffer.len() < length {
            self.more().await.context("within the body of an answer")?;
        }
        let text = String::from_utf8(self.buffer.drain(..length).collect())?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, text, json })
    }

    /// The server closes the connection without another byte.
    pub(crate) async fn closes_within(&mut self, deadline: Duration) {
        assert!(self.buffer.is_empty(), "{:?}", String::from_utf8_lossy(&self.buffer));
        let mut byte = [0];
        // A reset is an end too.
        let read = timeout(deadline, self.stream.read(&mut byte)).await.expect("the connection stayed open");
        assert_eq!(read.unwrap_or(0), 0);
    }

    async fn more(&mut self) -> Result<()> {
        let mut chunk = [0; 8192];
        let read = timeout(DEADLINE, self.stream.read(&mut chunk)).await.context("no byte in time")??;
        if read == 0 {
            bail!("the connection ended after {:?}", String::from_utf8_lossy(&self.buffer));
        }
        self.buffer.extend_from_slice(&chunk[..read]);
        Ok(())
    }
}

/// A `POST` with a body of known length.
pub(crate) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: quittance\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
