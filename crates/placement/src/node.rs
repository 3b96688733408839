//! Nodes of a cluster in groups of the same shape, and the requirements of a pod on its node.

// upstream: staging/src/k8s.io/api/core/v1/toleration.go

mod terms;

use std::collections::BTreeMap;

use atoll_meta::LabelSelector;
use atoll_meta::views::{PodSpecView, TaintView, TolerationView};
use serde_json::Value;

use crate::resources::Resources;

pub use self::terms::NodeTerm;

/// Most tolerations and node selector terms of a pod that count: each is compared with the nodes of all clusters. A
/// pod with more fits fewer nodes than it could.
const MAX_ALTERNATIVES: usize = 256;
/// Most taints of nodes that are compared.
const MAX_TAINTS: usize = 64;

/// Nodes with the same labels, taints and free resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeShape {
    /// Number of nodes.
    pub count: i64,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Free resources of each of the nodes.
    pub free: Resources,
}

/// A taint of a node or of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: Effect,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effect {
    PreferNoSchedule,
    #[default]
    NoSchedule,
    NoExecute,
}

impl Effect {
    pub fn name(self) -> &'static str {
        match self {
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoSchedule => "NoSchedule",
            Effect::NoExecute => "NoExecute",
        }
    }
}

/// A toleration of a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty for all keys.
    pub key: String,
    /// `None` for all values.
    pub value: Option<String>,
    /// `None` for all effects.
    pub effect: Option<Effect>,
}

impl Taint {
    pub fn of(taint: TaintView<'_>) -> Taint {
        let effect = match taint.effect() {
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::NoSchedule,
        };
        Taint { key: taint.key().into(), value: taint.value().into(), effect }
    }

    pub fn is_tolerated(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect.name())
    }
}

impl Toleration {
    /// Reads a toleration; `None` for an operator that is not known.
    pub fn of(toleration: TolerationView<'_>) -> Option<Toleration> {
        let value = match toleration.operator() {
            "Exists" => None,
            "Equal" => Some(toleration.value().to_string()),
            _ => return None,
        };
        let effect = match toleration.effect() {
            "" => None,
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoSchedule" => Some(Effect::NoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => return None,
        };
        Some(Toleration { key: toleration.key().into(), value, effect })
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

/// Requirements of a pod on its node, besides free resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRequirements {
    /// `nodeSelector`.
    pub selector: Option<LabelSelector>,
    /// Required node affinity: one of the terms.
    pub terms: Option<Vec<NodeTerm>>,
    pub tolerations: Vec<Toleration>,
}

impl NodeRequirements {
    pub fn of(spec: PodSpecView<'_>) -> NodeRequirements {
        NodeRequirements {
            selector: terms::node_selector(spec),
            terms: spec
                .required_node_terms()
                .map(|terms| terms.iter().take(MAX_ALTERNATIVES).filter_map(NodeTerm::of).collect()),
            tolerations: spec.tolerations().filter_map(Toleration::of).take(MAX_ALTERNATIVES).collect(),
        }
    }

    /// Whether a pod may run on nodes of this shape, however much is free there.
    pub fn allow(&self, shape: &NodeShape) -> bool {
        self.select(shape) && self.tolerate(shape)
    }

    /// Whether the labels of these nodes match.
    pub fn select(&self, shape: &NodeShape) -> bool {
        let label = |key: &str| shape.labels.get(key).map(String::as_str);
        self.selector.as_ref().is_none_or(|selector| selector.matches(label))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(&shape.labels)))
    }

    /// Whether the taints of these nodes are tolerated.
    pub fn tolerate(&self, shape: &NodeShape) -> bool {
        let keeps_away = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule;
        shape.taints.len() <= MAX_TAINTS
            && shape.taints.iter().filter(keeps_away).all(|taint| taint.is_tolerated(&self.tolerations))
    }
}

/// A row of `status.free` of a Cluster: a number of nodes, and the quantities that are free on each.
impl NodeShape {
    pub fn of(row: &Value) -> NodeShape {
        let labels = row["labels"].as_object().into_iter().flatten();
        let taints = row["taints"].as_array().into_iter().flatten();
        let mut free = Resources::of(row);
        free.scalars.retain(|(name, _)| !matches!(&**name, "nodes" | "labels" | "taints"));
        NodeShape {
            count: row["nodes"].as_i64().unwrap_or(1).max(0),
            labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into()))).collect(),
            taints: taints.map(|taint| Taint::of(TaintView::of(taint))).collect(),
            free,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_select_nodes_by_labels_and_taints() {
        let shape = NodeShape::of(&json!({
            "labels": { "disk": "ssd", "cores": "8" }, "taints": [{ "key": "gpu", "value": "a", "effect": "NoSchedule" }],
        }));
        let tolerates = json!([{ "key": "gpu", "operator": "Exists" }]);
        let affinity = |terms: Value| {
            let required = json!({ "nodeSelectorTerms": terms });
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } })
        };
        let term = |key: &str, operator: &str, values: Value| json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }]);
        let fields =
            json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }]);
        for (spec, expected) in [
            (json!({}), false),
            (json!({ "tolerations": tolerates }), true),
            (json!({ "tolerations": [{ "key": "gpu", "value": "b" }] }), false),
            (json!({ "tolerations": [{ "key": "gpu", "value": "a" }] }), true),
            (json!({ "tolerations": tolerates, "nodeSelector": { "disk": "ssd" } }), true),
            (json!({ "tolerations": tolerates, "nodeSelector": { "disk": "hdd" } }), false),
            (
                json!({ "tolerations": tolerates, "affinity": affinity(term("disk", "In", json!(["ssd"]))) }),
                true,
            ),
            (
                json!({ "tolerations": tolerates, "affinity": affinity(term("cores", "Gt", json!(["4"]))) }),
                true,
            ),
            (
                json!({ "tolerations": tolerates, "affinity": affinity(term("cores", "Gt", json!(["8"]))) }),
                false,
            ),
            (json!({ "tolerations": tolerates, "affinity": affinity(json!([{}])) }), false),
            (json!({ "tolerations": tolerates, "affinity": affinity(fields) }), false),
        ] {
            let requirements = NodeRequirements::of(PodSpecView::of(&spec));
            assert_eq!(requirements.allow(&shape), expected, "{spec}");
        }
    }
}
