//! A TCP connection that knows when an answer has left it, and whether the caller was still there. It ends with an error when
//! the caller takes too long for a request's head or for reading an answer.

use super::seats::Seat;
use crate::answer::Outbox;
use rustix::{
    io::{Errno, retry_on_intr},
    net::{RecvFlags, recv},
};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

/// Longest time for a request's head, from the connection's beginning or the head's first byte to its last one. Honest heads
/// are one packet; this is for what a lost packet costs, some times over.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Longest time for an answer that does not fit into the socket's buffer to be read.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long, and for how many bytes, a caller may go on sending what it was told is not wanted.
const LINGER_TIME: Duration = Duration::from_secs(5);
/// The same when the process is to stop, which does not wait for those who do not stop sending.
const STOPPING_LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A stream with its outbox.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    outbox: Outbox,
    seat: Arc<Seat>,
    heads_seen: u64,
    head: Deadline,
    answer: Deadline,
    lingering: Option<Lingering>,
    stopping: CancellationToken,
}

/// A wait that has an end once it has begun.
#[derive(Debug)]
struct Deadline {
    time: Duration,
    until: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    fn of(time: Duration) -> Self {
        Self { time, until: None }
    }

    fn begin(&mut self) {
        let time = self.time;
        self.until.get_or_insert_with(|| Box::pin(sleep(time)));
    }

    fn end(&mut self) {
        self.until = None;
    }

    /// An error once it is over; until then the task is woken when it will be.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.until.as_mut().map(|until| until.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Lingering {
    bytes_left: usize,
    until: Pin<Box<Sleep>>,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        outbox: Outbox,
        seat: Arc<Seat>,
        stopping: CancellationToken,
    ) -> Self {
        let (mut head, answer) = (Deadline::of(HEAD_TIME), Deadline::of(ANSWER_TIME));
        head.begin();
        Self { stream, outbox, seat, heads_seen: 0, head, answer, lingering: None, stopping }
    }

    /// Whatever was waited for is over when the head it was waited for has come.
    fn check_head(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let heads = self.seat.heads();
        if heads != self.heads_seen {
            self.heads_seen = heads;
            self.head.end();
        }
        self.head.check(cx)
    }

    fn written(&mut self, cx: &mut Context<'_>, bytes: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if bytes.is_pending() {
            self.answer.begin();
            self.answer.check(cx)?;
        }
        bytes
    }

    /// Takes in and forgets what still comes, until the caller ends too. Closing a socket with unread bytes resets it,
    /// and a caller that is still sending would lose the answer that says why.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let time = if self.stopping.is_cancelled() { STOPPING_LINGER_TIME } else { LINGER_TIME };
        let lingering = self
            .lingering
            .get_or_insert_with(|| Lingering { bytes_left: LINGER_BYTES_MAX, until: Box::pin(sleep(time)) });
        let mut scratch = [0; 8192];
        while lingering.until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
            let bytes = buffer.filled().len();
            if read.is_err() || bytes == 0 || bytes > lingering.bytes_left {
                break;
            }
            lingering.bytes_left -= bytes;
        }
        Poll::Ready(())
    }

    /// A caller that has closed its side reads no answer, so none is written to it.
    ///
    /// Asked before the bytes leave: afterwards, a caller that has read its answer may have closed its side as well. The system is
    /// asked: what the runtime knows of the socket is as old as its last look, which may have been before the process stood still.
    fn refuse_if_gone(&self) -> io::Result<()> {
        if !self.outbox.is_empty() && has_ended(&self.stream) {
            self.outbox.lost();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

/// Whether the other side has closed its own, or the connection is broken.
fn has_ended(stream: &TcpStream) -> bool {
    match retry_on_intr(|| recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)) {
        Ok((bytes, _)) => bytes == 0,
        Err(fault) => fault != Errno::AGAIN,
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
        self.check_head(cx)?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before && self.seat.expects_head() {
            self.head.begin();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.refuse_if_gone()?;
        let bytes = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.refuse_if_gone()?;
        let bytes = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once everything buffered was written: an answer in the outbox has then left.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.outbox.flushed();
            self.answer.end();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        self.linger(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{answer::Arrival, http::seats::Seats};
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    #[derive(Debug, Default)]
    struct Answer(Arc<AtomicBool>);

    impl Arrival for Answer {
        fn arrived(self: Box<Self>) {
            panic!("its caller was gone");
        }

        fn lost(self: Box<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// On a runtime of one thread, which cannot look at its sockets between the caller's end and the write: as in a process that has
    /// stood still.
    #[tokio::test]
    async fn a_caller_that_the_runtime_has_not_missed_yet_is_gone_all_the_same() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let caller = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let seat = Arc::new(Seats::new(1).take().await);
        let (outbox, is_lost) = (Outbox::default(), Arc::new(AtomicBool::default()));
        let mut connection = Connection::new(stream, outbox.clone(), seat, CancellationToken::new());
        let nothing = tokio::time::timeout(Duration::from_millis(10), connection.read_u8()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        outbox.push(Box::new(Answer(is_lost.clone())));
        drop(caller);
        while !has_ended(&connection.stream) {
            std::thread::yield_now();
        }
        assert_eq!(connection.write_all(b"paid").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(is_lost.load(Ordering::Relaxed));
    }
}
