//! Nodes of the inventory, with limits on everything that a cluster may report.

use std::collections::BTreeMap;

use atoll_meta::object;
use atoll_meta::views::{NodeView, TaintView};
use atoll_quota::Amounts;
use serde_json::Value;

use super::node_groups::Taint;

/// Maximum number of resources that are reported for a cluster.
pub const RESOURCES: usize = 64;
/// Maximum lengths of a label value and of a qualified resource name; longer ones are ignored.
const LABEL: usize = 63;
const LABEL_KEY: usize = 317;
/// Maximum number of labels and taints of a node that are considered.
const LABELS: usize = 64;
const TAINTS: usize = 16;
const RESOURCE: usize = 317;
pub const REGION: &str = "topology.kubernetes.io/region";
pub const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Clone, Debug)]
pub struct InventoryNode {
    pub name: String,
    pub capacity: Amounts,
    pub allocatable: Amounts,
    pub is_ready: bool,
    /// Whether Pods that tolerate the taints can be scheduled there.
    pub is_schedulable: bool,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub region: Option<String>,
    pub zone: Option<String>,
}

impl InventoryNode {
    pub fn of(node: &Value) -> InventoryNode {
        let view = NodeView::of(node);
        let is_short = |key: &str, value: &str| key.len() <= LABEL_KEY && value.len() <= LABEL;
        let labels = object::labels(node).filter(|(key, value)| is_short(key, value)).take(LABELS);
        let taint = |taint: TaintView<'_>| Taint {
            key: taint.key().into(),
            value: taint.value().into(),
            effect: taint.effect().into(),
        };
        let mut taints: Vec<Taint> = view
            .taints()
            .filter(|taint| is_short(taint.key(), taint.value()) && taint.effect().len() <= LABEL)
            .take(TAINTS)
            .map(taint)
            .collect();
        taints.sort();
        // Nothing is known about the taints that are left out.
        let has_all_taints = taints.len() == view.taints().count();
        InventoryNode {
            name: object::name(node).into(),
            capacity: limited(&Amounts::read(view.capacity())),
            allocatable: limited(&Amounts::read(view.allocatable())),
            is_ready: view.is_ready(),
            is_schedulable: !view.is_unschedulable() && has_all_taints,
            labels: labels.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            taints,
            region: label(node, REGION),
            zone: label(node, ZONE),
        }
    }
}

impl InventoryNode {
    /// Estimates the memory of the entry.
    pub fn size(&self) -> usize {
        let texts = [Some(&self.name), self.region.as_ref(), self.zone.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len() + TEXTS).sum();
        let taints: usize = self.taints.iter().map(|taint| taint.key.len() + taint.value.len() + TEXTS).sum();
        size(&self.capacity) + size(&self.allocatable) + texts + labels + taints + ENTRY
    }
}

/// Memory of a map entry in addition to its content.
pub const ENTRY: usize = 256;
/// Memory of an amount.
const AMOUNT: usize = 96;
/// Memory of a pair of texts in addition to their content.
const TEXTS: usize = 64;

fn label(node: &Value, name: &str) -> Option<String> {
    object::label(node, name).filter(|value| value.len() <= LABEL).map(str::to_string)
}

/// Limits the number of resources, because a cluster may report any number of them.
pub fn limited(amounts: &Amounts) -> Amounts {
    let short = amounts.iter().filter(|(name, _)| is_short_resource(name));
    // Native resources first.
    let (others, own): (Vec<_>, Vec<_>) = short.partition(|(name, _)| name.contains('/'));
    let mut limited = Amounts::default();
    for (name, amount) in own.into_iter().chain(others).take(RESOURCES) {
        limited.set(name, amount.clone());
    }
    limited
}

/// Whether the name of a resource is short enough to be reported.
pub fn is_short_resource(name: &str) -> bool {
    name.len() <= RESOURCE
}

pub fn size(amounts: &Amounts) -> usize {
    amounts.iter().map(|(name, _)| name.len() + AMOUNT).sum()
}
