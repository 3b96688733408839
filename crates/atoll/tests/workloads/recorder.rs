//! Watches that are there before anything else is.

use std::sync::{Arc, Mutex};

use atoll_meta::object;
use atoll_testkit::wait::eventually;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::history::{Event, History};
use crate::player::items;

/// Whatever rules ask about.
const WATCHED: &[(&str, &str)] = &[
    ("/api/v1", "pods"),
    ("/api/v1", "nodes"),
    ("/api/v1", "persistentvolumeclaims"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "replicasets"),
    ("/apis/apps/v1", "statefulsets"),
    ("/apis/apps/v1", "daemonsets"),
    ("/apis/batch/v1", "jobs"),
    ("/apis/policy/v1", "poddisruptionbudgets"),
];

#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    troubles: Vec<String>,
}

pub struct Recorder {
    seen: Arc<Mutex<Seen>>,
    watching: Vec<JoinHandle<()>>,
}

/// A copy of what was seen.
pub struct Recorded(Vec<Event>);

impl Recorder {
    pub async fn start(cluster: &Cluster) -> Recorder {
        let mut recorder = Recorder { seen: Arc::default(), watching: Vec::new() };
        let client = cluster.client();
        for &(prefix, resource) in WATCHED {
            let path = cluster.path(&format!("{prefix}/{resource}"));
            let list = client.get(&path).await.unwrap().json();
            let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            recorder
                .seen
                .lock()
                .unwrap()
                .events
                .extend(items.into_iter().map(|item| event(resource, "ADDED", item)));
            let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=1800");
            let mut watch = client.watch(&path).await.unwrap();
            assert_eq!(watch.status(), 200, "{path}");
            let seen = recorder.seen.clone();
            recorder.watching.push(tokio::spawn(async move {
                let trouble = loop {
                    match watch.next().await {
                        Ok(Some(said)) => match said["type"].as_str() {
                            Some(kind @ ("ADDED" | "MODIFIED" | "DELETED")) => {
                                let event = event(resource, kind, said["object"].clone());
                                seen.lock().unwrap().events.push(event);
                            }
                            Some("BOOKMARK") => {}
                            _ => break said["object"].to_string(),
                        },
                        Ok(None) => break "it has ended".into(),
                        Err(error) => break error.to_string(),
                    }
                };
                seen.lock().unwrap().troubles.push(format!("the watch of {resource}: {trouble}"));
            }));
        }
        recorder
    }

    /// Waits until it has seen what everybody sees who asks now.
    pub async fn catch_up(&self, cluster: &Cluster) {
        let client = cluster.client();
        for &(prefix, resource) in WATCHED {
            let list = client.get(&cluster.path(&format!("{prefix}/{resource}"))).await.unwrap().json();
            for item in items(&list) {
                let now = event(resource, "ADDED", item.clone());
                let is_it = |event: &Event| {
                    event.resource == resource
                        && event.revision >= now.revision
                        && object::uid(&event.object) == object::uid(&now.object)
                };
                let has_seen = async || self.seen.lock().unwrap().events.iter().rev().any(is_it);
                eventually(&format!("{resource} as they are have been seen"), has_seen).await;
            }
        }
    }

    /// Everything so far.
    pub fn history(&self) -> Recorded {
        let mut events = self.seen.lock().unwrap().events.clone();
        events.sort_by_key(|event| event.revision);
        Recorded(events)
    }

    /// What kept it from seeing everything.
    pub fn troubles(&self) -> Vec<String> {
        self.seen.lock().unwrap().troubles.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for watching in &self.watching {
            watching.abort();
        }
    }
}

impl Recorded {
    pub fn of(&self, namespace: &str) -> History<'_> {
        let concerns = |event: &&Event| ["", namespace].contains(&object::namespace(&event.object));
        History(self.0.iter().filter(concerns).collect())
    }
}

fn event(resource: &'static str, kind: &str, object: Value) -> Event {
    let revision = object::resource_version(&object).parse().unwrap();
    Event { revision, resource, is_gone: kind == "DELETED", object }
}
