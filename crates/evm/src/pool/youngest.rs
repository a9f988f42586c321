//! The youngest block that facts were lately read in.
//!
//! A node behind the same URL can be a block late, and its facts do for most things. What takes a promise back wants facts as
//! young as any before them. Not for ever: development chains go back, and stand still then.

use super::health::LAG_SECONDS_MAX;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Youngest(Mutex<Option<Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    number: u64,
    /// Unix seconds.
    at: u64,
}

impl Seen {
    fn is_recent(&self, now: u64) -> bool {
        self.at.saturating_add(LAG_SECONDS_MAX) >= now
    }
}

impl Youngest {
    pub(super) fn saw(&self, number: u64, now: u64) {
        let mut youngest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if youngest.is_none_or(|seen| seen.number <= number || !seen.is_recent(now)) {
            *youngest = Some(Seen { number, at: now });
        }
    }

    /// Its number, or 0.
    pub(super) fn number(&self, now: u64) -> u64 {
        let youngest = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        youngest.filter(|seen| seen.is_recent(now)).map_or(0, |seen| seen.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_node_makes_it_no_older_and_a_chain_that_went_back_does_in_time() {
        let youngest = Youngest::default();
        assert_eq!(youngest.number(100), 0);
        youngest.saw(7, 100);
        youngest.saw(6, 100 + LAG_SECONDS_MAX);
        assert_eq!(youngest.number(100 + LAG_SECONDS_MAX), 7);
        assert_eq!(youngest.number(101 + LAG_SECONDS_MAX), 0);
        youngest.saw(6, 101 + LAG_SECONDS_MAX);
        assert_eq!(youngest.number(101 + LAG_SECONDS_MAX), 6);
    }
}
