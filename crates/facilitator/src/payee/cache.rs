//! What may be kept, and for how long (spec/payee.md §2.6): what was read at a block hash, and what hashes to its own
//! name, for ever; a file from a web server for a minute; a failure for five seconds. Outcomes never.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Values by key, the oldest going first when there is no room.
pub(super) struct Cache<K, V> {
    inner: Mutex<Inner<K, V>>,
    bytes_max: usize,
}

struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// In the order of insertion; a key that was put again is here twice, the first time with an old turn.
    turns: VecDeque<(u64, K)>,
    turn: u64,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    turn: u64,
    until: Option<Instant>,
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Files are strangers' text.
        f.write_str("Cache")
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// What an entry takes beside its value.
    const ENTRY_BYTES: usize = 256;

    pub(super) fn new(bytes_max: usize) -> Self {
        let inner = Inner { entries: HashMap::new(), turns: VecDeque::new(), turn: 0, bytes: 0 };
        Self { inner: Mutex::new(inner), bytes_max }
    }

    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.entries.get(key)?;
        entry.until.is_none_or(|until| now < until).then(|| entry.value.clone())
    }

    /// Keeps a value of about `bytes` bytes until it is older than `age_max`; `None`: for ever.
    pub(super) fn put(&self, key: K, value: V, bytes: usize, age_max: Option<Duration>, now: Instant) {
        let until = age_max.map(|age_max| now + age_max);
        let bytes = bytes.saturating_add(Self::ENTRY_BYTES);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        inner.turn = inner.turn.wrapping_add(1);
        let turn = inner.turn;
        inner.turns.push_back((turn, key.clone()));
        inner.bytes = inner.bytes.saturating_add(bytes);
        if let Some(old) = inner.entries.insert(key, Entry { value, bytes, turn, until }) {
            inner.bytes = inner.bytes.saturating_sub(old.bytes);
        }
        // Turns of replaced entries go as well, or a key that is put for ever would fill the queue.
        while inner.bytes > self.bytes_max || inner.turns.len() > inner.entries.len().saturating_mul(2) + 16 {
            let Some((turn, key)) = inner.turns.pop_front() else { return };
            if inner.entries.get(&key).is_some_and(|entry| entry.turn == turn)
                && let Some(entry) = inner.entries.remove(&key)
            {
                inner.bytes = inner.bytes.saturating_sub(entry.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keeps_no_longer_and_no_more_than_it_may() {
        let cache = Cache::new(4_096);
        #[allow(clippy::disallowed_methods)] // the test's clock, which stands still
        let start = Instant::now();
        cache.put("file", 1, 100, Some(Duration::from_secs(60)), start);
        cache.put("block", 2, 100, None, start);
        assert_eq!(cache.get(&"file", start + Duration::from_secs(59)), Some(1));
        assert_eq!(cache.get(&"file", start + Duration::from_secs(60)), None);
        assert_eq!(cache.get(&"block", start + Duration::from_secs(1_000_000)), Some(2));

        cache.put("large", 3, 4_000, None, start);
        assert_eq!(cache.get(&"block", start), None, "the oldest went first");
        assert_eq!(cache.get(&"large", start), None, "larger than all the room, with what every entry takes");
        for value in 0..1_000 {
            cache.put("again", value, 100, None, start);
        }
        assert_eq!(cache.get(&"again", start), Some(999));
        let inner = cache.inner.lock().unwrap();
        assert!(inner.turns.len() < 40 && inner.bytes == 356);
    }
}
