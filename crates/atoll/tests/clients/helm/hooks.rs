//! Completes Jobs and Pods in place of the controllers and kubelets that the servers lack.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use atoll_testkit::wait::Waiting;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::site::Site;

/// Completes objects until it is dropped.
pub struct Completer {
    completed: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<()>,
}

impl Completer {
    pub fn start(site: &Site) -> Completer {
        let completed = Arc::default();
        let task = tokio::spawn(complete(site.clone(), Arc::clone(&completed)));
        Completer { completed, task }
    }

    /// Returns the objects completed since the last call, as `job/NAME` or `pod/NAME`.
    pub fn completed(&self) -> Vec<String> {
        std::mem::take(&mut *self.completed.lock().unwrap()).into_iter().collect()
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn complete(site: Site, completed: Arc<Mutex<BTreeSet<String>>>) {
    let client = site.client();
    // The status field that says whether an object is finished, and the finished status.
    let ends = [
        ("apis/batch/v1", "job", "completionTime", finished_job()),
        ("api/v1", "pod", "phase", json!({ "phase": "Succeeded" })),
    ];
    loop {
        for (version, kind, field, status) in &ends {
            let path = format!("/{version}/namespaces/{}/{kind}s", site.namespace);
            let list = client.get(&path).await.json();
            for object in list["items"].as_array().into_iter().flatten() {
                if object["status"][field] == status[field] {
                    continue;
                }
                let name = object["metadata"]["name"].as_str().unwrap();
                // Recorded before Helm can observe the completion.
                completed.lock().unwrap().insert(format!("{kind}/{name}"));
                let patch = json!({ "status": status });
                let answer = client.merge(&format!("{path}/{name}/status"), &patch).await;
                // Helm may have deleted it in the meantime.
                assert!([200, 404].contains(&answer.status), "{kind} {name}: {}", answer.text());
            }
        }
        Waiting::until("there are more objects to complete").again().await;
    }
}

/// Returns the status that the Job controller writes, with a fixed time.
fn finished_job() -> Value {
    const THEN: &str = "2026-01-02T03:04:05Z";
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods", "lastProbeTime": THEN, "lastTransitionTime": THEN });
    json!({
        "startTime": THEN,
        "completionTime": THEN,
        "succeeded": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    })
}
