//! Seats for connections. When all are taken, whoever comes gets the seat of the connection that has waited longest for its
//! caller: one that sends nothing, or half a request, or reads no answer. A request that is worked on keeps its seat.

use hashlink::LinkedHashMap;
use std::{
    collections::HashSet,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// All seats.
#[derive(Debug)]
pub(super) struct Seats {
    max: usize,
    taken: Mutex<Taken>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    last: u64,
    /// Connections whose request is worked on.
    working: HashSet<u64>,
    /// Connections that wait for their callers, the longest wait first.
    waiting: LinkedHashMap<u64, CancellationToken>,
}

/// Where a connection is in its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is asked, or no complete head has come.
    Head,
    Body,
    Work,
}

/// The seat of one connection, free when the last of its holders is gone.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    given_away: CancellationToken,
    phase: Mutex<Phase>,
    heads: AtomicU64,
}

impl Seats {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default(), changed: Notify::new() })
    }

    /// Waits only while a request is worked on in every seat.
    pub(super) async fn take(self: &Arc<Self>) -> Seat {
        loop {
            if let Some(seat) = self.try_take() {
                return seat;
            }
            self.changed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = lock(&self.taken);
        if taken.working.len() + taken.waiting.len() >= self.max && !taken.give_away() {
            return None;
        }
        taken.last += 1;
        let (number, given_away) = (taken.last, CancellationToken::new());
        taken.waiting.insert(number, given_away.clone());
        drop(taken);
        let (phase, heads) = (Mutex::new(Phase::Head), AtomicU64::new(0));
        Some(Seat { seats: self.clone(), number, given_away, phase, heads })
    }

    /// Ends the connection that has waited longest.
    pub(super) fn give_away(&self) {
        lock(&self.taken).give_away();
    }
}

impl Taken {
    fn give_away(&mut self) -> bool {
        self.waiting.pop_front().map(|(_, given_away)| given_away.cancel()).is_some()
    }
}

impl Seat {
    /// Resolves when the connection has to end.
    pub(super) async fn given_away(&self) {
        self.given_away.cancelled().await;
    }

    /// A request's head has come. Its body has a wait of its own.
    pub(super) fn head_read(&self) {
        *lock(&self.phase) = Phase::Body;
        self.heads.fetch_add(1, Ordering::Relaxed);
        self.wait();
    }

    /// The whole request has come: from now on the caller waits for us.
    pub(super) fn request_read(&self) {
        *lock(&self.phase) = Phase::Work;
        let mut taken = lock(&self.seats.taken);
        if taken.waiting.remove(&self.number).is_some() {
            taken.working.insert(self.number);
        }
    }

    /// The answer is there. Whether the whole request had come before.
    pub(super) fn answered(&self) -> bool {
        let was = mem::replace(&mut *lock(&self.phase), Phase::Head);
        self.wait();
        was == Phase::Work
    }

    pub(super) fn expects_head(&self) -> bool {
        *lock(&self.phase) == Phase::Head
    }

    /// How many heads have come.
    pub(super) fn heads(&self) -> u64 {
        self.heads.load(Ordering::Relaxed)
    }

    /// Begins a wait for the caller, unless the seat is given away already.
    fn wait(&self) {
        let mut taken = lock(&self.seats.taken);
        taken.working.remove(&self.number);
        if !self.given_away.is_cancelled() {
            taken.waiting.insert(self.number, self.given_away.clone());
            self.seats.changed.notify_one();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = lock(&self.seats.taken);
        taken.working.remove(&self.number);
        taken.waiting.remove(&self.number);
        self.seats.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_out(seat: &Seat) -> bool {
        seat.given_away.is_cancelled()
    }

    /// Connections whose request is worked on, and those that wait for their callers.
    fn counts(seats: &Seats) -> (usize, usize) {
        let taken = lock(&seats.taken);
        (taken.working.len(), taken.waiting.len())
    }

    #[test]
    fn the_longest_wait_ends_first_and_work_is_left_alone() {
        let seats = Seats::new(3);
        let [idle, busy, slow] = [(); 3].map(|()| seats.try_take().unwrap());
        busy.head_read();
        busy.request_read();
        // A head is a new wait; a byte of a body is not.
        idle.head_read();
        let fourth = seats.try_take().unwrap();
        assert!(is_out(&slow) && !is_out(&idle) && !is_out(&busy));
        // What comes of it now is too late, and takes nobody's seat.
        slow.request_read();
        assert!(slow.answered());
        assert_eq!(counts(&seats), (1, 2));
        assert!(busy.answered());
        let fifth = seats.try_take().unwrap();
        assert!(is_out(&idle) && !is_out(&fourth) && !is_out(&busy));
        for seat in [&busy, &fourth, &fifth] {
            seat.head_read();
            seat.request_read();
        }
        assert!(seats.try_take().is_none(), "all work");
        drop(fifth);
        let sixth = seats.try_take().unwrap();
        drop((busy, fourth, idle, sixth));
        assert_eq!(counts(&seats), (0, 0));
    }

    #[tokio::test]
    async fn whoever_finds_only_work_gets_the_first_seat_that_is_done() {
        let seats = Seats::new(1);
        let seat = seats.take().await;
        seat.head_read();
        seat.request_read();
        let next = tokio::spawn({
            let seats = seats.clone();
            async move { seats.take().await }
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        assert!(seat.answered());
        seat.given_away().await;
        next.await.unwrap();
    }
}
