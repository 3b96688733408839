//! Topology spread constraints.

// upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go

use std::sync::Arc;

use atoll_meta::LabelSelector;
use serde_json::Value;

use crate::labels::Labels;
use crate::node_affinity::equals;

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constraint {
    pub topology: Arc<str>,
    pub max_skew: i64,
    pub min_domains: usize,
    /// Whether `whenUnsatisfiable` is `DoNotSchedule`.
    pub is_hard: bool,
    /// Selects the Pods that are counted, in the namespace of the Pod.
    pub selector: Arc<LabelSelector>,
    /// Whether nodes that the Pod's node affinity excludes are not counted.
    pub honors_affinity: bool,
    /// Whether nodes with taints that the Pod does not tolerate are not counted.
    pub honors_taints: bool,
}

impl Constraint {
    /// Compiles the constraints of a Pod.
    pub fn all_of(pod: &Value, labels: &Labels) -> Vec<Self> {
        let list = pod["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten();
        list.filter_map(|constraint| Constraint::of(constraint, labels)).collect()
    }

    fn of(constraint: &Value, labels: &Labels) -> Option<Self> {
        let mut selector = LabelSelector::from_object(&constraint["labelSelector"]).ok()?;
        let keys = constraint["matchLabelKeys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let own: Vec<_> = keys.filter_map(|key| equals(key, labels.get(key)?)).collect();
        if !own.is_empty() && !selector.is_nothing() {
            selector = LabelSelector::new(selector.requirements().iter().cloned().chain(own).collect());
        }
        let policy = |field: &str, otherwise: bool| {
            constraint[field].as_str().map_or(otherwise, |policy| policy == "Honor")
        };
        Some(Constraint {
            topology: constraint["topologyKey"].as_str()?.into(),
            max_skew: constraint["maxSkew"].as_i64()?,
            min_domains: constraint["minDomains"]
                .as_u64()
                .map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX)),
            is_hard: constraint["whenUnsatisfiable"] != "ScheduleAnyway",
            selector: Arc::new(selector),
            honors_affinity: policy("nodeAffinityPolicy", true),
            honors_taints: policy("nodeTaintsPolicy", false),
        })
    }

    /// Returns the default constraints, for Pods without constraints that belong to a workload or a Service.
    pub fn defaults(selector: &Arc<LabelSelector>) -> Vec<Self> {
        let rule = |topology: &str, max_skew| Constraint {
            topology: topology.into(),
            max_skew,
            min_domains: 1,
            is_hard: false,
            selector: selector.clone(),
            honors_affinity: true,
            honors_taints: false,
        };
        vec![rule(HOSTNAME, 3), rule(ZONE, 5)]
    }
}
