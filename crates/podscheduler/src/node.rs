//! Nodes in compiled form.

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::views::NodeView;
use atoll_quota::Amounts;
use serde_json::Value;

use crate::labels::Labels;
use crate::resources::Resources;
use crate::spread::ZONE;
use crate::taints::Taint;

const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// A node without its Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    pub labels: Labels,
    pub taints: Box<[Taint]>,
    pub is_unschedulable: bool,
    pub allocatable: Resources,
    pub allowed_pods: i64,
}

impl Node {
    pub fn of(node: &Value) -> Self {
        let view = NodeView::of(node);
        let amounts = Amounts::read(view.allocatable());
        Node {
            name: object::name(node).into(),
            labels: Labels::of(node),
            taints: Taint::all_of(view),
            is_unschedulable: view.is_unschedulable(),
            allocatable: Resources::of(&amounts),
            allowed_pods: amounts.get("pods").map_or(0, |pods| pods.units()),
        }
    }

    /// Returns region and zone, over which nodes are iterated in turn.
    pub fn place(&self) -> (Option<&str>, Option<&str>) {
        let label = |new, old| self.labels.get(new).or_else(|| self.labels.get(old)).map(|value| &**value);
        (label(REGION, OLD_REGION), label(ZONE, OLD_ZONE))
    }
}
