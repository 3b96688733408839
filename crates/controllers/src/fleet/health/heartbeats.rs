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
pub enum HeartbeatState {
    Never,
    /// No heartbeat since this process started observing, which was less than the grace period ago. The last
    /// stored state counts.
    Unknown {
        left: Duration,
    },
    /// The last heartbeat is older than the grace period.
    Expired {
        cause: ExpiryCause,
    },
    /// The last heartbeat is valid for the time left.
    Recent {
        left: Duration,
    },
}

/// Cause of an expired heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryCause {
    /// The syncer has announced that it stops.
    Stopped,
    /// The syncer is connected to its sync view, but sends no heartbeats.
    Connected,
    /// The syncer is not connected.
    Disconnected,
}

struct Heartbeat {
    /// The spec of the Lease.
    spec: Value,
    /// The time when the Lease was last seen to change, or was first seen.
    since: Instant,
    /// Whether the Lease has changed since this process started observing.
    has_changed: bool,
    /// The time since which the sync view is closed.
    closed: Option<Instant>,
    /// Whether the agent has a tunnel; `None` if the Lease does not tell.
    has_tunnel: Option<bool>,
}

impl Heartbeat {
    /// Whether the syncer stayed connected without heartbeats. The connection of a hanging syncer is closed
    /// after a while, that of a process that has ended immediately.
    fn was_connected(&self) -> bool {
        // Half of the lease duration: three heartbeats.
        let seconds = self.spec["leaseDurationSeconds"].as_u64().unwrap_or(30);
        let expired = self.closed.map(|closed| closed.saturating_duration_since(self.since));
        expired.is_none_or(|expired| expired >= Duration::from_secs(seconds) / 2)
    }
}

#[derive(Default)]
pub struct Heartbeats {
    known: Mutex<HashMap<Key, Heartbeat>>,
}

impl Heartbeats {
    /// Observes a Lease. Returns its cluster, if it must be reconciled now.
    pub fn observe(&self, lease: &Value, grace_period: Duration) -> Option<Key> {
        let name = object::label(lease, marks::CLUSTER)?;
        if object::name(lease) != marks::heartbeat(name)
            || object::namespace(lease) != marks::SYSTEM_NAMESPACE
        {
            return None;
        }
        let cluster = Key::of(lease).in_workspace(name);
        let (spec, now) = (&lease["spec"], Instant::now());
        let closed = (object::annotation(lease, marks::VIEW) != Some("open")).then_some(now);
        let has_tunnel = object::annotation(lease, marks::TUNNEL).map(|tunnel| tunnel == "open");
        let mut known = self.known();
        let Some(heartbeat) = known.get_mut(&cluster) else {
            let heartbeat =
                Heartbeat { spec: spec.clone(), since: now, has_changed: false, closed, has_tunnel };
            known.insert(cluster.clone(), heartbeat);
            return Some(cluster);
        };
        heartbeat.closed = closed.map(|now| heartbeat.closed.unwrap_or(now));
        let is_tunnel_changed = heartbeat.has_tunnel != has_tunnel;
        heartbeat.has_tunnel = has_tunnel;
        if heartbeat.spec == *spec {
            return is_tunnel_changed.then_some(cluster);
        }
        // Renewals before the grace period has passed do not need a reconciliation.
        let is_changed =
            !heartbeat.has_changed || now.saturating_duration_since(heartbeat.since) >= grace_period;
        *heartbeat = Heartbeat { spec: spec.clone(), since: now, has_changed: true, closed, has_tunnel };
        (is_changed || is_tunnel_changed).then_some(cluster)
    }

    /// Records that the Lease of a cluster was created after this process started observing.
    pub fn lease_created(&self, cluster: &Key) {
        if let Some(heartbeat) = self.known().get_mut(cluster) {
            heartbeat.has_changed = true;
        }
    }

    /// Whether the agent of a cluster has a tunnel; `None` if that is not known.
    pub fn has_tunnel(&self, cluster: &Key) -> Option<bool> {
        self.known().get(cluster)?.has_tunnel
    }

    pub fn forget(&self, cluster: &Key) {
        self.known().remove(cluster);
    }

    pub fn state(&self, cluster: &Key, grace_period: Duration) -> HeartbeatState {
        let known = self.known();
        let Some(heartbeat) = known.get(cluster) else { return HeartbeatState::Never };
        let left = grace_period.saturating_sub(heartbeat.since.elapsed());
        match (left.is_zero(), heartbeat.has_changed) {
            (false, true) => HeartbeatState::Recent { left },
            (false, false) => HeartbeatState::Unknown { left },
            (true, has_changed) => {
                let cause = match heartbeat.spec["holderIdentity"].as_str() {
                    None | Some("") => ExpiryCause::Stopped,
                    // A connection from before this process started observing may be closed by now.
                    Some(_) if heartbeat.was_connected() && has_changed => ExpiryCause::Connected,
                    Some(_) => ExpiryCause::Disconnected,
                };
                HeartbeatState::Expired { cause }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Heartbeat>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GRACE_PERIOD: Duration = Duration::from_secs(40);

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
        let (heartbeats, key) = (Heartbeats::default(), Key::new("w", "", "east"));
        let heartbeat = || heartbeats.state(&key, GRACE_PERIOD);
        let pass = async |seconds: u64| tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(heartbeat(), HeartbeatState::Never);
        // The initial state of a Lease does not tell whether its syncer is alive.
        assert_eq!(heartbeats.observe(&lease("1999", "one", "open"), GRACE_PERIOD), Some(key.clone()));
        assert_eq!(heartbeat(), HeartbeatState::Unknown { left: GRACE_PERIOD });
        pass(40).await;
        assert_eq!(heartbeat(), HeartbeatState::Expired { cause: ExpiryCause::Disconnected });
        // Any change counts, whatever renew time it has.
        for renewed in ["2099", "1970", "2026"] {
            assert!(
                heartbeats.observe(&lease(renewed, "one", "open"), GRACE_PERIOD).is_some(),
                "the heartbeat had expired"
            );
            assert_eq!(heartbeat(), HeartbeatState::Recent { left: GRACE_PERIOD });
            pass(30).await;
            assert_eq!(heartbeat(), HeartbeatState::Recent { left: Duration::from_secs(10) });
            assert_eq!(
                heartbeats.observe(&lease(&format!("{renewed}-1"), "one", "open"), GRACE_PERIOD),
                None
            );
            pass(39).await;
            assert!(matches!(heartbeat(), HeartbeatState::Recent { .. }));
            // An unchanged Lease is not a heartbeat.
            assert_eq!(
                heartbeats.observe(&lease(&format!("{renewed}-1"), "one", "open"), GRACE_PERIOD),
                None
            );
            pass(1).await;
            assert_eq!(heartbeat(), HeartbeatState::Expired { cause: ExpiryCause::Connected });
        }
        // A view that closes long after the last heartbeat belonged to a hanging syncer; one that closes soon
        // after it, to one that has ended.
        heartbeats.observe(&lease("2026-1", "one", "closed"), GRACE_PERIOD);
        assert_eq!(heartbeat(), HeartbeatState::Expired { cause: ExpiryCause::Connected });
        heartbeats.observe(&lease("2026-2", "one", "open"), GRACE_PERIOD);
        pass(12).await;
        heartbeats.observe(&lease("2026-2", "one", "closed"), GRACE_PERIOD);
        pass(28).await;
        heartbeats.observe(&lease("2026-2", "one", "closed"), GRACE_PERIOD);
        assert_eq!(heartbeat(), HeartbeatState::Expired { cause: ExpiryCause::Disconnected });
        heartbeats.observe(&lease("2026-2", "", "closed"), GRACE_PERIOD);
        assert!(matches!(heartbeat(), HeartbeatState::Recent { .. }), "an announced stop is a heartbeat");
        pass(40).await;
        assert_eq!(heartbeat(), HeartbeatState::Expired { cause: ExpiryCause::Stopped });
        // A tunnel that opens or closes is noticed at once.
        let mut tunnel = lease("2026-2", "", "closed");
        for (state, expected) in [("open", true), ("closed", false)] {
            tunnel["metadata"]["annotations"]["atoll.dev/tunnel"] = state.into();
            assert_eq!(heartbeats.observe(&tunnel, GRACE_PERIOD), Some(key.clone()));
            assert_eq!(heartbeats.has_tunnel(&key), Some(expected));
            assert_eq!(heartbeats.observe(&tunnel, GRACE_PERIOD), None);
        }
        heartbeats.forget(&key);
        assert_eq!((heartbeat(), heartbeats.has_tunnel(&key)), (HeartbeatState::Never, None));
        let mut other = lease("1", "one", "open");
        other["metadata"]["name"] = "another".into();
        assert_eq!(heartbeats.observe(&other, GRACE_PERIOD), None, "Leases with another name are ignored");
    }
}
