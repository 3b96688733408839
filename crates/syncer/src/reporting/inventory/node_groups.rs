//! Groups of nodes with equal labels, equal taints and similar free amounts. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use atoll_meta::quantity::{Format, Quantity};
use serde_json::{Map, Value, json};

/// Maximum number of groups.
pub const GROUPS: usize = 32;
/// Maximum number of label keys in all groups.
const KEYS: usize = 24;
/// Maximum number of label keys that are named as left out.
const NAMED_KEYS: usize = 64;
/// Labels that distinguish every node.
const PER_NODE: [&str; 1] = ["kubernetes.io/hostname"];
/// Labels that are kept before all others, because most selectors use them.
const WELL_KNOWN: [&str; 6] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node-role.kubernetes.io/control-plane",
];

/// Free amounts of a node: millicores, bytes, Pods, and units of other resources.
pub type Free = BTreeMap<String, i64>;

/// A node that accepts Pods.
#[derive(Clone, Debug)]
pub struct OpenNode<'a> {
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub free: Free,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

/// The groups of the nodes of a cluster.
#[derive(Debug, Default)]
pub struct NodeGroups {
    pub groups: Vec<Group>,
    /// Number of nodes that are in no group.
    pub cut_nodes: usize,
    /// Label keys that are in no group.
    pub cut_labels: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub nodes: usize,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub free: Free,
}

/// Rounds a free amount of a resource down.
type Round = fn(&str, i64) -> i64;

/// Groups nodes. To get few groups, amounts are rounded down first; then labels are left out, those with most
/// values first; then nodes with the least room.
pub fn group(nodes: &[OpenNode<'_>]) -> NodeGroups {
    let (mut keys, mut cut_labels) = label_keys(nodes);
    loop {
        for round in [exact as Round, round_fine, round_coarse] {
            let groups = grouped(nodes, &keys, round);
            if groups.len() <= GROUPS {
                return NodeGroups { groups, cut_nodes: 0, cut_labels };
            }
        }
        // The last key has most values.
        let Some(key) = keys.pop() else { break };
        cut_labels.push(key.to_string());
    }
    let mut groups = grouped(nodes, &[], round_coarse);
    let rest = groups.split_off(GROUPS);
    let cut_nodes = rest.iter().map(|group| group.nodes).sum();
    NodeGroups { groups, cut_nodes, cut_labels }
}

/// Returns the keys of labels in the order in which they are kept, and those that are left out.
fn label_keys<'a>(nodes: &[OpenNode<'a>]) -> (Vec<&'a str>, Vec<String>) {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in nodes.iter().flat_map(|node| node.labels) {
        values.entry(key).or_default().insert(value);
    }
    let is_well_known = |key: &str| WELL_KNOWN.contains(&key);
    let mut keys: Vec<(&str, usize)> = values
        .iter()
        .map(|(key, values)| (*key, values.len()))
        .filter(|(key, _)| !PER_NODE.contains(key))
        .collect();
    keys.sort_by_key(|(key, count)| (!is_well_known(key), *count, *key));
    // A label with too many values cannot be part of few groups.
    let (kept, cut): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(_, count)| *count <= GROUPS);
    let mut kept: Vec<&str> = kept.into_iter().map(|(key, _)| key).collect();
    let mut cut: Vec<String> = cut.into_iter().map(|(key, _)| key.to_string()).collect();
    if kept.len() > KEYS {
        cut.extend(kept.split_off(KEYS).into_iter().map(str::to_string));
    }
    cut.truncate(NAMED_KEYS);
    (kept, cut)
}

/// The properties that nodes of a group share: free amounts, the values of the kept labels, taints.
type GroupKey<'a> = (Free, Vec<Option<&'a str>>, &'a [Taint]);

fn grouped(nodes: &[OpenNode<'_>], keys: &[&str], round: Round) -> Vec<Group> {
    let mut groups: BTreeMap<GroupKey<'_>, usize> = BTreeMap::new();
    for node in nodes {
        let free = node.free.iter().map(|(name, amount)| (name.clone(), round(name, *amount))).collect();
        let labels = keys.iter().map(|key| node.labels.get(*key).map(String::as_str)).collect();
        *groups.entry((free, labels, node.taints)).or_default() += 1;
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|((free, values, taints), nodes)| {
            let labels = keys.iter().zip(values);
            let labels = labels.filter_map(|(key, value)| Some((key.to_string(), value?.to_string())));
            Group { nodes, labels: labels.collect(), taints: taints.to_vec(), free }
        })
        .collect();
    // Most room first.
    let size = |group: &Group| (group.free.get("cpu").copied(), group.free.get("memory").copied());
    groups.sort_by_key(|group| Reverse(size(group)));
    groups
}

impl Group {
    /// Returns the row of a heartbeat with the free amounts.
    pub fn free_to_json(&self) -> Value {
        let mut row = Map::new();
        for (name, amount) in self.free.iter().filter(|(_, amount)| **amount > 0) {
            let quantity = match name.as_str() {
                "cpu" => Quantity::from_millis(*amount, Format::DecimalSi),
                _ if is_bytes(name) => Quantity::new(*amount, Format::BinarySi),
                _ => Quantity::new(*amount, Format::DecimalSi),
            };
            row.insert(name.clone(), quantity.to_string().into());
        }
        row.insert("nodes".into(), self.nodes.into());
        Value::Object(row)
    }

    /// Returns the labels and taints of the row.
    pub fn nodes_to_json(&self) -> Value {
        let taint = |taint: &Taint| {
            let mut said = json!({ "key": taint.key, "effect": taint.effect });
            if !taint.value.is_empty() {
                said["value"] = taint.value.as_str().into();
            }
            said
        };
        json!({ "labels": self.labels, "taints": self.taints.iter().map(taint).collect::<Vec<_>>() })
    }
}

fn is_bytes(name: &str) -> bool {
    name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-")
}

fn exact(_: &str, amount: i64) -> i64 {
    amount.max(0)
}

/// Rounds down to whole cores, gibibytes and tens of Pods; smaller amounts less coarsely.
fn round_fine(name: &str, amount: i64) -> i64 {
    const GIBIBYTE: i64 = 1 << 30;
    let (step, small) = match name {
        "cpu" => (1000, 100),
        "pods" => (10, 1),
        _ if is_bytes(name) => (GIBIBYTE, GIBIBYTE / 8),
        _ => (1, 1),
    };
    let step = if amount >= step { step } else { small };
    amount.max(0) / step * step
}

/// Rounds down to a power of two of the same units.
fn round_coarse(name: &str, amount: i64) -> i64 {
    let unit = match name {
        "cpu" => 1000,
        "pods" => 10,
        _ if is_bytes(name) => 1 << 30,
        _ => 1,
    };
    match amount / unit {
        whole if whole >= 1 => (1 << (63 - whole.leading_zeros())) * unit,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, String)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    }

    fn free(cpu: i64, gibibytes: i64) -> Free {
        [("cpu".to_string(), cpu), ("memory".to_string(), gibibytes << 30)].into()
    }

    #[test]
    fn equal_nodes_are_one_group() {
        let zone = |zone: &str, host: &str| {
            labels(&[("topology.kubernetes.io/zone", zone.into()), ("kubernetes.io/hostname", host.into())])
        };
        let all = [zone("a", "1"), zone("a", "2"), zone("b", "3"), zone("a", "4")];
        let taint = [Taint { key: "gpu".into(), value: String::new(), effect: "NoSchedule".into() }];
        let nodes: Vec<OpenNode<'_>> = all
            .iter()
            .enumerate()
            .map(|(at, labels)| OpenNode {
                labels,
                taints: if at == 3 { &taint } else { &[] },
                free: free(3950, 7),
            })
            .collect();
        let found = group(&nodes);
        assert_eq!((found.cut_nodes, found.cut_labels.len()), (0, 0));
        let mut rows: Vec<Value> = found.groups.iter().map(Group::nodes_to_json).collect();
        rows.sort_by_key(Value::to_string);
        let row = |zone: &str, taints: Value| json!({ "labels": { "topology.kubernetes.io/zone": zone }, "taints": taints });
        let tainted = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        assert_eq!(rows, [row("a", json!([])), row("a", tainted), row("b", json!([]))]);
        let counts: usize = found.groups.iter().map(|group| group.nodes).sum();
        assert_eq!(counts, 4);
        // Few groups are not rounded.
        assert_eq!(found.groups[0].free_to_json()["cpu"], "3950m");
    }

    #[test]
    fn labels_with_many_values_are_left_out_first() {
        let all: Vec<_> = (0..100)
            .map(|at| {
                labels(&[
                    ("instance", at.to_string()),
                    ("rack", (at % 31).to_string()),
                    ("pool", (at % 2).to_string()),
                    ("topology.kubernetes.io/zone", (at % 3).to_string()),
                ])
            })
            .collect();
        let nodes: Vec<OpenNode<'_>> =
            all.iter().map(|labels| OpenNode { labels, taints: &[], free: free(4000, 8) }).collect();
        let found = group(&nodes);
        assert_eq!(
            (found.cut_labels, found.cut_nodes),
            (vec!["instance".to_string(), "rack".to_string()], 0)
        );
        assert_eq!(found.groups.len(), 6);
    }

    #[test]
    fn number_of_groups_is_limited() {
        let none = BTreeMap::new();
        let nodes: Vec<OpenNode<'_>> = (1..2000)
            .map(|each| {
                let mut free = free(each * 10, each * 3 % 64);
                free.insert("example.com/gpu".to_string(), each % 9);
                OpenNode { labels: &none, taints: &[], free }
            })
            .collect();
        let found = group(&nodes);
        assert_eq!(found.groups.len(), GROUPS);
        let counted: usize = found.groups.iter().map(|group| group.nodes).sum();
        assert_eq!(counted + found.cut_nodes, nodes.len(), "all nodes are counted");
        let real: i64 = nodes.iter().map(|node| node.free["cpu"]).sum();
        let said: i64 = found.groups.iter().map(|group| group.free["cpu"] * group.nodes as i64).sum();
        assert!(said <= real, "never more than the real capacity");
    }

    #[test]
    fn amounts_are_rounded_down() {
        let gibibytes = |count: i64| count << 30;
        for (name, amount, fine, coarse) in [
            ("cpu", 7900, 7000, 4000),
            ("cpu", 950, 900, 0),
            ("memory", gibibytes(7) + 5, gibibytes(7), gibibytes(4)),
            ("pods", 109, 100, 80),
            ("pods", 7, 7, 0),
            ("example.com/gpu", 3, 3, 2),
            ("cpu", 0, 0, 0),
        ] {
            let rounded = (round_fine(name, amount), round_coarse(name, amount));
            assert_eq!(rounded, (fine, coarse), "{name} {amount}");
        }
    }
}
