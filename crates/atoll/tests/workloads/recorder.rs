//! Watches that are opened before a scenario starts.

use std::sync::{Arc, Mutex};

use atoll_meta::object;
use atoll_testkit::Watch;
use atoll_testkit::wait::eventually;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::history::{Event, History};
use crate::player::items;

/// Resources that rules need.
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
struct Recording {
    events: Vec<Event>,
    errors: Vec<String>,
}

pub struct Recorder {
    recording: Arc<Mutex<Recording>>,
    watching: Vec<JoinHandle<()>>,
}

/// A copy of the recorded events.
pub struct RecordedEvents(Vec<Event>);

impl Recorder {
    pub async fn start(cluster: &Cluster) -> Recorder {
        let mut recorder = Recorder { recording: Arc::default(), watching: Vec::new() };
        let client = &cluster.admin;
        for &(prefix, resource) in WATCHED {
            let path = format!("{prefix}/{resource}");
            let list = client.get(&path).await.json();
            let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            recorder
                .recording
                .lock()
                .unwrap()
                .events
                .extend(items.into_iter().map(|item| event(resource, "ADDED", item)));
            let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=1800");
            let mut watch = Watch::open(client, &path).await;
            let recording = recorder.recording.clone();
            recorder.watching.push(tokio::spawn(async move {
                let error = loop {
                    match watch.next_line().await {
                        Ok(Some(change)) => match change["type"].as_str() {
                            Some(kind @ ("ADDED" | "MODIFIED" | "DELETED")) => {
                                let event = event(resource, kind, change["object"].clone());
                                recording.lock().unwrap().events.push(event);
                            }
                            Some("BOOKMARK") => {}
                            _ => break change["object"].to_string(),
                        },
                        Ok(None) => break "the watch has ended".into(),
                        Err(problem) => break problem,
                    }
                };
                recording.lock().unwrap().errors.push(format!("the watch of {resource}: {error}"));
            }));
        }
        recorder
    }

    /// Waits until the current state of all objects has been recorded.
    pub async fn catch_up(&self, cluster: &Cluster) {
        let client = &cluster.admin;
        for &(prefix, resource) in WATCHED {
            let list = client.get(&format!("{prefix}/{resource}")).await.json();
            for item in items(&list) {
                let now = event(resource, "ADDED", item.clone());
                let is_it = |event: &Event| {
                    event.resource == resource
                        && event.revision >= now.revision
                        && object::uid(&event.object) == object::uid(&now.object)
                };
                let has_seen = async || self.recording.lock().unwrap().events.iter().rev().any(is_it);
                eventually(&format!("the current {resource} are recorded"), has_seen).await;
            }
        }
    }

    /// Returns all events so far.
    pub fn history(&self) -> RecordedEvents {
        let mut events = self.recording.lock().unwrap().events.clone();
        events.sort_by_key(|event| event.revision);
        RecordedEvents(events)
    }

    /// Returns errors because of which the recording is incomplete.
    pub fn errors(&self) -> Vec<String> {
        self.recording.lock().unwrap().errors.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for watching in &self.watching {
            watching.abort();
        }
    }
}

impl RecordedEvents {
    pub fn of_namespace(&self, namespace: &str) -> History<'_> {
        let concerns = |event: &&Event| ["", namespace].contains(&object::namespace(&event.object));
        History(self.0.iter().filter(concerns).collect())
    }
}

fn event(resource: &'static str, kind: &str, object: Value) -> Event {
    let revision = object::resource_version(&object).parse().unwrap();
    Event { revision, resource, is_gone: kind == "DELETED", object }
}
