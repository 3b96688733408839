//! Events in the form that kube-scheduler writes: one for each thing said of a Pod, with a series if it is said again.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_informer::{Clock, Key, World, resources};
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Events that wait to be written; more are left out.
const QUEUED: usize = 1000;
/// Events that are remembered, so that the next of the kind becomes part of a series.
const REMEMBERED: usize = 4096;

pub struct Events {
    sender: mpsc::Sender<Noted>,
    clock: Arc<dyn Clock>,
    name: Arc<str>,
}

struct Noted {
    key: Key,
    uid: Arc<str>,
    reason: &'static str,
    time: Timestamp,
    event: Value,
}

impl Events {
    /// Where events go, and what writes them.
    pub fn new(
        world: World,
        clock: Arc<dyn Clock>,
        name: &Arc<str>,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, receiver) = mpsc::channel(QUEUED);
        (Events { sender, clock, name: name.clone() }, write(world, receiver))
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
        // Whoever cannot keep up tells less.
        let _ = self.sender.try_send(Noted { key: pod.clone(), uid: uid.clone(), reason, time, event });
    }
}

async fn write(world: World, mut noted: mpsc::Receiver<Noted>) {
    // The event of which a series is made, and how often the same has been said.
    let mut said: HashMap<(Arc<str>, &'static str), (Key, u64)> = HashMap::new();
    while let Some(Noted { key, uid, reason, time, event }) = noted.recv().await {
        if let Some((first, count)) = said.get_mut(&(uid.clone(), reason)) {
            *count += 1;
            // A few of a series say as much as all of them.
            if !count.is_power_of_two() {
                continue;
            }
            let patch = json!({"series": {"count": *count, "lastObservedTime": time.to_micro_time()}});
            if world.patch(&resources::EVENTS, first, "", &patch).await.is_ok() {
                continue;
            }
        }
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        let place = key.beside(name);
        match world.create(&resources::EVENTS, &key.workspace, &key.namespace, &event).await {
            Ok(_) => {
                if said.len() >= REMEMBERED {
                    said.clear();
                }
                said.insert((uid, reason), (place, 1));
            }
            // Its namespace is going, or there is no room: nobody waits for it.
            Err(status) => tracing::debug!(%status, %key, "an event was not written"),
        }
    }
}
