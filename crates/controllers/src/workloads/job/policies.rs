//! Pod failure policies and success policies.

// upstream: pkg/controller/job/pod_failure_policy.go
// upstream: pkg/controller/job/success_policy.go

use atoll_meta::object;
use atoll_meta::views::{ConditionView, PodView};
use serde_json::Value;

use super::indexes::Indexes;

/// Action of a pod failure policy for a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// The failure counts, by a rule or because no rule matches.
    Count,
    Ignore,
    FailIndex,
    /// Fail the Job with this message.
    FailJob(String),
}

impl FailureAction {
    /// Whether the failure counts towards the backoff limit.
    pub fn counts(&self) -> bool {
        *self != FailureAction::Ignore
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the action of the first rule that matches a failed pod.
pub fn failure_action(policy: &Value, pod: &Value) -> FailureAction {
    for (place, rule) in items(&policy["rules"]).enumerate() {
        let why = match (&rule["onExitCodes"], &rule["onPodConditions"]) {
            (Value::Object(_), _) => exit(&rule["onExitCodes"], pod),
            (_, Value::Array(_)) => condition(&rule["onPodConditions"], pod),
            _ => None,
        };
        let Some(why) = why else { continue };
        match rule["action"].as_str() {
            Some("Ignore") => return FailureAction::Ignore,
            Some("Count") => return FailureAction::Count,
            Some("FailIndex") => return FailureAction::FailIndex,
            Some("FailJob") => {
                return FailureAction::FailJob(format!("{why} matching FailJob rule at index {place}"));
            }
            _ => {}
        }
    }
    FailureAction::Count
}

/// Returns the message about a failed container, if the exit code rule matches.
fn exit(rule: &Value, pod: &Value) -> Option<String> {
    let view = PodView::of(pod);
    let name = rule["containerName"].as_str();
    for container in view.container_statuses().chain(view.init_container_statuses()) {
        let Some(code) = container.exit_code().filter(|code| *code != 0) else { continue };
        let named = name.is_none_or(|name| container.name() == name);
        let listed = items(&rule["values"]).any(|value| value.as_i64() == Some(code));
        let matched = match rule["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            _ => false,
        };
        if named && matched {
            let container = container.name();
            let (namespace, name) = (object::namespace(pod), object::name(pod));
            return Some(format!(
                "Container {container} for pod {namespace}/{name} failed with exit code {code}"
            ));
        }
    }
    None
}

fn condition(patterns: &Value, pod: &Value) -> Option<String> {
    let matched = PodView::of(pod).conditions().find(|condition| {
        let mut patterns = items(patterns).map(ConditionView::of);
        patterns.any(|wanted| (condition.kind(), condition.status()) == (wanted.kind(), wanted.status()))
    })?;
    let (namespace, name) = (object::namespace(pod), object::name(pod));
    Some(format!("Pod {namespace}/{name} has condition {}", matched.kind()))
}

/// Returns the message of the success policy, if it is met.
pub fn success(policy: &Value, completions: i64, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |rule: &Value| {
        let count = rule["succeededCount"].as_i64();
        match rule["succeededIndexes"].as_str() {
            Some(text) => {
                let required = Indexes::parse(text, completions);
                let done = required.in_common(succeeded);
                !required.is_empty() && (done == required.total() || count.is_some_and(|count| done >= count))
            }
            None => count.is_some_and(|count| succeeded.total() >= count),
        }
    };
    let place = items(&policy["rules"]).position(is_met)?;
    Some(format!("Matched rules at index {place}"))
}

#[cfg(test)]
mod tests;
