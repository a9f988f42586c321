//! A TCP connection that knows when an answer has left it, and whether the caller was still there.

use crate::answer::Outbox;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A stream with its outbox.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    outbox: Outbox,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, outbox: Outbox) -> Self {
        Self { stream, outbox }
    }

    /// A caller that has closed its side reads no answer.
    fn caller_is_gone(&self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0; 1];
        matches!(self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)), Poll::Ready(Ok(0) | Err(_)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outbox.lost();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once everything buffered was written: an answer in the outbox has then left.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) && !self.outbox.is_empty() {
            if self.caller_is_gone(cx) {
                self.outbox.lost();
            } else {
                self.outbox.flushed();
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
