//! Affinity and anti-affinity between Pods.

// upstream: pkg/scheduler/framework/types.go
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go

use std::collections::HashMap;
use std::sync::Arc;

use atoll_meta::{LabelSelector, object};
use serde_json::Value;

use crate::labels::Labels;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Labels of namespaces by name.
pub type Namespaces = HashMap<Arc<str>, Labels>;

/// The properties of a Pod that affinity terms of other Pods select.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    pub namespace: Arc<str>,
    pub labels: Labels,
    /// Whether the Pod is being deleted, so that spreading does not count it.
    pub terminating: bool,
}

/// Selects Pods by namespace and labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matcher {
    /// Sorted names.
    namespaces: Vec<Arc<str>>,
    namespace_selector: LabelSelector,
    selector: LabelSelector,
}

impl Matcher {
    /// Returns the selected namespaces by name; `None` if a namespace selector is used.
    pub fn named_namespaces(&self) -> Option<&[Arc<str>]> {
        self.namespace_selector.is_nothing().then_some(&self.namespaces)
    }

    pub fn matches(&self, class: &Class, namespaces: &Namespaces) -> bool {
        self.is_in_scope(&class.namespace, namespaces) && class.labels.selected_by(&self.selector)
    }

    fn is_in_scope(&self, namespace: &Arc<str>, namespaces: &Namespaces) -> bool {
        if self.namespaces.binary_search(namespace).is_ok() || self.namespace_selector.is_empty() {
            return true;
        }
        if self.namespace_selector.is_nothing() {
            return false;
        }
        let labels = namespaces.get(namespace);
        labels.is_some_and(|labels| labels.selected_by(&self.namespace_selector))
    }
}

/// An affinity term: selected Pods and a topology key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub matcher: Arc<Matcher>,
    pub topology: Arc<str>,
}

impl Term {
    fn of(namespace: &str, term: &Value) -> Option<Self> {
        let mut namespaces: Vec<Arc<str>> = term["namespaces"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Arc::from)
            .collect();
        let namespace_selector = &term["namespaceSelector"];
        if namespaces.is_empty() && namespace_selector.is_null() {
            namespaces.push(namespace.into());
        }
        namespaces.sort();
        let matcher = Matcher {
            namespaces,
            namespace_selector: LabelSelector::from_object(namespace_selector).ok()?,
            selector: LabelSelector::from_object(&term["labelSelector"]).ok()?,
        };
        Some(Term { matcher: Arc::new(matcher), topology: term["topologyKey"].as_str()?.into() })
    }
}

/// The affinity and anti-affinity of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    pub required: Vec<Term>,
    pub required_anti: Vec<Term>,
    /// Preferred terms with weights; anti-affinity has negative weights.
    pub preferred: Vec<(i64, Term)>,
}

impl PodAffinity {
    pub fn of(pod: &Value) -> Self {
        let affinity = &pod["spec"]["affinity"];
        let namespace = object::namespace(pod);
        let list = |kind: &str, when: &str| affinity[kind][when].as_array().into_iter().flatten();
        let required = |kind| list(kind, REQUIRED).filter_map(|term| Term::of(namespace, term)).collect();
        let mut preferred = Vec::new();
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            preferred.extend(list(kind, PREFERRED).filter_map(|weighted| {
                let term = Term::of(namespace, &weighted["podAffinityTerm"])?;
                Some((sign * weighted["weight"].as_i64()?, term))
            }));
        }
        PodAffinity {
            required: required("podAffinity"),
            required_anti: required("podAntiAffinity"),
            preferred,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.required_anti.is_empty() && self.preferred.is_empty()
    }
}
