//! Completes Jobs and Pods in place of the controllers and kubelets that this cluster lacks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use atoll_testkit::wait::Waiting;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::site::Site;

/// Works until it is dropped.
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

    /// What has been completed since this was last asked: `job/` or `pod/` and a name.
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
    // The field of a status that tells what is finished, and the status then.
    let ends = [
        ("apis/batch/v1", "job", "completionTime", finished_job()),
        ("api/v1", "pod", "phase", json!({ "phase": "Succeeded" })),
    ];
    loop {
        for (version, kind, field, status) in &ends {
            let path = format!("/{version}/namespaces/{}/{kind}s", site.namespace);
            let list = client.get(&path).await.unwrap().json();
            for object in list["items"].as_array().into_iter().flatten() {
                if object["status"][field] == status[field] {
                    continue;
                }
                let name = object["metadata"]["name"].as_str().unwrap();
                // Named before Helm can hear of it.
                completed.lock().unwrap().insert(format!("{kind}/{name}"));
                let patch = json!({ "status": status });
                let answer = client.patch(&format!("{path}/{name}/status"), "merge", &patch).await.unwrap();
                // Helm may have deleted it meanwhile.
                assert!([200, 404].contains(&answer.status), "{kind} {name}: {}", answer.text());
            }
        }
        Waiting::until("there is more to complete").again().await;
    }
}

/// As the Job controller leaves it, long ago.
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
