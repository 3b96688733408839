//! Backoff for the replacement of failed pods per node: one second, doubled each time.

// upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::Value;

use crate::shared::views::WorkloadView;
use crate::workloads::job::until;

const INITIAL_SECONDS: i64 = 1;
const MAX_SECONDS: i64 = 15 * 60;
/// Maximum number of entries; beyond it, expired ones are removed.
const MAX_ENTRIES: usize = 4096;

/// Uid and observed generation of a set, and a node.
type BackoffKey = (String, i64, String);

/// The delay in seconds and the time of the last failure by set and node.
#[derive(Default)]
pub struct FailedPodsBackoff(Mutex<HashMap<BackoffKey, (i64, Timestamp)>>);

impl FailedPodsBackoff {
    /// Returns how long a failed pod has to stay. `None` if it may be deleted now, which doubles the next
    /// delay.
    pub fn delay(&self, set: &Value, node: &str, now: Timestamp) -> Option<Duration> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |last: Timestamp| now.seconds - last.seconds > 2 * MAX_SECONDS;
        if known.len() >= MAX_ENTRIES {
            known.retain(|_, (_, last)| !is_old(*last));
        }
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        let generation = WorkloadView::of(set).status().observed_generation();
        let key = (object::uid(set).to_owned(), generation, node.to_owned());
        match known.get_mut(&key) {
            Some((delay, last)) if !is_old(*last) => {
                let left = until(Timestamp::new(last.seconds + *delay, last.nanos), now);
                if !left.is_zero() {
                    return Some(left);
                }
                (*delay, *last) = ((*delay * 2).min(MAX_SECONDS), now);
            }
            _ => drop(known.insert(key, (INITIAL_SECONDS, now))),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn delays_double() {
        let (failed_pods_backoff, set) = (FailedPodsBackoff::default(), json!({"metadata": {"uid": "u"}}));
        let wait = |node: &str, at: i64| {
            failed_pods_backoff.delay(&set, node, Timestamp::new(at, 0)).map(|wait| wait.as_secs())
        };
        assert_eq!(wait("one", 0), None);
        assert_eq!(wait("one", 0), Some(1));
        assert_eq!(wait("two", 0), None, "another node");
        assert_eq!(wait("one", 1), None);
        assert_eq!(wait("one", 1), Some(2));
        assert_eq!(wait("one", 2), Some(1));
        assert_eq!(wait("one", 3), None);
        assert_eq!(wait("one", 4), Some(3));
        assert_eq!(wait("one", 10_000), None, "expired entry");
        assert_eq!(wait("one", 10_000), Some(1));
    }
}
