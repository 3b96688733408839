//! Telling people what was done: Events about objects, repeated ones counted, too many left out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_meta::object;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Clock, Key, World, resources};

/// Events that wait to be written; more are left out.
const QUEUED: usize = 1000;
/// As many as this about one object in a row, then one in a while.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// Objects that are kept account of.
const REMEMBERED: usize = 4096;

/// Where the Recorders of a process write to. Ends with the last of them.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<Noted>,
    clock: Arc<dyn Clock>,
}

/// Tells in the name of one controller.
#[derive(Clone)]
pub struct Recorder {
    events: Events,
    component: &'static str,
    buckets: Arc<Mutex<HashMap<String, (f64, Instant)>>>,
}

struct Noted {
    key: Key,
    /// The same thing said again is the same event.
    sameness: String,
    event: Value,
}

impl Events {
    pub fn new(world: World, clock: Arc<dyn Clock>) -> Events {
        let (sender, receiver) = mpsc::channel(QUEUED);
        tokio::spawn(write(world, receiver));
        Events { sender, clock }
    }

    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder { events: self.clone(), component, buckets: Arc::default() }
    }
}

impl Recorder {
    pub fn normal(&self, kind: &crate::Resource, about: &Value, reason: &str, message: impl Into<String>) {
        self.note("Normal", kind, about, reason, message.into());
    }

    pub fn warning(&self, kind: &crate::Resource, about: &Value, reason: &str, message: impl Into<String>) {
        self.note("Warning", kind, about, reason, message.into());
    }

    fn note(&self, r#type: &str, resource: &crate::Resource, about: &Value, reason: &str, message: String) {
        let (uid, key) = (object::uid(about), Key::of(about));
        if !self.has_room(uid) {
            return;
        }
        let now = self.events.clock.now();
        let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
        let nanos = now.seconds.wrapping_mul(1_000_000_000).wrapping_add(now.nanos.into());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{nanos:x}", key.name), "namespace": namespace},
            "involvedObject": {
                "kind": resource.kind,
                "namespace": *key.namespace,
                "name": *key.name,
                "uid": uid,
                "apiVersion": resource.api_version(),
                "resourceVersion": object::resource_version(about),
            },
            "reason": reason,
            "message": message,
            "source": {"component": self.component},
            "firstTimestamp": now.to_time(),
            "lastTimestamp": now.to_time(),
            "count": 1,
            "type": r#type,
            "eventTime": null,
            "reportingComponent": self.component,
            "reportingInstance": "",
        });
        let sameness = format!("{}\n{uid}\n{}\n{type}\n{reason}\n{message}", key.workspace, self.component);
        let key = Key::new(&key.workspace, namespace, object::name(&event));
        // Whoever cannot keep up tells less.
        let _ = self.events.sender.try_send(Noted { key, sameness, event });
    }

    /// Whether there may be one more about this object.
    fn has_room(&self, uid: &str) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if buckets.len() >= REMEMBERED {
            buckets.retain(|_, (_, last)| now - *last < REFILL);
        }
        if buckets.len() >= REMEMBERED {
            buckets.clear();
        }
        let (tokens, last) = buckets.entry(uid.into()).or_insert((BURST, now));
        *tokens = (*tokens + (now - *last).as_secs_f64() / REFILL.as_secs_f64()).min(BURST);
        *last = now;
        let room = *tokens >= 1.0;
        if room {
            *tokens -= 1.0;
        }
        room
    }
}

async fn write(world: World, mut noted: mpsc::Receiver<Noted>) {
    let mut said: HashMap<String, (Key, i64)> = HashMap::new();
    while let Some(Noted { key, sameness, event }) = noted.recv().await {
        if let Some((first, count)) = said.get_mut(&sameness) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": event["lastTimestamp"]});
            if world.patch(&resources::EVENTS, first, "", &patch).await.is_ok() {
                continue;
            }
        }
        match world.create(&resources::EVENTS, &key.workspace, &key.namespace, &event).await {
            Ok(_) => {
                if said.len() >= REMEMBERED {
                    said.clear();
                }
                said.insert(sameness, (key, 1));
            }
            // Its namespace is going, or there is no room: nobody waits for it.
            Err(status) => tracing::debug!(%status, %key, "an event was not written"),
        }
    }
}

#[cfg(test)]
mod tests;
