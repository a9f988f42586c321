//! What the pool thinks of one endpoint: whether it answers, and how young its chain is. Pure; times are arguments.

use std::time::Duration;
use tokio::time::Instant;

/// After this many time-outs in a row an endpoint rests: a call that would wait for it fails at once instead.
const TIMEOUTS_MAX: u32 = 3;
/// After this many failures in a row, of whatever kind, an endpoint is asked after the others.
const FAILURES_MAX: u32 = 3;
/// A latest block older than another endpoint's by more than this is a stale node's.
pub(super) const LAG_SECONDS_MAX: u64 = 30;
/// A block so far ahead of our clock says nothing about who is late: honest blocks are at most seconds ahead, and a node that
/// is wrong about the time must not make the others look late. With the time between two blocks it stays below
/// [`LAG_SECONDS_MAX`].
const AHEAD_SECONDS_MAX: u64 = 15;

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A result, or a JSON-RPC error: the node is there.
    Answered,
    /// Anything else, within the deadline.
    Failed,
    /// Nothing, until the deadline.
    TimedOut,
}

/// The latest block an endpoint has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    timestamp: u64,
    seen_at: Instant,
    ahead_of_our_clock: bool,
}

impl Head {
    pub(super) fn new(timestamp: u64, seen_at: Instant, unix_now: u64) -> Self {
        let ahead_of_our_clock = timestamp > unix_now.saturating_add(AHEAD_SECONDS_MAX);
        Self { timestamp, seen_at, ahead_of_our_clock }
    }

    /// By how many seconds this block is behind `other`, beyond what the time between the two looks explains.
    pub(super) fn behind(&self, other: &Self) -> u64 {
        if other.ahead_of_our_clock {
            return 0;
        }
        let meanwhile = other.seen_at.saturating_duration_since(self.seen_at).as_secs();
        other.timestamp.saturating_sub(self.timestamp).saturating_sub(meanwhile)
    }
}

/// The youngest block that any endpoint has shown: one may be behind itself, after its URL was given to another node. `known`
/// before; `latest`: what each shows now.
pub(super) fn youngest(known: Option<Head>, latest: &[Option<Head>]) -> Option<Head> {
    // When all have shown older ones since, it is the chain that went back, and not a node that fell behind.
    let went_back = |known: &Head| {
        latest.iter().all(|head| {
            head.is_some_and(|head| head.seen_at > known.seen_at && head.behind(known) > LAG_SECONDS_MAX)
        })
    };
    let believable = latest.iter().flatten().copied().filter(|head| !head.ahead_of_our_clock);
    known.filter(|known| !went_back(known)).into_iter().chain(believable).max_by_key(|head| head.timestamp)
}

/// One endpoint's record.
#[derive(Debug, Default)]
pub(super) struct Health {
    timeouts: u32,
    failures: u32,
    resting: bool,
    /// Counts the beginnings and ends of rests: how a call went that began before says nothing about now.
    era: u32,
    serves_another_chain: bool,
    head: Option<Head>,
    looked_at: Option<Instant>,
    being_looked_at: bool,
}

impl Health {
    /// To be handed back with the outcome of a call that begins now.
    pub(super) fn era(&self) -> u32 {
        self.era
    }

    /// Not to be asked at all.
    pub(super) fn is_resting(&self) -> bool {
        self.resting
    }

    /// Not to be asked before the others. Failing fast costs a round trip, no wait, so it stays the last resort.
    pub(super) fn is_failing(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    pub(super) fn serves_another_chain(&self) -> bool {
        self.serves_another_chain
    }

    pub(super) fn head(&self) -> Option<Head> {
        self.head
    }

    /// What a call says that began in `era`.
    pub(super) fn ended(&mut self, outcome: Outcome, era: u32) {
        match outcome {
            Outcome::Answered => {
                (self.timeouts, self.failures) = (0, 0);
                self.set_resting(false);
            }
            _ if era != self.era => {}
            Outcome::Failed => self.failures = self.failures.saturating_add(1),
            Outcome::TimedOut => {
                self.failures = self.failures.saturating_add(1);
                self.timeouts = self.timeouts.saturating_add(1);
                self.set_resting(self.timeouts >= TIMEOUTS_MAX);
            }
        }
    }

    /// The same for a call that only looks. Its answer shows that the node is there and not that it does its work: one time-out
    /// of a call that asks for more, and the endpoint rests again.
    pub(super) fn look_ended(&mut self, outcome: Outcome, era: u32) {
        if outcome != Outcome::Answered {
            return self.ended(outcome, era);
        }
        self.failures = 0;
        if self.resting {
            self.timeouts = TIMEOUTS_MAX - 1;
            self.set_resting(false);
        }
    }

    fn set_resting(&mut self, resting: bool) {
        if self.resting != resting {
            self.resting = resting;
            self.era = self.era.wrapping_add(1);
        }
    }

    pub(super) fn saw_head(&mut self, head: Head) {
        (self.serves_another_chain, self.head, self.looked_at) = (false, Some(head), Some(head.seen_at));
    }

    pub(super) fn saw_another_chain(&mut self) {
        (self.serves_another_chain, self.head) = (true, None);
    }

    /// Whether its latest block was not looked at for so long.
    pub(super) fn unseen_for(&self, age: Duration, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= age)
    }

    /// Takes the right to look, which one task has at a time.
    pub(super) fn begin_look(&mut self) -> bool {
        !std::mem::replace(&mut self.being_looked_at, true)
    }

    /// Whether the look is over. While the endpoint rests it is not, and the right to look is kept.
    pub(super) fn end_look(&mut self, now: Instant) -> bool {
        self.looked_at = Some(now);
        self.being_looked_at = self.resting;
        !self.resting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Answered, Failed, TimedOut};

    fn after(outcomes: &[Outcome]) -> Health {
        let mut health = Health::default();
        for outcome in outcomes {
            health.ended(*outcome, health.era());
        }
        health
    }

    #[test]
    fn time_outs_in_a_row_end_in_rest() {
        assert!(!after(&[TimedOut, TimedOut]).is_resting());
        assert!(after(&[TimedOut, TimedOut, TimedOut]).is_resting());
        assert!(after(&[TimedOut, Failed, TimedOut, TimedOut]).is_resting());
        assert!(!after(&[TimedOut, TimedOut, Answered, TimedOut]).is_resting());
    }

    #[test]
    fn failing_fast_is_no_reason_to_rest() {
        let health = after(&[Failed; 100]);
        assert!(health.is_failing() && !health.is_resting());
        assert!(!after(&[Failed, Failed]).is_failing());
        assert!(!after(&[Failed, Failed, Failed, Answered]).is_failing());
    }

    #[test]
    fn what_began_before_the_rest_cannot_begin_another() {
        let mut health = Health::default();
        let before = health.era();
        for _ in 0..3 {
            health.ended(TimedOut, before);
        }
        health.look_ended(Answered, health.era());
        assert!(!health.is_resting());
        for _ in 0..10 {
            health.ended(TimedOut, before);
        }
        assert!(!health.is_resting());
        // An answer is one whenever it was asked for.
        let mut health = after(&[TimedOut; 3]);
        health.ended(Answered, before);
        assert!(!health.is_resting());
    }

    #[test]
    fn after_a_probe_one_time_out_is_enough() {
        let mut health = after(&[TimedOut; 3]);
        health.look_ended(Answered, health.era());
        assert!(!health.is_resting() && !health.is_failing());
        health.ended(TimedOut, health.era());
        assert!(health.is_resting());
        health.look_ended(Answered, health.era());
        health.ended(Answered, health.era());
        health.ended(TimedOut, health.era());
        assert!(!health.is_resting());
    }

    #[test]
    fn looks_that_are_answered_excuse_no_call_that_is_not() {
        let mut health = Health::default();
        for _ in 0..3 {
            health.look_ended(Answered, health.era());
            health.ended(TimedOut, health.era());
        }
        assert!(health.is_resting());
    }

    #[test]
    fn one_task_looks_until_the_rest_is_over() {
        let now = Instant::now();
        let mut health = after(&[TimedOut; 3]);
        assert!(health.begin_look());
        assert!(!health.begin_look());
        assert!(!health.end_look(now), "it goes on");
        assert!(!health.begin_look());
        health.look_ended(Answered, health.era());
        assert!(health.end_look(now));
        assert!(health.begin_look());
    }

    const NOW: u64 = 1_000_000;

    fn head(timestamp: u64, seen_at: Instant) -> Head {
        Head::new(timestamp, seen_at, NOW)
    }

    #[test]
    fn lag_is_what_time_does_not_explain() {
        let then = Instant::now();
        let later = then + Duration::from_secs(100);
        let young = head(NOW, later);
        assert_eq!(head(NOW - 500, later).behind(&young), 500);
        assert_eq!(head(NOW - 500, then).behind(&young), 400);
        assert_eq!(head(NOW - 90, then).behind(&young), 0, "it may have gone on since");
        assert_eq!(young.behind(&head(NOW - 500, then)), 0);
        // A chain that stands still, or has gone back: once both have shown it, nobody is late.
        assert_eq!(head(NOW - 500, then).behind(&head(NOW - 500, later)), 0);
        assert_eq!(head(NOW - 500, later).behind(&head(NOW - 500, then)), 0);
        // It has shown a younger one before.
        assert_eq!(head(NOW - 500, later).behind(&head(NOW, then)), 500);
    }

    #[test]
    fn a_block_of_the_future_makes_nobody_late() {
        let now = Instant::now();
        let future = head(NOW + 1_000, now);
        assert_eq!(head(NOW, now).behind(&future), 0);
        assert_eq!(head(NOW - 500, now).behind(&future), 0);
        // Seconds of difference between clocks are usual.
        assert_eq!(head(NOW - 500, now).behind(&head(NOW + AHEAD_SECONDS_MAX, now)), 515);
    }

    #[test]
    fn the_youngest_block_stands_until_all_have_gone_back() {
        let at = |seconds| Instant::now() + Duration::from_secs(seconds);
        let first = head(NOW, at(0));
        let known = youngest(None, &[Some(first), None]);
        assert_eq!(known, Some(first));
        // One has fallen behind what it showed itself; the other has not been seen since.
        let (old, other_old) = (head(NOW - 500, at(10)), head(NOW - 499, at(11)));
        assert_eq!(youngest(known, &[Some(old), None]), known);
        assert_eq!(youngest(known, &[Some(old), Some(head(NOW - 1, at(0)))]), known);
        assert_eq!(youngest(known, &[Some(old), Some(other_old)]), Some(other_old));
        let younger = head(NOW + 1, at(12));
        assert_eq!(youngest(known, &[Some(old), Some(younger)]), Some(younger));
        assert_eq!(youngest(known, &[Some(first), Some(head(NOW + 1_000, at(12)))]), known);
    }
}
