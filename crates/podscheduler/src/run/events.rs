//! Events in the form that kube-scheduler writes: repeated Events become a series.

// upstream: staging/src/k8s.io/client-go/tools/events/event_recorder.go
// upstream: staging/src/k8s.io/client-go/tools/events/event_broadcaster.go

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use atoll_informer::{ApiScope, Clock, Key, resources};
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Events that wait to be written; further ones are dropped.
const QUEUED: usize = 1000;
/// Events that are written concurrently, so that they share commits.
const CONCURRENCY: usize = 64;
/// Events that are remembered, so that repeated ones become a series.
const REMEMBERED: usize = 4096;

pub struct Events {
    sender: mpsc::Sender<QueuedEvent>,
    clock: Arc<dyn Clock>,
    name: Arc<str>,
}

struct QueuedEvent {
    key: Key,
    uid: Arc<str>,
    reason: &'static str,
    time: Timestamp,
    event: Value,
}

impl Events {
    /// Creates the sender of Events, and the task that writes them.
    pub fn new(
        api: ApiScope,
        clock: Arc<dyn Clock>,
        name: &Arc<str>,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, receiver) = mpsc::channel(QUEUED);
        (Events { sender, clock, name: name.clone() }, write(api, receiver))
    }

    pub fn normal(&self, pod: &Key, uid: &Arc<str>, reason: &'static str, action: &str, message: String) {
        self.note("Normal", pod, uid, reason, action, message);
    }

    pub fn warning(&self, pod: &Key, uid: &Arc<str>, reason: &'static str, action: &str, message: String) {
        self.note("Warning", pod, uid, reason, action, message);
    }

    fn note(
        &self,
        r#type: &str,
        pod: &Key,
        uid: &Arc<str>,
        reason: &'static str,
        action: &str,
        message: String,
    ) {
        let time = self.clock.now();
        let nanos = time.seconds.wrapping_mul(1_000_000_000).wrapping_add(time.nanos.into());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{nanos:x}", pod.name), "namespace": *pod.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": *pod.namespace, "name": *pod.name, "uid": **uid,
            },
            "type": r#type,
            "reason": reason,
            "action": action,
            "message": message,
            "eventTime": time.to_micro_time(),
            "firstTimestamp": null,
            "lastTimestamp": null,
            "reportingComponent": *self.name,
            "reportingInstance": format!("{}-atoll", self.name),
            "source": {},
        });
        // If the queue is full, the Event is dropped.
        let _ = self.sender.try_send(QueuedEvent { key: pod.clone(), uid: uid.clone(), reason, time, event });
    }
}

/// Identity of a series: uid of the Pod, and reason.
type SeriesKey = (Arc<str>, &'static str);

async fn write(api: ApiScope, mut queued: mpsc::Receiver<QueuedEvent>) {
    // The first Event of each series, and the number of repetitions.
    let mut series: HashMap<SeriesKey, (Key, u64)> = HashMap::new();
    let mut batch = Vec::with_capacity(CONCURRENCY);
    while queued.recv_many(&mut batch, CONCURRENCY).await > 0 {
        let (mut creating, mut started, mut repeated) = (JoinSet::new(), HashSet::new(), Vec::new());
        for queued in batch.drain(..) {
            let series_key = (queued.uid.clone(), queued.reason);
            if series.contains_key(&series_key) || !started.insert(series_key) {
                repeated.push(queued);
            } else {
                creating.spawn(create(api.clone(), queued));
            }
        }
        while let Some(created) = creating.join_next().await {
            let Ok(Some((series_key, place))) = created else { continue };
            if series.len() >= REMEMBERED {
                series.clear();
            }
            series.insert(series_key, (place, 1));
        }
        for QueuedEvent { uid, reason, time, .. } in repeated {
            let Some((first, count)) = series.get_mut(&(uid, reason)) else { continue };
            *count += 1;
            // Update the series at powers of two only, to save writes.
            if count.is_power_of_two() {
                let patch = json!({"series": {"count": *count, "lastObservedTime": time.to_micro_time()}});
                if let Err(status) = api.patch(&resources::EVENTS, first, "", &patch).await {
                    tracing::debug!(%status, event = %first, "failed to update an event series");
                }
            }
        }
    }
}

async fn create(api: ApiScope, queued: QueuedEvent) -> Option<(SeriesKey, Key)> {
    let QueuedEvent { key, uid, reason, event, .. } = queued;
    let place = key.sibling(event["metadata"]["name"].as_str().unwrap_or_default());
    match api.create(&resources::EVENTS, &key.workspace, &key.namespace, &event).await {
        Ok(_) => Some(((uid, reason), place)),
        // The namespace may be terminating or the quota exceeded; Events are best effort.
        Err(status) => {
            tracing::debug!(%status, %key, "failed to write an event");
            None
        }
    }
}
