//! Builds the pods of a Job, with the tracking finalizer and an index if the Job is indexed.

// upstream: pkg/controller/job/job_controller.go
// upstream: pkg/controller/job/indexed_job_utils.go

use atoll_informer::resources;
use atoll_meta::object;
use serde_json::{Value, json};

use super::policies::failure_action;
use crate::shared::pods;
use crate::shared::views::JobView;

/// Finalizer of pods that are not counted yet.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Label and annotation with the completion index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Maximum length of a name prefix, to which the server adds a suffix.
const MAX_BASE_LENGTH: usize = 58;

pub fn is_tracked(pod: &Value) -> bool {
    object::finalizers(pod).any(|finalizer| finalizer == TRACKING)
}

pub fn index(pod: &Value) -> Option<i64> {
    object::annotation(pod, INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// Returns how often pods of this index had failed when the pod was created: counted and ignored failures.
pub fn failures_before(pod: &Value) -> (i64, i64) {
    let count = |key: &str| {
        let value = object::annotation(pod, key).and_then(|text| text.parse::<i32>().ok());
        value.map_or(0, |value| i64::from(value.max(0)))
    };
    (count(FAILURES), count(IGNORED_FAILURES))
}

/// Returns a pod of a non-indexed Job.
pub fn new_pod(job: &Value) -> Value {
    let mut pod = pods::from_template(&resources::JOBS, job, JobView::of(job).template());
    track(&mut pod);
    pod
}

/// Returns a pod for an index. `before` is the failed pod that it replaces.
pub fn new_indexed_pod(job: &Value, index: i64, before: Option<&Value>) -> Value {
    let mut pod = new_pod(job);
    for containers in ["initContainers", "containers"] {
        for container in pod["spec"][containers].as_array_mut().into_iter().flatten() {
            add_variable(container);
        }
    }
    let text = index.to_string();
    object::set_annotation(&mut pod, INDEX, &text);
    object::set_label(&mut pod, INDEX, &text);
    let name = object::name(job);
    pod["spec"]["hostname"] = format!("{name}-{index}").into();
    let ending = format!("-{index}-");
    let kept = name.len().min(MAX_BASE_LENGTH - ending.len());
    pod["metadata"]["generateName"] = format!("{}{ending}", &name[..kept]).into();
    if JobView::of(job).backoff_limit_per_index().is_some() {
        let (counted, ignored) = before.map_or((0, 0), |before| failures_after(job, before));
        object::set_annotation(&mut pod, FAILURES, &counted.to_string());
        if ignored > 0 {
            object::set_annotation(&mut pod, IGNORED_FAILURES, &ignored.to_string());
        }
    }
    pod
}

fn failures_after(job: &Value, failed: &Value) -> (i64, i64) {
    let (counted, ignored) = failures_before(failed);
    match failure_action(JobView::of(job).pod_failure_policy(), failed).counts() {
        true => (counted + 1, ignored),
        false => (counted, ignored + 1),
    }
}

fn track(pod: &mut Value) {
    if !is_tracked(pod) {
        let mut finalizers: Vec<String> = object::finalizers(pod).map(String::from).collect();
        finalizers.push(TRACKING.into());
        object::set_finalizers(pod, &finalizers);
    }
}

fn add_variable(container: &mut Value) {
    let all = container["env"].as_array().into_iter().flatten();
    if all.into_iter().any(|variable| variable["name"] == INDEX_VARIABLE) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    let variable = json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    match container["env"].as_array_mut() {
        Some(all) => all.push(variable),
        None => container["env"] = json!([variable]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "n", "uid": "u"},
            "spec": {"completionMode": "Indexed", "template": {
                "metadata": {"labels": {"a": "b"}, "finalizers": ["own/one"]},
                "spec": {"containers": [{"name": "c"}, {"name": "d", "env": [{"name": INDEX_VARIABLE, "value": "9"}]}]},
            }},
        })
    }

    #[test]
    fn pods_are_tracked() {
        let pod = new_pod(&job("j"));
        assert_eq!(pod["metadata"]["finalizers"], json!(["own/one", TRACKING]));
        assert_eq!(object::generate_name(&pod), "j-");
        assert_eq!(index(&pod), None);
    }

    #[test]
    fn pods_have_their_index() {
        let pod = new_indexed_pod(&job("j"), 3, None);
        assert_eq!((object::annotation(&pod, INDEX), object::label(&pod, INDEX)), (Some("3"), Some("3")));
        assert_eq!(pod["spec"]["hostname"], "j-3");
        assert_eq!(object::generate_name(&pod), "j-3-");
        let variable = &pod["spec"]["containers"][0]["env"][0];
        let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
        assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], path);
        assert_eq!(pod["spec"]["containers"][1]["env"][0]["value"], "9", "an existing variable is kept");
        assert_eq!(object::annotation(&pod, FAILURES), None);
        let long = new_indexed_pod(&job(&"x".repeat(63)), 12, None);
        assert_eq!(object::generate_name(&long).len(), MAX_BASE_LENGTH);
        assert!(object::generate_name(&long).ends_with("x-12-"));
    }

    #[test]
    fn failure_counts_are_passed_to_the_next_pod() {
        let mut job = job("j");
        job["spec"]["backoffLimitPerIndex"] = 3.into();
        let first = new_indexed_pod(&job, 0, None);
        assert_eq!(failures_before(&first), (0, 0));
        assert_eq!(object::annotation(&first, FAILURES), Some("0"));
        let second = new_indexed_pod(&job, 0, Some(&first));
        assert_eq!(failures_before(&second), (1, 0));
        let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "X", "status": "True"}]});
        job["spec"]["podFailurePolicy"] = json!({"rules": [rule]});
        let mut disrupted = second;
        disrupted["status"] = json!({"conditions": [{"type": "X", "status": "True"}]});
        assert_eq!(failures_before(&new_indexed_pod(&job, 0, Some(&disrupted))), (1, 1));
    }
}
