//! Decides on which nodes a pod of a DaemonSet should run, and should continue to run.

// upstream: pkg/controller/daemon/daemon_controller.go
// upstream: pkg/controller/daemon/util/daemonset_util.go

use atoll_meta::object;
use atoll_meta::views::{NodeView, PodSpecView, PodView, TolerationIndex, TolerationView};
use serde_json::{Value, json};

use crate::shared::views::WorkloadView;

/// Taints that every pod of a DaemonSet tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Taint that pods with `hostNetwork` tolerate in addition.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Whether a set should run a pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// A pod should be created there.
    pub should_run: bool,
    /// An existing pod may stay.
    pub should_continue: bool,
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Scheduling requirements of the pods of a set.
pub struct NodeRequirements<'a> {
    spec: PodSpecView<'a>,
    tolerations: Vec<Value>,
}

impl<'a> NodeRequirements<'a> {
    pub fn of(set: &'a Value) -> NodeRequirements<'a> {
        let spec = WorkloadView::of(set).pod_spec();
        NodeRequirements { spec, tolerations: tolerations(spec) }
    }

    pub fn fit(&self, node: &Value) -> Fit {
        let both = |should_run, should_continue| Fit { should_run, should_continue };
        let is_meant = self.spec.node_name().is_none_or(|named| named == object::name(node));
        if !is_meant || !self.matches_node_selector(node) || !self.matches_affinity(node) {
            return both(false, false);
        }
        let tolerations = TolerationIndex::new(self.tolerations.iter().map(TolerationView::of));
        let has_untolerated_taint = |effects: &[&str]| {
            let mut taints = NodeView::of(node).taints();
            taints.any(|taint| effects.contains(&taint.effect()) && tolerations.first(taint).is_none())
        };
        if has_untolerated_taint(&["NoExecute", "NoSchedule"]) {
            return both(false, !has_untolerated_taint(&["NoExecute"]));
        }
        both(true, true)
    }

    fn matches_node_selector(&self, node: &Value) -> bool {
        let mut wanted = self.spec.node_selector().into_iter().flatten();
        wanted.all(|(key, value)| object::label(node, key) == value.as_str())
    }

    fn matches_affinity(&self, node: &Value) -> bool {
        let mut terms = self.spec.required_node_terms().map(<[Value]>::iter);
        terms.as_mut().is_none_or(|terms| terms.any(|term| matches_term(term, node)))
    }
}

fn matches_term(term: &Value, node: &Value) -> bool {
    let (expressions, fields) = (&term["matchExpressions"], &term["matchFields"]);
    let is_empty = items(expressions).next().is_none() && items(fields).next().is_none();
    let label = |wanted: &Value| object::label(node, wanted["key"].as_str().unwrap_or_default());
    let is_name = |wanted: &Value| wanted["key"] == "metadata.name";
    // An empty term matches no node.
    !is_empty
        && items(expressions).all(|wanted| matches_requirement(wanted, label(wanted)))
        && items(fields)
            .all(|wanted| is_name(wanted) && matches_requirement(wanted, Some(object::name(node))))
}

fn matches_requirement(wanted: &Value, found: Option<&str>) -> bool {
    let is_listed = || items(&wanted["values"]).any(|value| value.as_str() == found);
    let numbers = || {
        let limit = items(&wanted["values"]).next().and_then(Value::as_str);
        Some((found?.parse::<i64>().ok()?, limit?.parse::<i64>().ok()?))
    };
    match wanted["operator"].as_str() {
        Some("In") => found.is_some() && is_listed(),
        Some("NotIn") => found.is_none() || !is_listed(),
        Some("Exists") => found.is_some(),
        Some("DoesNotExist") => found.is_none(),
        Some("Gt") => numbers().is_some_and(|(found, limit)| found > limit),
        Some("Lt") => numbers().is_some_and(|(found, limit)| found < limit),
        _ => false,
    }
}

/// Returns the tolerations of a template with the default ones of DaemonSet pods.
fn tolerations(spec: PodSpecView<'_>) -> Vec<Value> {
    let mut all: Vec<Value> = spec.tolerations().map(|toleration| toleration.json().clone()).collect();
    let on_host = spec.uses_host_network().then_some(TOLERATED_ON_HOST);
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let wanted = json!({"key": key, "operator": "Exists", "effect": effect});
        let mut is_there = false;
        for known in &mut all {
            let view = TolerationView::of(known);
            let is_same = (view.key(), view.operator(), view.effect()) == (key, "Exists", effect);
            // Replaces a toleration with `tolerationSeconds`, so that it is unlimited.
            if is_same && view.value().is_empty() {
                *known = wanted.clone();
                is_there = true;
            }
        }
        if !is_there {
            all.push(wanted);
        }
    }
    all
}

/// Binds a pod to a node by affinity, and adds the default tolerations.
pub fn bind_to_node(pod: &mut Value, node: &str) {
    pod["spec"]["tolerations"] = tolerations(PodView::of(pod).spec()).into();
    let wanted = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    pod["spec"]["affinity"]["nodeAffinity"][REQUIRED] =
        json!({"nodeSelectorTerms": [{"matchFields": [wanted]}]});
}

/// Returns the node that a pod runs on or is bound to by affinity.
pub fn target(pod: &Value) -> Option<&str> {
    let spec = PodView::of(pod).spec();
    if let Some(node) = spec.node_name() {
        return Some(node);
    }
    let mut fields = spec.required_node_terms()?.iter().flat_map(|term| items(&term["matchFields"]));
    let pinned = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
    match pinned["values"].as_array()?.as_slice() {
        [node] => node.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
