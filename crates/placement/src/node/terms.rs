//! Terms of node selectors and of required node affinity.

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go

use std::collections::BTreeMap;

use atoll_meta::selector::{LabelOperator, Requirement};
use atoll_meta::views::{PodSpecView, items};
use atoll_meta::{FieldPath, LabelSelector};
use serde_json::Value;

/// A node selector term. Requirements on the names of nodes cannot be judged by shapes and never match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTerm {
    labels: LabelSelector,
}

impl NodeTerm {
    /// Compiles a term; `None` for an empty term, which matches no node.
    pub fn of(term: &Value) -> Option<NodeTerm> {
        let (expressions, fields) = (items(&term["matchExpressions"]), items(&term["matchFields"]));
        if expressions.is_empty() && fields.is_empty() {
            return None;
        }
        let requirements: Option<Vec<_>> = expressions.iter().map(requirement).collect();
        let labels = match requirements {
            Some(requirements) if fields.is_empty() => LabelSelector::new(requirements),
            _ => LabelSelector::nothing(),
        };
        Some(NodeTerm { labels })
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.matches(|key| labels.get(key).map(String::as_str))
    }
}

fn requirement(expression: &Value) -> Option<Requirement> {
    let operator = match expression["operator"].as_str()? {
        "In" => LabelOperator::In,
        "NotIn" => LabelOperator::NotIn,
        "Exists" => LabelOperator::Exists,
        "DoesNotExist" => LabelOperator::DoesNotExist,
        "Gt" => LabelOperator::GreaterThan,
        "Lt" => LabelOperator::LessThan,
        _ => return None,
    };
    let values = items(&expression["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Requirement::new(expression["key"].as_str()?, operator, values, &FieldPath::nil()).ok()
}

/// Compiles the `nodeSelector` of a pod; `None` without one.
pub fn node_selector(spec: PodSpecView<'_>) -> Option<LabelSelector> {
    let labels = spec.node_selector().filter(|labels| !labels.is_empty())?;
    let equals = |(key, value): (&String, &Value)| {
        let values = vec![value.as_str()?.to_owned()];
        Requirement::new(key, LabelOperator::Equals, values, &FieldPath::nil()).ok()
    };
    let requirements: Option<Vec<_>> = labels.iter().map(equals).collect();
    Some(requirements.map_or_else(LabelSelector::nothing, LabelSelector::new))
}
