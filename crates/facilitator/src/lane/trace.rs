//! The log that tells which transaction used an authorization, or canceled it.
//!
//! It is hardly older than the payment, and the server may have been away for long. So the blocks since then are searched from
//! both ends, where it most likely is: a bounded part at a look, in ranges as large as the nodes allow. What was not found is
//! looked for ever more rarely, from ever earlier on, since blocks need not keep to the time of the database.

use crate::{clock, fault::Fault, network::NetworkService};
use alloy_primitives::B256;
use quittance_evm::{
    RpcFault,
    pool::RpcPool,
    watch::{self, Head, Log},
};
use quittance_protocol::{
    scheme::exact_eip3009::{AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC},
    settlement::{NewPayment, ReplayKey},
    units::UnixSeconds,
};
use quittance_store::model::Payment;
use std::{
    collections::HashMap,
    ops::ControlFlow::{self, Break, Continue},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// What tokens log about an authorization.
const TRACES: [B256; 2] = [AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC];

/// In how many blocks a question. Nodes differ in what they allow: a refused one is asked again in the next smaller range.
pub(crate) const RANGES_BLOCKS: [u64; 5] = [2_000, 500, 100, 10, 1];
/// How far back the log of an authorization is looked for that is said to be unused.
const LATE_BLOCKS: u64 = RANGES_BLOCKS[0];
/// Ranges searched at a look.
const RANGES_PER_LOOK_MAX: u32 = 24;

/// A search begins so long before its payment was made: blocks can be that far from the database's clock. Four times as long
/// after every search in vain.
const MARGIN_SECONDS: u64 = 600;
/// Time between two looks for one that was not found, or could not be looked for: none at first, then this, and twice as much
/// every time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// The longest while it is found, and its transaction cannot be read or is not deep enough.
const PAUSE_FOUND_MAX: Duration = Duration::from_secs(10);
/// Time for searches in one pass of the keeper. One that has begun is not cut short.
const PER_PASS_MAX_MS: u64 = 1_000;
/// A search that nobody has asked for in this time is over.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Where the searches of one network stand. Only memory: losing it means to begin them anew.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    searches: Mutex<HashMap<ReplayKey, Search>>,
    /// Which of [`RANGES_BLOCKS`] was taken last.
    range: AtomicUsize,
    /// Milliseconds that this pass of the keeper has spent on them.
    spent_ms: AtomicU64,
}

/// Blocks that are left to be searched, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    low: u64,
    high: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Newest,
    Oldest,
}

impl End {
    /// By turns.
    fn of_turn(turn: u32) -> Self {
        if turn.is_multiple_of(2) { Self::Newest } else { Self::Oldest }
    }
}

impl Left {
    /// So many blocks at one end, and what is left without them.
    fn split(self, end: End, blocks: u64) -> (Self, Option<Self>) {
        let Self { low, high } = self;
        match end {
            End::Newest => {
                let from = high.saturating_sub(blocks - 1).max(low);
                (Self { low: from, high }, (from > low).then(|| Self { low, high: from - 1 }))
            }
            End::Oldest => {
                let to = low.saturating_add(blocks - 1).min(high);
                (Self { low, high: to }, (to < high).then(|| Self { low: to + 1, high }))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Search {
    left: Option<Left>,
    is_found: bool,
    margin_seconds: u64,
    pause: Duration,
    looked_at: Instant,
    next_look: Instant,
}

impl Search {
    fn new() -> Self {
        let now = clock::instant();
        Self {
            left: None,
            is_found: false,
            margin_seconds: MARGIN_SECONDS,
            pause: Duration::ZERO,
            looked_at: now,
            next_look: now,
        }
    }

    fn wait(&mut self, pause_max: Duration) {
        self.next_look = clock::instant() + self.pause.min(pause_max);
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
    }
}

impl Traces {
    /// The keeper begins anew.
    pub(crate) fn begin_pass(&self) {
        self.spent_ms.store(0, Ordering::Relaxed);
    }

    /// Whether the keeper has other things to do than to search: a node that does not find a log, or not soon, must not hold up
    /// those whose receipt says everything.
    pub(crate) fn have_had_their_time(&self) -> bool {
        self.spent_ms.load(Ordering::Relaxed) >= PER_PASS_MAX_MS
    }

    /// Whether to look for the log of this authorization again: what was looked for in vain a moment ago is not there yet.
    pub(crate) fn is_due(&self, key: &ReplayKey) -> bool {
        self.searches().get(key).is_none_or(|search| search.next_look <= clock::instant())
    }

    fn get(&self, key: &ReplayKey) -> Search {
        self.searches().get(key).copied().unwrap_or_else(Search::new)
    }

    fn put(&self, key: ReplayKey, mut search: Search) {
        search.looked_at = clock::instant();
        let mut searches = self.searches();
        searches.retain(|_, other| other.looked_at.elapsed() < FORGOTTEN_AFTER);
        searches.insert(key, search);
    }

    fn searches(&self) -> MutexGuard<'_, HashMap<ReplayKey, Search>> {
        self.searches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transaction that has left a log of an authorization that is used at this head. `None`: not found yet.
pub(crate) async fn find(
    service: &NetworkService,
    payment: &Payment,
    head: &Head,
) -> Result<Option<B256>, Fault> {
    let key = payment.terms.key;
    let mut search = service.traces.get(&key);
    let begun = clock::instant();
    let looked = look(service, payment, head, &mut search).await;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    service.traces.spent_ms.fetch_add(took, Ordering::Relaxed);
    match &looked {
        Ok(Some(_)) if search.is_found => search.wait(PAUSE_FOUND_MAX),
        Ok(found) => search.is_found = found.is_some(),
        Err(_) => search.wait(PAUSE_MAX),
    }
    service.traces.put(key, search);
    Ok(looked?)
}

async fn look(
    service: &NetworkService,
    payment: &Payment,
    head: &Head,
    search: &mut Search,
) -> Result<Option<B256>, RpcFault> {
    let mut ranges = Ranges::new(service, &payment.terms);
    for turn in 0..RANGES_PER_LOOK_MAX {
        let left = search.left.unwrap_or(Left { low: 0, high: head.number });
        let asked = ranges.ask(left, End::of_turn(turn)).await?;
        if let Some(hash) = asked.found {
            // Its block may not be deep enough, or go away: then this is where to look next.
            search.left = Some(asked.range);
            return Ok(Some(hash));
        }
        let left = match (asked.rest, search.left) {
            // The newest blocks have it in most cases. Only now it matters where the oldest are.
            (Some(rest), None) => {
                let made_at = UnixSeconds(u64::try_from(payment.created_at).unwrap_or_default());
                let from = made_at.min(head.timestamp).0.saturating_sub(search.margin_seconds);
                let low = block_before(&service.pool, UnixSeconds(from), rest.high, ranges.blocks()).await?;
                (low <= rest.high).then_some(Left { low, ..rest })
            }
            (rest, _) => rest,
        };
        search.left = left;
        if left.is_none() {
            search.margin_seconds = search.margin_seconds.saturating_mul(4);
            search.wait(PAUSE_MAX);
            return Ok(None);
        }
    }
    Ok(None)
}

/// The same of an authorization that is said to be unused: what took our turn did so lately. As far back as one look goes.
pub(crate) async fn find_late(
    service: &NetworkService,
    terms: &NewPayment,
    head: &Head,
) -> Result<Option<B256>, Fault> {
    let mut ranges = Ranges::new(service, terms);
    let mut left = Left { low: head.number.saturating_sub(LATE_BLOCKS - 1), high: head.number };
    for _ in 0..RANGES_PER_LOOK_MAX {
        let asked = ranges.ask(left, End::Newest).await?;
        match asked {
            Asked { found: Some(hash), .. } => return Ok(Some(hash)),
            Asked { rest: Some(rest), .. } => left = rest,
            Asked { rest: None, .. } => break,
        }
    }
    Ok(None)
}

/// What a log says of the authorization: used, or canceled.
pub(crate) fn trace_in(terms: &NewPayment, log: &Log) -> Option<B256> {
    let key = &terms.key;
    let [topic, authorizer, nonce] = log.topics[..] else { return None };
    let is_ours = log.address == key.verifying_contract
        && authorizer == key.authorizer.into_word()
        && nonce == key.auth_nonce.0;
    (is_ours && TRACES.contains(&topic)).then_some(topic)
}

/// In how many blocks a question this node allows, at the newest blocks.
pub(crate) async fn range_allowed(pool: &RpcPool, head: &Head) -> Result<u64, RpcFault> {
    let mut refused = None;
    for blocks in RANGES_BLOCKS {
        let from = head.number.saturating_sub(blocks - 1);
        // Nobody's: every node has to look, and none finds anything.
        let topics = [&TRACES[..], &[B256::ZERO]];
        match watch::logs(pool, alloy_primitives::Address::ZERO, &topics, from, head.number).await {
            Ok(_) => return Ok(blocks),
            Err(fault) => refused = Some(fault),
        }
    }
    Err(refused.unwrap_or(RpcFault::Transport { method: "eth_getLogs" }))
}

/// What one question has told.
struct Asked {
    found: Option<B256>,
    range: Left,
    rest: Option<Left>,
}

/// Asks in ranges as large as the nodes allow.
struct Ranges<'a> {
    service: &'a NetworkService,
    terms: &'a NewPayment,
    index: usize,
}

impl<'a> Ranges<'a> {
    /// Begins with one larger than what was taken last: a node that refuses everything for a while soon has its old place.
    fn new(service: &'a NetworkService, terms: &'a NewPayment) -> Self {
        Self { service, terms, index: service.traces.range.load(Ordering::Relaxed).saturating_sub(1) }
    }

    fn blocks(&self) -> u64 {
        RANGES_BLOCKS.get(self.index).copied().unwrap_or(1)
    }

    async fn ask(&mut self, left: Left, end: End) -> Result<Asked, RpcFault> {
        let key = &self.terms.key;
        let topics = [&TRACES[..], &[key.authorizer.into_word()], &[key.auth_nonce.0]];
        loop {
            let (range, rest) = left.split(end, self.blocks());
            let (pool, token) = (&self.service.pool, key.verifying_contract);
            match watch::logs(pool, token, &topics, range.low, range.high).await {
                Ok(logs) => {
                    self.service.traces.range.store(self.index, Ordering::Relaxed);
                    let mut ours = logs.iter().rev().filter(|log| trace_in(self.terms, log).is_some());
                    return Ok(Asked { found: ours.find_map(|log| log.transaction_hash), range, rest });
                }
                Err(fault) if self.index + 1 == RANGES_BLOCKS.len() => return Err(fault),
                Err(_) => self.index += 1,
            }
        }
    }
}

/// The search for a block of before some time. No more than about forty questions on any chain.
struct Before {
    newest: u64,
    /// The youngest that is known to be old enough.
    found: Option<u64>,
    step: u64,
}

impl Before {
    fn new(newest: u64) -> Self {
        Self { newest, found: None, step: 64 }
    }

    /// Goes on with a block to look at, and ends with one that is at most so many blocks too early.
    fn next(&self, early_blocks_max: u64) -> ControlFlow<u64, u64> {
        match self.found {
            None => Continue(self.newest.saturating_sub(self.step)),
            Some(found) if self.newest - found > early_blocks_max => {
                Continue(found + (self.newest - found) / 2)
            }
            Some(found) => Break(found),
        }
    }

    fn answer(&mut self, number: u64, is_before: bool) {
        if is_before || number == 0 {
            self.found = Some(number);
        } else {
            self.newest = number;
            self.step = self.step.saturating_mul(4);
        }
    }
}

async fn block_before(
    pool: &RpcPool,
    time: UnixSeconds,
    newest: u64,
    early_blocks_max: u64,
) -> Result<u64, RpcFault> {
    let mut before = Before::new(newest);
    loop {
        match before.next(early_blocks_max) {
            Continue(number) => before.answer(number, watch::block(pool, number).await?.timestamp < time),
            Break(found) => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_block_is_found_with_few_questions() {
        // A chain with four blocks a second, and what a moment of it, an hour, a day and a year are.
        for newest in [0, 10, 25_000, 500_000_000_u64] {
            for age in [0, 1, 63, 64, 14_400, 345_600, 126_144_000] {
                for early_blocks_max in RANGES_BLOCKS {
                    let (first, mut before, mut asked) = (newest.saturating_sub(age), Before::new(newest), 0);
                    let found = loop {
                        match before.next(early_blocks_max) {
                            Continue(number) => before.answer(number, number < first),
                            Break(found) => break found,
                        }
                        asked += 1;
                    };
                    assert!(found == 0 || found < first, "{newest} {age} {early_blocks_max}: {found}");
                    assert!(found + early_blocks_max >= first, "{newest} {age} {early_blocks_max}: {found}");
                    assert!(asked <= 42, "{newest} {age} {early_blocks_max}: {asked}");
                }
            }
        }
    }

    /// How many questions until this block was in one.
    fn questions(mut left: Left, sought: u64, blocks: u64) -> Option<u32> {
        for turn in 0.. {
            let (range, rest) = left.split(End::of_turn(turn), blocks);
            assert!(range.low <= range.high && range.high - range.low < blocks);
            if (range.low..=range.high).contains(&sought) {
                return Some(turn + 1);
            }
            left = rest?;
        }
        None
    }

    #[test]
    fn every_block_is_searched_and_those_at_the_ends_first() {
        let left = Left { low: 1_000_000, high: 1_030_000 };
        for blocks in RANGES_BLOCKS {
            assert_eq!(questions(left, left.high, blocks), Some(1));
            assert_eq!(questions(left, left.low, blocks), Some(2));
            for sought in (left.low..=left.high).step_by(997) {
                assert!(questions(left, sought, blocks).is_some(), "{sought} in {blocks}");
            }
            assert_eq!(questions(left, left.high + 1, blocks), None);
        }
        assert_eq!(questions(Left { low: 0, high: 0 }, 0, 2_000), Some(1));
    }
}
