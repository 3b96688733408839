//! Recorder of Events about objects: counts repeated Events, combines similar ones and drops excess ones.

// upstream: staging/src/k8s.io/client-go/tools/record/event.go

mod correlator;

use std::sync::{Arc, Mutex, PoisonError};

use atoll_meta::time::Timestamp;
use atoll_meta::{Status, names, object};
use correlator::Correlator;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{ApiScope, Clock, Key, resources};

/// Events that wait to be written; further ones are dropped.
const QUEUED: usize = 1000;

/// Event sink shared by the Recorders of a process. Its task ends when the last Recorder is dropped.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<QueuedEvent>,
    clock: Arc<dyn Clock>,
}

/// Records Events in the name of one controller.
#[derive(Clone)]
pub struct Recorder {
    events: Events,
    component: &'static str,
    correlator: Arc<Mutex<Correlator>>,
}

/// An Event to write, and its key.
struct QueuedEvent {
    key: Key,
    event: Value,
}

impl Events {
    pub fn new(api: ApiScope, clock: Arc<dyn Clock>) -> Events {
        let (sender, receiver) = mpsc::channel(QUEUED);
        tokio::spawn(write(api, receiver));
        Events { sender, clock }
    }

    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder { events: self.clone(), component, correlator: Arc::default() }
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
        let now = self.events.clock.now();
        let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name(&key.name, uid, now), "namespace": namespace},
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
        let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = correlator.correlate(&key.workspace, event, now) else { return };
        let key = Key::new(&key.workspace, namespace, object::name(&event));
        // If the queue is full, the Event is dropped.
        let _ = self.events.sender.try_send(QueuedEvent { key, event });
    }
}

/// Returns the name of an Event. Some object names cannot be part of an Event name; then the uid is used.
fn name(about: &str, uid: &str, now: Timestamp) -> String {
    let nanos = now.seconds.wrapping_mul(1_000_000_000).wrapping_add(now.nanos.into());
    let name = format!("{about}.{nanos:x}");
    match names::name_is_dns_subdomain(&name, false).is_empty() {
        true => name,
        false => format!("{uid}.{nanos:x}"),
    }
}

async fn write(api: ApiScope, mut queued: mpsc::Receiver<QueuedEvent>) {
    while let Some(QueuedEvent { key, event }) = queued.recv().await {
        // The namespace may be terminating or the quota exceeded; Events are best effort.
        if let Err(status) = write_one(&api, &key, &event).await {
            tracing::debug!(%status, %key, "failed to write an event");
        }
    }
}

async fn write_one(api: &ApiScope, key: &Key, event: &Value) -> Result<(), Status> {
    if event["count"].as_i64() > Some(1) {
        let patch = json!({
            "count": event["count"],
            "lastTimestamp": event["lastTimestamp"],
            "message": event["message"],
        });
        match api.patch(&resources::EVENTS, key, "", &patch).await {
            // The Event has expired; create it again.
            Err(status) if status.reason() == "NotFound" => {}
            other => return other.map(drop),
        }
    }
    api.create(&resources::EVENTS, &key.workspace, &key.namespace, event).await.map(drop)
}

#[cfg(test)]
mod tests;
