//! Tracks when the change happened that caused an update of endpoints, for latency measurements.

// upstream: staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_informer::Key;
use atoll_meta::object;
use atoll_meta::views::PodView;
use serde_json::Value;

/// Last seen state of each Service and its pods.
#[derive(Default)]
pub struct TriggerTimeTracker {
    states: Mutex<HashMap<Key, ServiceState>>,
}

struct ServiceState {
    service: String,
    /// Last transition of readiness, by pod name.
    pods: HashMap<String, String>,
}

impl TriggerTimeTracker {
    /// Returns the time of the earliest change since the last call. Times in this format compare like text.
    pub fn compute_trigger_time(&self, key: &Key, service: &Value, pods: &[Arc<Value>]) -> Option<String> {
        let created = object::creation_timestamp(service).unwrap_or_default().to_string();
        let times: HashMap<String, String> = pods.iter().filter_map(time_of).collect();
        let now = ServiceState { service: created, pods: times };
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let last = states.get(key);
        let earliest = match last {
            None => Some(now.service.clone()),
            Some(last) => {
                let changed = now.pods.iter().filter(|(name, time)| last.pods.get(*name) < Some(time));
                let own = Some(&now.service).filter(|created| **created > last.service);
                changed.map(|(_, time)| time).chain(own).min().cloned()
            }
        };
        states.insert(key.clone(), now);
        earliest.filter(|time| !time.is_empty())
    }

    pub fn forget(&self, key: &Key) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn time_of(pod: &Arc<Value>) -> Option<(String, String)> {
    let time = PodView::of(pod).condition("Ready")?.last_transition_time()?;
    Some((object::name(pod).into(), time.into()))
}
