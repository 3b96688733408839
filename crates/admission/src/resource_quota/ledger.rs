//! Which writes that a quota has made room for are still under way.
//!
//! A namespace is counted again by someone who reads the quota, lists what is there and writes the sum, on condition that
//! the quota has not changed. An object whose room was taken before and that is written after the list would be missing in
//! that sum. So such a sum is refused while writes are under way, and when one has ended since the quota was last written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atoll_quota::Amounts;
use atoll_registry::Written;
use atoll_store::{Key, Revision};

/// No count takes longer from its list to its write.
const COUNT_TIME: Duration = Duration::from_secs(10);
/// Above so many quotas those that are at rest are looked for and forgotten.
const CROWDED: usize = 1024;

#[derive(Default)]
pub struct Ledger {
    quotas: Mutex<HashMap<Key, Entry>>,
}

struct Entry {
    under_way: usize,
    /// The last object was written here.
    ended: Revision,
    ended_at: Instant,
}

impl Entry {
    fn is_at_rest(&self) -> bool {
        self.under_way == 0 && self.ended_at.elapsed() > COUNT_TIME
    }
}

impl Ledger {
    /// Whether a sum of someone who read the quota at `revision` has everything.
    pub fn is_current(&self, quota: &Key, revision: Revision) -> bool {
        let quotas = self.quotas();
        quotas
            .get(quota)
            .is_none_or(|entry| entry.is_at_rest() || (entry.under_way == 0 && entry.ended <= revision))
    }

    /// Whether a sum is refused only because the quota is older than the last write: written again, it is not.
    pub fn is_behind(&self, quota: &Key, revision: Revision) -> bool {
        let quotas = self.quotas();
        quotas.get(quota).is_some_and(|entry| {
            entry.under_way == 0
                && !entry.is_at_rest()
                && entry.ended > revision
                && entry.ended != Revision::MAX
        })
    }

    /// Writes these down as taken and under way: name of the quota, its key and what was taken of it.
    pub fn begin(self: &Arc<Self>, taken: Vec<(String, Key, Amounts)>) -> Taken {
        let mut quotas = self.quotas();
        if quotas.len() > CROWDED {
            quotas.retain(|_, entry| !entry.is_at_rest());
        }
        for (_, key, _) in &taken {
            let fresh = Entry { under_way: 0, ended: 0, ended_at: Instant::now() };
            quotas.entry(key.clone()).or_insert(fresh).under_way += 1;
        }
        drop(quotas);
        Taken { taken, ledger: self.clone() }
    }

    fn quotas(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room that was taken for a write that is under way. Dropped, nobody knows how the write ended.
pub struct Taken {
    taken: Vec<(String, Key, Amounts)>,
    ledger: Arc<Ledger>,
}

impl Taken {
    /// What was taken of which quota.
    pub fn amounts(&self) -> impl Iterator<Item = (&str, &Amounts)> {
        self.taken.iter().map(|(name, _, amounts)| (name.as_str(), amounts))
    }

    pub fn finish(&mut self, written: Written) {
        let taken = std::mem::take(&mut self.taken);
        let mut quotas = self.ledger.quotas();
        for (_, key, _) in taken {
            let Some(entry) = quotas.get_mut(&key) else { continue };
            entry.under_way = entry.under_way.saturating_sub(1);
            let ended = match written {
                Written::At(revision) => revision,
                Written::No => continue,
                Written::Unknown => Revision::MAX,
            };
            entry.ended = entry.ended.max(ended);
            entry.ended_at = Instant::now();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.taken.is_empty() {
            self.finish(Written::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_must_be_younger_than_what_it_counts() {
        let ledger = Arc::new(Ledger::default());
        let key = Key::from("core/resourcequotas/root/n/q");
        assert!(ledger.is_current(&key, 3), "nothing was ever taken");
        let begin = || ledger.begin(vec![("q".into(), key.clone(), Amounts::default())]);
        let mut first = begin();
        let mut second = begin();
        assert!(!ledger.is_current(&key, 5), "two are under way");
        first.finish(Written::At(7));
        assert!(!ledger.is_current(&key, 8), "one is under way");
        assert!(!ledger.is_behind(&key, 5));
        second.finish(Written::No);
        assert!(!ledger.is_current(&key, 6), "7 may not have been seen");
        assert!(ledger.is_behind(&key, 6));
        assert!(ledger.is_current(&key, 7));
        drop(begin());
        assert!(!ledger.is_current(&key, 100), "nobody knows what became of it");
        assert!(!ledger.is_behind(&key, 100), "and writing the quota again tells nothing");
    }
}
