//! The free room of nodes in groups, less reservations for pods that are expected to be bound to them.

use crate::cluster::CapacityReport;
use crate::demand::Needs;
use crate::resources::Resources;

/// Most groups of one cluster: pods of many sizes would otherwise split them without end.
const MAX_GROUPS: usize = 128;
/// Most steps in which pods take turns over groups of similar room: for one share, and for all of a cluster.
/// After that, they fill one group after the other.
const MAX_STEPS: usize = 256;
const MAX_STEPS_IN_ALL: usize = 1 << 15;

/// Nodes of one shape with the same room left.
#[derive(Clone, Debug)]
struct Group {
    /// Index of the shape in the report.
    shape: usize,
    count: i64,
    free: Resources,
}

/// The free room of the nodes of a cluster, less reservations.
#[derive(Clone, Debug, Default)]
pub struct NodeRoom {
    groups: Vec<Group>,
    /// Free resources of all nodes, less the requests of all pods, including those that found no node: these
    /// wait for the next free room.
    total: Resources,
    /// Steps that were made since the report.
    steps: usize,
}

impl NodeRoom {
    pub fn of(report: &CapacityReport) -> NodeRoom {
        let shapes = report.nodes.iter().enumerate().filter(|(_, shape)| shape.count > 0);
        let group = |(at, shape): (usize, &crate::node::NodeShape)| Group {
            shape: at,
            count: shape.count,
            free: shape.free.clone(),
        };
        NodeRoom { groups: shapes.map(group).collect(), total: report.total(), steps: 0 }
    }

    /// Returns how many pods fit, counting no further than `enough`.
    pub fn fits(&self, report: &CapacityReport, needs: &Needs, enough: i64) -> i64 {
        let enough = self.total.slots(&needs.requests).min(enough);
        let mut sum = 0i64;
        let allowed: Vec<bool> = report.nodes.iter().map(|shape| needs.node.allow(shape)).collect();
        for group in &self.groups {
            if allowed[group.shape] {
                sum = sum.saturating_add(group.free.slots(&needs.requests).saturating_mul(group.count));
                if sum >= enough {
                    return enough;
                }
            }
        }
        sum
    }

    /// Reserves room for pods on the nodes with most of it, as kube-scheduler does by default, and returns how
    /// many pods found a node.
    pub fn reserve(&mut self, report: &CapacityReport, needs: &Needs, pods: i64) -> i64 {
        if needs.requests == Resources::default() {
            return pods;
        }
        let mut left = pods;
        let allowed: Vec<bool> = report.nodes.iter().map(|shape| needs.node.allow(shape)).collect();
        let last_step = (self.steps + MAX_STEPS).min(MAX_STEPS_IN_ALL);
        while left > 0 {
            let Some((at, step)) = self.roomiest(&allowed, needs) else { break };
            let slots = self.groups[at].free.slots(&needs.requests);
            let per_node = if self.steps < last_step { slots.min(step) } else { slots };
            self.steps = self.steps.saturating_add(1);
            let group = &mut self.groups[at];
            // All nodes of the group get the same, and the last pods split it.
            let per_node = per_node.min(left / group.count);
            if per_node > 0 {
                group.free.add(&needs.requests, -per_node);
                left -= per_node * group.count;
            } else {
                let mut split = group.clone();
                group.count -= left;
                split.count = left;
                split.free.add(&needs.requests, -1);
                self.insert(split);
                left = 0;
            }
        }
        self.total.add(&needs.requests, -pods);
        pods - left
    }

    /// Returns the group with most room that takes a pod on each node, and how many each may take before
    /// another group has more room.
    fn roomiest(&self, allowed: &[bool], needs: &Needs) -> Option<(usize, i64)> {
        let (mut best, mut second): (Option<(usize, i64)>, i64) = (None, 0);
        for (at, group) in self.groups.iter().enumerate() {
            if !group.free.has(&needs.requests) || !allowed[group.shape] {
                continue;
            }
            let room = group.free.room();
            match best {
                Some((_, most)) if room <= most => second = second.max(room),
                _ => {
                    second = best.map_or(0, |(_, most)| most);
                    best = Some((at, room));
                }
            }
        }
        let (at, room) = best?;
        let step = (room - second) / needs.requests.size().max(1);
        Some((at, step.max(1)))
    }

    fn insert(&mut self, group: Group) {
        let of_shape = |other: &&mut Group| other.shape == group.shape;
        let is_full = self.groups.len() >= MAX_GROUPS;
        let mut others = self.groups.iter_mut().filter(of_shape);
        if let Some(same) = others.find(|other| other.free == group.free) {
            same.count += group.count;
            return;
        }
        let room = group.free.room();
        let nearest =
            self.groups.iter_mut().filter(of_shape).min_by_key(|other| (other.free.room() - room).abs());
        match nearest {
            // A merged group has the smaller room of both, so that it is never overestimated.
            Some(other) if is_full => {
                self.total.add(&other.free, -other.count);
                self.total.add(&group.free, -group.count);
                other.count += group.count;
                other.free.lower_to(&group.free);
                self.total.add(&other.free, other.count);
            }
            _ => self.groups.push(group),
        }
    }

    /// Free resources of all nodes, less all requests that are expected.
    pub fn total(&self) -> &Resources {
        &self.total
    }
}
