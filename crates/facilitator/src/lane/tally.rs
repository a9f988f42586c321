//! How many are open under an address, without asking the store: what it last said, and what this process has begun since.
//!
//! A bound that rests on this count holds for one process. What is not certain counts as open.

use alloy_primitives::Address;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Counts by payer, or by signer.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

type ByAddress = HashMap<Address, usize>;

#[derive(Debug, Default)]
struct Counts {
    /// As the store last said.
    stored: ByAddress,
    /// Stored before the question that is under way.
    before: ByAddress,
    /// Stored since then: in the store's answer, or not.
    since: ByAddress,
    /// About to be stored.
    coming: ByAddress,
}

impl Counts {
    fn maps(&self) -> [&ByAddress; 4] {
        [&self.stored, &self.before, &self.since, &self.coming]
    }

    fn of(&self, address: Address) -> usize {
        self.maps().iter().filter_map(|map| map.get(&address)).sum()
    }

    fn all(&self) -> usize {
        self.maps().iter().flat_map(|map| map.values()).sum()
    }
}

/// One that is about to be stored. Dropped, it was not.
#[derive(Debug)]
pub(crate) struct Coming<'a> {
    tally: &'a Tally,
    address: Address,
}

impl Coming<'_> {
    /// It is stored.
    pub(crate) fn stored(self) {
        *self.tally.lock().since.entry(self.address).or_default() += 1;
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let mut counts = self.tally.lock();
        if let Some(count) = counts.coming.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.coming.remove(&self.address);
            }
        }
    }
}

impl Tally {
    /// How many are open under this address.
    pub(crate) fn of(&self, address: Address) -> usize {
        self.lock().of(address)
    }

    /// One more, if there is room, judged by how many there are under the address and in all.
    pub(crate) fn one_more(
        &self,
        address: Address,
        has_room: impl FnOnce(usize, usize) -> bool,
    ) -> Option<Coming<'_>> {
        let mut counts = self.lock();
        if !has_room(counts.of(address), counts.all()) {
            return None;
        }
        *counts.coming.entry(address).or_default() += 1;
        Some(Coming { tally: self, address })
    }

    /// To be called before the store is asked: what is stored by now will be in its answer.
    pub(crate) fn asking(&self) {
        let counts = &mut *self.lock();
        for (address, count) in counts.since.drain() {
            *counts.before.entry(address).or_default() += count;
        }
    }

    /// The store's answer.
    pub(crate) fn answered(&self, stored: ByAddress) {
        let counts = &mut *self.lock();
        counts.before.clear();
        counts.stored = stored;
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Address = Address::repeat_byte(1);

    fn one_more(tally: &Tally) -> Coming<'_> {
        tally.one_more(ONE, |_, _| true).unwrap()
    }

    #[test]
    fn what_is_coming_counts_until_it_is_given_up() {
        let tally = Tally::default();
        let coming = one_more(&tally);
        assert_eq!((tally.of(ONE), tally.of(Address::ZERO)), (1, 0));
        assert!(tally.one_more(ONE, |own, all| own + all < 2).is_none());
        drop(coming);
        assert_eq!(tally.of(ONE), 0);
    }

    #[test]
    fn nothing_stored_is_forgotten_before_the_store_has_counted_it() {
        let tally = Tally::default();
        one_more(&tally).stored();
        tally.asking();
        // Too late for the answer.
        one_more(&tally).stored();
        assert_eq!(tally.of(ONE), 2);
        tally.answered([(ONE, 1)].into());
        assert_eq!(tally.of(ONE), 2);
        tally.asking();
        tally.answered([(ONE, 2)].into());
        assert_eq!(tally.of(ONE), 2);
        tally.asking();
        tally.answered(ByAddress::new());
        assert_eq!(tally.of(ONE), 0);
    }

    #[test]
    fn a_question_without_an_answer_forgets_nothing() {
        let tally = Tally::default();
        one_more(&tally).stored();
        tally.asking();
        tally.asking();
        assert_eq!(tally.of(ONE), 1);
    }
}
