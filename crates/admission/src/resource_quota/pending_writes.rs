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
use atoll_registry::WriteOutcome;
use atoll_store::{Key, Revision};

/// Maximum time of a recount, from its list to its write.
const COUNT_TIME: Duration = Duration::from_secs(10);
/// Number of quotas above which idle entries are removed.
const MAX_ENTRIES: usize = 1024;

#[derive(Default)]
pub struct PendingWrites {
    quotas: Mutex<HashMap<Key, QuotaEntry>>,
}

struct QuotaEntry {
    pending: usize,
    /// Revision of the last completed write.
    ended: Revision,
    ended_at: Instant,
}

impl QuotaEntry {
    fn is_idle(&self) -> bool {
        self.pending == 0 && self.ended_at.elapsed() > COUNT_TIME
    }
}

impl PendingWrites {
    /// Whether a sum from a quota read at `revision` is complete.
    pub fn is_current(&self, quota: &Key, revision: Revision) -> bool {
        let quotas = self.quotas();
        quotas
            .get(quota)
            .is_none_or(|entry| entry.is_idle() || (entry.pending == 0 && entry.ended <= revision))
    }

    /// Whether a sum is refused only because the quota is older than the last completed write, which writing
    /// the quota again fixes.
    pub fn is_behind(&self, quota: &Key, revision: Revision) -> bool {
        let quotas = self.quotas();
        quotas.get(quota).is_some_and(|entry| {
            entry.pending == 0 && !entry.is_idle() && entry.ended > revision && entry.ended != Revision::MAX
        })
    }

    /// Records pending reservations: the quota's name, its key and the reserved amounts.
    pub fn start(self: &Arc<Self>, taken: Vec<(String, Key, Amounts)>) -> PendingWrite {
        let mut quotas = self.quotas();
        if quotas.len() > MAX_ENTRIES {
            quotas.retain(|_, entry| !entry.is_idle());
        }
        for (_, key, _) in &taken {
            let fresh = QuotaEntry { pending: 0, ended: 0, ended_at: Instant::now() };
            quotas.entry(key.clone()).or_insert(fresh).pending += 1;
        }
        drop(quotas);
        PendingWrite { taken, pending_writes: self.clone() }
    }

    fn quotas(&self) -> MutexGuard<'_, HashMap<Key, QuotaEntry>> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved usage of a pending write. If it is dropped, the outcome of the write is unknown.
pub struct PendingWrite {
    taken: Vec<(String, Key, Amounts)>,
    pending_writes: Arc<PendingWrites>,
}

impl PendingWrite {
    /// Returns the reserved amounts by quota.
    pub fn amounts(&self) -> impl Iterator<Item = (&str, &Amounts)> {
        self.taken.iter().map(|(name, _, amounts)| (name.as_str(), amounts))
    }

    pub fn finish(&mut self, written: WriteOutcome) {
        let taken = std::mem::take(&mut self.taken);
        let mut quotas = self.pending_writes.quotas();
        for (_, key, _) in taken {
            let Some(entry) = quotas.get_mut(&key) else { continue };
            entry.pending = entry.pending.saturating_sub(1);
            let ended = match written {
                WriteOutcome::At(revision) => revision,
                WriteOutcome::NotWritten => continue,
                WriteOutcome::Unknown => Revision::MAX,
            };
            entry.ended = entry.ended.max(ended);
            entry.ended_at = Instant::now();
        }
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if !self.taken.is_empty() {
            self.finish(WriteOutcome::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_must_be_newer_than_completed_writes() {
        let pending_writes = Arc::new(PendingWrites::default());
        let key = Key::from("core/resourcequotas/root/n/q");
        assert!(pending_writes.is_current(&key, 3), "nothing was reserved");
        let start = || pending_writes.start(vec![("q".into(), key.clone(), Amounts::default())]);
        let mut first = start();
        let mut second = start();
        assert!(!pending_writes.is_current(&key, 5), "two are pending");
        first.finish(WriteOutcome::At(7));
        assert!(!pending_writes.is_current(&key, 8), "one is pending");
        assert!(!pending_writes.is_behind(&key, 5));
        second.finish(WriteOutcome::NotWritten);
        assert!(!pending_writes.is_current(&key, 6), "revision 7 may be missing");
        assert!(pending_writes.is_behind(&key, 6));
        assert!(pending_writes.is_current(&key, 7));
        drop(start());
        assert!(!pending_writes.is_current(&key, 100), "the outcome is unknown");
        assert!(!pending_writes.is_behind(&key, 100), "writing the quota again does not help");
    }
}
