//! On which nodes a pod of a DaemonSet may run, and may go on running.

use atoll_meta::object;
use serde_json::{Value, json};

/// What every pod of a DaemonSet tolerates: nodes in trouble are theirs too.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The same for those that are in the node's own network.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// What a node and a set have to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// A pod is to be made there.
    pub should_run: bool,
    /// One that is there may stay.
    pub should_continue: bool,
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// What the pods of a set want of nodes.
pub struct Wishes<'a> {
    spec: &'a Value,
    tolerations: Vec<Value>,
}

impl<'a> Wishes<'a> {
    pub fn of(set: &'a Value) -> Wishes<'a> {
        let spec = &set["spec"]["template"]["spec"];
        Wishes { spec, tolerations: tolerations(spec) }
    }

    pub fn fit(&self, node: &Value) -> Fit {
        let both = |should_run, should_continue| Fit { should_run, should_continue };
        let named = self.spec["nodeName"].as_str().unwrap_or_default();
        let is_meant = named.is_empty() || named == object::name(node);
        if !is_meant || !self.has_labels(node) || !self.has_affinity(node) {
            return both(false, false);
        }
        let is_kept_off = |effects: &[&str]| {
            items(&node["spec"]["taints"]).any(|taint| {
                let effect = taint["effect"].as_str().unwrap_or_default();
                effects.contains(&effect) && !self.tolerates(taint)
            })
        };
        if is_kept_off(&["NoExecute", "NoSchedule"]) {
            return both(false, !is_kept_off(&["NoExecute"]));
        }
        both(true, true)
    }

    fn tolerates(&self, taint: &Value) -> bool {
        self.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    }

    fn has_labels(&self, node: &Value) -> bool {
        let mut wanted = self.spec["nodeSelector"].as_object().into_iter().flatten();
        wanted.all(|(key, value)| object::label(node, key) == value.as_str())
    }

    fn has_affinity(&self, node: &Value) -> bool {
        let required = &self.spec["affinity"]["nodeAffinity"][REQUIRED];
        required.is_null() || items(&required["nodeSelectorTerms"]).any(|term| is_term_met(term, node))
    }
}

fn is_term_met(term: &Value, node: &Value) -> bool {
    let (expressions, fields) = (&term["matchExpressions"], &term["matchFields"]);
    let is_empty = items(expressions).next().is_none() && items(fields).next().is_none();
    let label = |wanted: &Value| object::label(node, wanted["key"].as_str().unwrap_or_default());
    let is_name = |wanted: &Value| wanted["key"] == "metadata.name";
    // A term that asks for nothing is met by nothing.
    !is_empty
        && items(expressions).all(|wanted| is_met(wanted, label(wanted)))
        && items(fields).all(|wanted| is_name(wanted) && is_met(wanted, Some(object::name(node))))
}

fn is_met(wanted: &Value, found: Option<&str>) -> bool {
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

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    fn text<'a>(of: &'a Value, field: &str) -> &'a str {
        of[field].as_str().unwrap_or_default()
    }
    let is_about = |field: &str| {
        let wanted = text(toleration, field);
        wanted.is_empty() || wanted == text(taint, field)
    };
    is_about("effect")
        && is_about("key")
        && match text(toleration, "operator") {
            "Exists" => true,
            "" | "Equal" => text(toleration, "value") == text(taint, "value"),
            _ => false,
        }
}

/// The tolerations of a template, and those that all have.
fn tolerations(spec: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = items(&spec["tolerations"]).cloned().collect();
    let on_host = (spec["hostNetwork"] == true).then_some(TOLERATED_ON_HOST);
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let wanted = json!({"key": key, "operator": "Exists", "effect": effect});
        let mut is_there = false;
        for known in &mut all {
            let is_same = ["key", "operator", "effect"].iter().all(|field| known[*field] == wanted[*field]);
            // One that holds for a while only holds for ever now.
            if is_same && known["value"].as_str().unwrap_or_default().is_empty() {
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

/// Makes a pod go to a node, and tolerate what its kind does.
pub fn pin(pod: &mut Value, node: &str) {
    pod["spec"]["tolerations"] = tolerations(&pod["spec"]).into();
    let wanted = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    pod["spec"]["affinity"]["nodeAffinity"][REQUIRED] =
        json!({"nodeSelectorTerms": [{"matchFields": [wanted]}]});
}

/// Where a pod is, or is to go.
pub fn target(pod: &Value) -> Option<&str> {
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Some(node);
    }
    let terms = items(&pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]);
    let mut fields = terms.flat_map(|term| items(&term["matchFields"]));
    let pinned = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
    match pinned["values"].as_array()?.as_slice() {
        [node] => node.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
