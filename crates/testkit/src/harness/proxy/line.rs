//! Connections that can be reset at any moment, from inside a request or from outside.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Shared;

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<CancellationToken>);

impl Lines {
    fn open(&self) -> Line {
        Line(self.0.lock().unwrap_or_else(PoisonError::into_inner).child_token())
    }

    pub(super) fn cut_all(&self) {
        let mut token = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *token).cancel();
    }
}

/// One connection, as a request sees it.
#[derive(Clone, Debug)]
pub(super) struct Line(CancellationToken);

impl Line {
    /// Resets the connection. What is answered afterwards is not sent.
    pub(super) fn cut(&self) {
        self.0.cancel();
    }
}

impl Connected<IncomingStream<'_, ProxyListener>> for Line {
    fn connect_info(stream: IncomingStream<'_, ProxyListener>) -> Self {
        stream.io().line.clone()
    }
}

/// Accepts connections; while the proxy is down it resets them at once.
#[derive(Debug)]
pub(super) struct ProxyListener {
    inner: TcpListener,
    shared: Arc<Shared>,
}

impl ProxyListener {
    pub(super) fn new(inner: TcpListener, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }
}

impl Listener for ProxyListener {
    type Io = LineStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LineStream, SocketAddr) {
        loop {
            match self.inner.accept().await {
                Ok((stream, address)) => {
                    // Opened before the look at `down`, so that a `down` in between cuts it.
                    let line = self.shared.lines.open();
                    let stream = LineStream::new(stream, line);
                    if !self.shared.is_down() {
                        return (stream, address);
                    }
                    stream.reset_on_close();
                }
                // Out of file descriptors, most likely: others must close first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A TCP stream that fails once its line is cut.
#[derive(Debug)]
pub(super) struct LineStream {
    inner: TcpStream,
    line: Line,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl LineStream {
    fn new(inner: TcpStream, line: Line) -> Self {
        let cut = Box::pin(line.0.clone().cancelled_owned());
        // Latency of tests only.
        let _ = inner.set_nodelay(true);
        Self { inner, line, cut }
    }

    fn reset_on_close(&self) {
        // Without it the peer would see an orderly end; either way there is no answer.
        let _ = self.inner.set_zero_linger();
    }

    /// Also registers the task, so that a cut wakes a connection that waits for bytes.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.line.0.is_cancelled() || self.cut.as_mut().poll(cx).is_ready() {
            self.reset_on_close();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for LineStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Err(error) = self.check(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for LineStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Err(error) = self.check(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
