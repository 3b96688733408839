//! Times of the last heartbeat of each cluster, by the local monotonic clock.
//!
//! A Lease contains its holder and renew time. Only the fact that it changed counts, and when the change was
//! seen here. So clocks of other machines, and clocks that jump, do not affect the health of a cluster.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::marks;
use atoll_informer::Key;
use atoll_meta::object;
use serde_json::Value;
use tokio::time::Instant;

/// State of a cluster's heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Never,
    /// No heartbeat since this process started observing, which was less than the grace period ago. The last
    /// stored state counts.
    NotYet {
        left: Duration,
    },
    /// The last heartbeat is older than the grace period.
    LongAgo {
        why: Silence,
    },
    /// The last heartbeat is valid for the time left.
    Lately {
        left: Duration,
    },
}

/// Cause of an expired heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The syncer has announced that it stops.
    Stopped,
    /// The syncer is connected to its sync view, but sends no heartbeats.
    Connected,
    /// The syncer is not connected.
    Gone,
}

struct Beat {
    /// The spec of the Lease.
    spec: Value,
    /// The time when the Lease was last seen to change, or was first seen.
    since: Instant,
    /// Whether the Lease has changed since this process started observing.
    has_changed: bool,
    /// The time since which the sync view is closed.
    closed: Option<Instant>,
}

impl Beat {
    /// Whether the syncer stayed connected without heartbeats. The connection of a hanging syncer is closed
    /// after a while, that of a process that has ended immediately.
    fn was_connected(&self) -> bool {
        // Half of the lease duration: three heartbeats.
        let seconds = self.spec["leaseDurationSeconds"].as_u64().unwrap_or(30);
        let silent = self.closed.map(|closed| closed.saturating_duration_since(self.since));
        silent.is_none_or(|silent| silent >= Duration::from_secs(seconds) / 2)
    }
}

#[derive(Default)]
pub struct Beats {
    known: Mutex<HashMap<Key, Beat>>,
}

impl Beats {
    /// Observes a Lease. Returns its cluster, if it must be reconciled now.
    pub fn saw(&self, lease: &Value, patience: Duration) -> Option<Key> {
        let name = object::label(lease, marks::CLUSTER)?;
        if object::name(lease) != marks::heartbeat(name)
            || object::namespace(lease) != marks::SYSTEM_NAMESPACE
        {
            return None;
        }
        let cluster = Key::of(lease).in_workspace(name);
        let (spec, now) = (&lease["spec"], Instant::now());
        let closed = (object::annotation(lease, marks::VIEW) != Some("open")).then_some(now);
        let mut known = self.known();
        let Some(beat) = known.get_mut(&cluster) else {
            let beat = Beat { spec: spec.clone(), since: now, has_changed: false, closed };
            known.insert(cluster.clone(), beat);
            return Some(cluster);
        };
        beat.closed = closed.map(|now| beat.closed.unwrap_or(now));
        if beat.spec == *spec {
            return None;
        }
        // Renewals before the grace period has passed do not need a reconciliation.
        let is_news = !beat.has_changed || now.saturating_duration_since(beat.since) >= patience;
        *beat = Beat { spec: spec.clone(), since: now, has_changed: true, closed };
        is_news.then_some(cluster)
    }

    /// Records that the Lease of a cluster was created after this process started observing.
    pub fn made(&self, cluster: &Key) {
        if let Some(beat) = self.known().get_mut(cluster) {
            beat.has_changed = true;
        }
    }

    pub fn forget(&self, cluster: &Key) {
        self.known().remove(cluster);
    }

    pub fn heard(&self, cluster: &Key, patience: Duration) -> Heard {
        let known = self.known();
        let Some(beat) = known.get(cluster) else { return Heard::Never };
        let left = patience.saturating_sub(beat.since.elapsed());
        match (left.is_zero(), beat.has_changed) {
            (false, true) => Heard::Lately { left },
            (false, false) => Heard::NotYet { left },
            (true, has_changed) => {
                let why = match beat.spec["holderIdentity"].as_str() {
                    None | Some("") => Silence::Stopped,
                    // A connection from before this process started observing may be closed by now.
                    Some(_) if beat.was_connected() && has_changed => Silence::Connected,
                    Some(_) => Silence::Gone,
                };
                Heard::LongAgo { why }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Beat>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(40);

    fn lease(renewed: &str, holder: &str, view: &str) -> Value {
        json!({
            "metadata": {
                "name": "cluster-east", "namespace": "atoll-system", "labels": { "atoll.dev/cluster": "east" },
                "annotations": { "atoll.dev/view": view, "atoll.dev/workspace-id": "w" },
            },
            "spec": { "renewTime": renewed, "holderIdentity": holder, "leaseDurationSeconds": 30 },
        })
    }

    #[tokio::test(start_paused = true)]
    async fn only_observed_changes_count() {
        let (beats, key) = (Beats::default(), Key::new("w", "", "east"));
        let heard = || beats.heard(&key, PATIENCE);
        let pass = async |seconds: u64| tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(heard(), Heard::Never);
        // The initial state of a Lease does not tell whether its syncer is alive.
        assert_eq!(beats.saw(&lease("1999", "one", "open"), PATIENCE), Some(key.clone()));
        assert_eq!(heard(), Heard::NotYet { left: PATIENCE });
        pass(40).await;
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Gone });
        // Any change counts, whatever renew time it has.
        for renewed in ["2099", "1970", "2026"] {
            assert!(
                beats.saw(&lease(renewed, "one", "open"), PATIENCE).is_some(),
                "the heartbeat had expired"
            );
            assert_eq!(heard(), Heard::Lately { left: PATIENCE });
            pass(30).await;
            assert_eq!(heard(), Heard::Lately { left: Duration::from_secs(10) });
            assert_eq!(beats.saw(&lease(&format!("{renewed}-1"), "one", "open"), PATIENCE), None);
            pass(39).await;
            assert!(matches!(heard(), Heard::Lately { .. }));
            // An unchanged Lease is not a heartbeat.
            assert_eq!(beats.saw(&lease(&format!("{renewed}-1"), "one", "open"), PATIENCE), None);
            pass(1).await;
            assert_eq!(heard(), Heard::LongAgo { why: Silence::Connected });
        }
        // A view that closes long after the last heartbeat belonged to a hanging syncer; one that closes soon
        // after it, to one that has ended.
        beats.saw(&lease("2026-1", "one", "closed"), PATIENCE);
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Connected });
        beats.saw(&lease("2026-2", "one", "open"), PATIENCE);
        pass(12).await;
        beats.saw(&lease("2026-2", "one", "closed"), PATIENCE);
        pass(28).await;
        beats.saw(&lease("2026-2", "one", "closed"), PATIENCE);
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Gone });
        beats.saw(&lease("2026-2", "", "closed"), PATIENCE);
        assert!(matches!(heard(), Heard::Lately { .. }), "an announced stop is a heartbeat");
        pass(40).await;
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Stopped });
        beats.forget(&key);
        assert_eq!(heard(), Heard::Never);
        let mut other = lease("1", "one", "open");
        other["metadata"]["name"] = "another".into();
        assert_eq!(beats.saw(&other, PATIENCE), None, "Leases with another name are ignored");
    }
}
