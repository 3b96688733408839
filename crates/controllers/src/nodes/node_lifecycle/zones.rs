//! Limits the eviction rate of each zone: fewer evictions where many nodes fail, because then the control
//! plane may be disconnected.

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go
// upstream: pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atoll_informer::Key;
use atoll_meta::object;
use serde_json::Value;
use tokio::time::Instant;

use crate::settings::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    Initial,
    Normal,
    Partial,
    Full,
}

pub struct Zone {
    state: ZoneState,
    /// Evictions per second.
    rate: f64,
    /// Earliest time of the next eviction.
    next: Option<Instant>,
    /// Nodes to evict, in order.
    waiting: Vec<Key>,
    known: BTreeSet<Key>,
}

/// Change of the disruption state of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionChange {
    /// No change.
    None,
    /// All nodes have failed: evictions stop.
    StopEvictions,
    /// Some nodes recovered: all heartbeats count as just received.
    Resume,
}

/// The zones of a workspace, by name.
#[derive(Default)]
pub struct Zones(BTreeMap<String, Zone>);

/// Returns region and zone of a node.
pub fn of(node: &Value) -> String {
    let label = |names: [&str; 2]| {
        names.into_iter().find_map(|name| object::label(node, name)).unwrap_or_default().to_string()
    };
    let region = label(["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"]);
    let zone = label(["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]);
    format!("{region}:{zone}")
}

/// Returns the state of a zone with these numbers of ready and failed nodes.
fn state(ready: usize, failing: usize, threshold: f64) -> ZoneState {
    #[allow(clippy::cast_precision_loss)]
    let part = failing as f64 / (failing + ready).max(1) as f64;
    match () {
        () if ready == 0 && failing > 0 => ZoneState::Full,
        () if failing > 2 && part >= threshold => ZoneState::Partial,
        () => ZoneState::Normal,
    }
}

impl Zones {
    pub fn insert(&mut self, zone: String, settings: &Settings) {
        self.0.entry(zone).or_insert_with(|| Zone {
            state: ZoneState::Initial,
            rate: settings.node_eviction_rate,
            next: None,
            waiting: Vec::new(),
            known: BTreeSet::new(),
        });
    }

    /// Updates the zones from the numbers of ready and failed nodes.
    pub fn update(
        &mut self,
        counts: &BTreeMap<String, (usize, usize)>,
        settings: &Settings,
    ) -> DisruptionChange {
        let states: BTreeMap<&String, ZoneState> = counts
            .iter()
            .map(|(zone, (ready, failing))| {
                (zone, state(*ready, *failing, settings.unhealthy_zone_threshold))
            })
            .collect();
        for zone in counts.keys() {
            self.insert(zone.clone(), settings);
        }
        self.0.retain(|zone, _| counts.contains_key(zone));
        let all_full = states.values().all(|state| *state == ZoneState::Full);
        let all_were_full = self.0.values().all(|zone| zone.state == ZoneState::Full);
        match (all_full, all_were_full) {
            (true, true) => DisruptionChange::None,
            (true, false) => {
                for zone in self.0.values_mut() {
                    (zone.state, zone.rate) = (ZoneState::Full, 0.0);
                }
                DisruptionChange::StopEvictions
            }
            (false, _) => {
                for (name, zone) in &mut self.0 {
                    let size = counts.get(name).map_or(0, |(ready, failing)| ready + failing);
                    let state = states.get(name).copied().unwrap_or(ZoneState::Normal);
                    if state != zone.state || all_were_full {
                        zone.rate = rate(state, size, settings);
                    }
                    zone.state = state;
                }
                if all_were_full { DisruptionChange::Resume } else { DisruptionChange::None }
            }
        }
    }

    /// Requests the eviction of a node.
    pub fn add(&mut self, zone: &str, node: Key) {
        if let Some(zone) = self.0.get_mut(zone)
            && zone.known.insert(node.clone())
        {
            zone.waiting.push(node);
        }
    }

    /// Cancels the eviction of a node.
    pub fn remove(&mut self, zone: &str, node: &Key) {
        if let Some(zone) = self.0.get_mut(zone)
            && zone.known.remove(node)
        {
            zone.waiting.retain(|waiting| waiting != node);
        }
    }

    /// Returns the nodes that are due for eviction.
    pub fn due(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        for zone in self.0.values_mut().filter(|zone| zone.rate > 0.0) {
            while !zone.waiting.is_empty() && zone.next.is_none_or(|next| next <= now) {
                let node = zone.waiting.remove(0);
                zone.known.remove(&node);
                due.push(node);
                zone.next = Some(now + Duration::from_secs_f64(1.0 / zone.rate));
            }
        }
        due
    }
}

fn rate(state: ZoneState, size: usize, settings: &Settings) -> f64 {
    match state {
        ZoneState::Initial | ZoneState::Normal | ZoneState::Full => settings.node_eviction_rate,
        ZoneState::Partial if size > settings.large_cluster_size_threshold => {
            settings.secondary_node_eviction_rate
        }
        ZoneState::Partial => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_state_follows_the_number_of_failed_nodes() {
        for (ready, failing, expected) in [
            (0, 0, ZoneState::Normal),
            (5, 0, ZoneState::Normal),
            (0, 1, ZoneState::Full),
            (1, 2, ZoneState::Normal),
            (2, 3, ZoneState::Partial),
            (3, 3, ZoneState::Normal),
            (9, 11, ZoneState::Partial),
        ] {
            assert_eq!(state(ready, failing, 0.55), expected, "{ready} {failing}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_are_rate_limited() {
        let settings = Settings::default();
        let mut zones = Zones::default();
        let key = |name: &str| Key::new("", "", name);
        let counts = |ready, failing| BTreeMap::from([("z".to_string(), (ready, failing))]);
        assert_eq!(zones.update(&counts(8, 2), &settings), DisruptionChange::None);
        zones.add("z", key("a"));
        zones.add("z", key("b"));
        zones.add("z", key("a"));
        let start = Instant::now();
        assert_eq!(zones.due(start), [key("a")]);
        assert_eq!(zones.due(start + Duration::from_secs(9)), []);
        assert_eq!(zones.due(start + Duration::from_secs(10)), [key("b")]);
        zones.add("z", key("c"));
        assert_eq!(zones.update(&counts(4, 6), &settings), DisruptionChange::None);
        assert_eq!(zones.due(start + Duration::from_secs(99)), [], "many fail in a small zone");
        assert_eq!(zones.update(&counts(0, 10), &settings), DisruptionChange::StopEvictions);
        assert_eq!(zones.due(start + Duration::from_secs(199)), [], "all fail");
        assert_eq!(zones.update(&counts(0, 10), &settings), DisruptionChange::None);
        assert_eq!(zones.update(&counts(9, 1), &settings), DisruptionChange::Resume);
        assert_eq!(zones.due(start + Duration::from_secs(299)), [key("c")]);
        zones.add("z", key("d"));
        zones.remove("z", &key("d"));
        assert_eq!(zones.due(start + Duration::from_secs(399)), []);
    }

    #[test]
    fn a_failed_zone_is_evicted_if_another_is_healthy() {
        let settings = Settings::default();
        let mut zones = Zones::default();
        let counts = BTreeMap::from([("a".to_string(), (3, 0)), ("b".to_string(), (0, 3))]);
        assert_eq!(zones.update(&counts, &settings), DisruptionChange::None);
        zones.add("b", Key::new("", "", "n"));
        assert_eq!(zones.due(Instant::now()).len(), 1);
    }
}
