//! Pending writes with reserved quota.
//!
//! The quota controller reads a quota, lists the namespace and writes the sum, on condition that the quota
//! has not changed. An object whose usage was reserved before and that is written after the list would be
//! missing in that sum. Such a sum is refused while writes are pending, and if one has completed since the
//! quota was last written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atoll_quota::Amounts;
use atoll_registry::Written;
use atoll_store::{Key, Revision};

/// Maximum time of a recount, from its list to its write.
const COUNT_TIME: Duration = Duration::from_secs(10);
/// Number of quotas above which idle entries are removed.
const CROWDED: usize = 1024;

#[derive(Default)]
pub struct Ledger {
    quotas: Mutex<HashMap<Key, Entry>>,
}

struct Entry {
    under_way: usize,
    /// Revision of the last completed write.
    ended: Revision,
    ended_at: Instant,
}

impl Entry {
    fn is_at_rest(&self) -> bool {
        self.under_way == 0 && self.ended_at.elapsed() > COUNT_TIME
    }
}

impl Ledger {
    /// Whether a sum from a quota read at `revision` is complete.
    pub fn is_current(&self, quota: &Key, revision: Revision) -> bool {
        let quotas = self.quotas();
        quotas
            .get(quota)
            .is_none_or(|entry| entry.is_at_rest() || (entry.under_way == 0 && entry.ended <= revision))
    }

    /// Whether a sum is refused only because the quota is older than the last completed write, which writing
    /// the quota again fixes.
    pub fn is_behind(&self, quota: &Key, revision: Revision) -> bool {
        let quotas = self.quotas();
        quotas.get(quota).is_some_and(|entry| {
            entry.under_way == 0
                && !entry.is_at_rest()
                && entry.ended > revision
                && entry.ended != Revision::MAX
        })
    }

    /// Records pending reservations: the quota's name, its key and the reserved amounts.
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

/// Reserved usage of a pending write. If it is dropped, the outcome of the write is unknown.
pub struct Taken {
    taken: Vec<(String, Key, Amounts)>,
    ledger: Arc<Ledger>,
}

impl Taken {
    /// Returns the reserved amounts by quota.
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
    fn a_count_must_be_newer_than_completed_writes() {
        let ledger = Arc::new(Ledger::default());
        let key = Key::from("core/resourcequotas/root/n/q");
        assert!(ledger.is_current(&key, 3), "nothing was reserved");
        let begin = || ledger.begin(vec![("q".into(), key.clone(), Amounts::default())]);
        let mut first = begin();
        let mut second = begin();
        assert!(!ledger.is_current(&key, 5), "two are pending");
        first.finish(Written::At(7));
        assert!(!ledger.is_current(&key, 8), "one is pending");
        assert!(!ledger.is_behind(&key, 5));
        second.finish(Written::No);
        assert!(!ledger.is_current(&key, 6), "revision 7 may be missing");
        assert!(ledger.is_behind(&key, 6));
        assert!(ledger.is_current(&key, 7));
        drop(begin());
        assert!(!ledger.is_current(&key, 100), "the outcome is unknown");
        assert!(!ledger.is_behind(&key, 100), "writing the quota again does not help");
    }
}
