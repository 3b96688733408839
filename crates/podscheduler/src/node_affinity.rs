//! Node affinity of Pods and volumes: requirements on labels and names of nodes.

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go
// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go

use std::collections::BTreeSet;

use atoll_meta::selector::{LabelOperator, Requirement};
use atoll_meta::views::{PodSpecView, items};
use atoll_meta::{FieldPath, LabelSelector};
use serde_json::Value;

use crate::labels::Labels;

/// A node selector term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    labels: LabelSelector,
    /// Required (true) or forbidden (false) node names.
    names: Vec<(bool, Box<str>)>,
    /// Whether the term is invalid, so that it matches no node.
    broken: bool,
}

impl Term {
    /// Compiles a term; `None` for an empty term, which matches no node.
    fn of(term: &Value) -> Option<Self> {
        let expressions = term["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
        let fields = term["matchFields"].as_array().map_or(&[][..], Vec::as_slice);
        if expressions.is_empty() && fields.is_empty() {
            return None;
        }
        let requirements: Option<Vec<_>> = expressions.iter().map(requirement).collect();
        let names: Option<Vec<_>> = fields.iter().map(name_requirement).collect();
        let broken = requirements.is_none() || names.is_none();
        let labels = LabelSelector::new(requirements.unwrap_or_default());
        Some(Term { labels, names: names.unwrap_or_default(), broken })
    }

    fn matches(&self, name: &str, labels: &Labels) -> bool {
        !self.broken
            && labels.selected_by(&self.labels)
            && self.names.iter().all(|(wanted, own)| *wanted == (**own == *name))
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
    let values = texts(&expression["values"]).map(str::to_owned).collect();
    Requirement::new(expression["key"].as_str()?, operator, values, &FieldPath::nil()).ok()
}

/// Compiles a requirement on the node name, the only field that can be selected.
fn name_requirement(field: &Value) -> Option<(bool, Box<str>)> {
    let mut values = texts(&field["values"]);
    let (value, None) = (values.next()?, values.next()) else { return None };
    match field["operator"].as_str()? {
        "In" => Some((true, value.into())),
        "NotIn" => Some((false, value.into())),
        _ => None,
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Required node affinity: all labels of the node selector, and one of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Required {
    labels: Option<LabelSelector>,
    terms: Option<Vec<Term>>,
}

impl Required {
    /// Compiles the node selector and the required node affinity of a Pod.
    pub fn of_pod(spec: PodSpecView<'_>) -> Option<Self> {
        let labels = spec.node_selector().filter(|labels| !labels.is_empty()).map(|labels| {
            LabelSelector::new(
                labels.iter().filter_map(|(key, value)| equals(key, value.as_str()?)).collect(),
            )
        });
        let terms = spec.required_node_terms().map(terms);
        (labels.is_some() || terms.is_some()).then_some(Required { labels, terms })
    }

    /// Compiles a node selector, such as that of a volume.
    pub fn of_selector(selector: &Value) -> Option<Self> {
        selector
            .is_object()
            .then(|| Required { labels: None, terms: Some(terms(items(&selector["nodeSelectorTerms"]))) })
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.labels.as_ref().is_none_or(|selector| labels.selected_by(selector))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }
}

/// Returns the requirement that a label has a value.
pub fn equals(key: &str, value: &str) -> Option<Requirement> {
    Requirement::new(key, LabelOperator::Equals, vec![value.to_owned()], &FieldPath::nil()).ok()
}

fn terms(list: &[Value]) -> Vec<Term> {
    list.iter().filter_map(Term::of).collect()
}

/// Compiles the preferred node affinity of a Pod, with weights.
pub fn preferred(pod: &Value) -> Vec<(i64, Term)> {
    let list = &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let weighted = list.as_array().into_iter().flatten().filter_map(|preference| {
        let weight = preference["weight"].as_i64().filter(|weight| *weight != 0)?;
        Some((weight, Term::of(&preference["preference"])?))
    });
    weighted.collect()
}

pub fn preference(preferred: &[(i64, Term)], name: &str, labels: &Labels) -> i64 {
    preferred.iter().filter(|(_, term)| term.matches(name, labels)).map(|(weight, _)| weight).sum()
}

/// Returns the node names that a Pod requires, if every term requires names.
pub fn names(spec: PodSpecView<'_>) -> Option<BTreeSet<Box<str>>> {
    let terms = spec.required_node_terms().filter(|terms| !terms.is_empty())?;
    let mut all = BTreeSet::new();
    for term in terms {
        let mut of_term: Option<BTreeSet<Box<str>>> = None;
        for field in term["matchFields"].as_array().into_iter().flatten() {
            if field["key"] == "metadata.name" && field["operator"] == "In" {
                let values: BTreeSet<Box<str>> = texts(&field["values"]).map(Box::from).collect();
                of_term = Some(match of_term {
                    None => values,
                    Some(before) => before.intersection(&values).cloned().collect(),
                });
            }
        }
        all.extend(of_term?);
    }
    Some(all)
}
