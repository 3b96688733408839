//! Nodes in groups, and the pods that are expected to be bound to them.

use crate::cluster::CapacityReport;
use crate::demand::Needs;
use crate::resources::Resources;

/// Most groups of one cluster: pods of many sizes would otherwise split them without end.
const MAX_GROUPS: usize = 128;

/// Nodes of one shape with the same room left.
#[derive(Clone, Debug)]
struct Group {
    /// Index of the shape in the report.
    shape: usize,
    count: i64,
    free: Resources,
}

/// The nodes of a cluster, less the pods that are expected there.
#[derive(Clone, Debug, Default)]
pub struct Seats {
    groups: Vec<Group>,
}

impl Seats {
    pub fn of(report: &CapacityReport) -> Seats {
        let shapes = report.nodes.iter().enumerate().filter(|(_, shape)| shape.count > 0);
        let group = |(at, shape): (usize, &crate::node::NodeShape)| Group {
            shape: at,
            count: shape.count,
            free: shape.free.clone(),
        };
        Seats { groups: shapes.map(group).collect() }
    }

    /// Returns how many pods fit, counting no further than `enough`.
    pub fn fits(&self, report: &CapacityReport, needs: &Needs, enough: i64) -> i64 {
        let mut sum = 0i64;
        for group in &self.groups {
            if needs.node.allow(&report.nodes[group.shape]) {
                sum = sum.saturating_add(group.free.slots(&needs.requests).saturating_mul(group.count));
                if sum >= enough {
                    return enough;
                }
            }
        }
        sum
    }

    /// Takes room for pods on the nodes with most of it, as kube-scheduler does by default, and returns how
    /// many found a node.
    pub fn seat(&mut self, report: &CapacityReport, needs: &Needs, pods: i64) -> i64 {
        if needs.requests == Resources::default() {
            return pods;
        }
        let mut left = pods;
        while left > 0 {
            let Some((at, per_node)) = self.roomiest(report, needs) else { break };
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
        pods - left
    }

    /// Returns the group with most room that takes a pod on each node, and how many each takes before
    /// another group has more room.
    fn roomiest(&self, report: &CapacityReport, needs: &Needs) -> Option<(usize, i64)> {
        let (mut best, mut second) = (None, 0);
        for (at, group) in self.groups.iter().enumerate() {
            if !needs.node.allow(&report.nodes[group.shape]) {
                continue;
            }
            let slots = group.free.slots(&needs.requests);
            if slots == 0 {
                continue;
            }
            let room = group.free.room();
            match best {
                Some((_, most, _)) if room <= most => second = second.max(room),
                Some((_, most, _)) => {
                    second = most;
                    best = Some((at, room, slots));
                }
                None => best = Some((at, room, slots)),
            }
        }
        let (at, room, slots) = best?;
        let step = (room - second) / needs.requests.size().max(1);
        Some((at, slots.min(step.max(1))))
    }

    fn insert(&mut self, group: Group) {
        let same = |other: &&mut Group| other.shape == group.shape && other.free == group.free;
        match self.groups.iter_mut().find(same) {
            Some(other) => other.count += group.count,
            None => self.groups.push(group),
        }
        if self.groups.len() > MAX_GROUPS {
            self.merge_closest();
        }
    }

    /// Merges the two groups that differ least, with the smaller room of both: too little is safe.
    fn merge_closest(&mut self) {
        self.groups.sort_by_key(|group| (group.shape, group.free.room(), group.free.milli_cpu));
        let gap = |pair: &[Group]| match pair {
            [one, other] if one.shape == other.shape => other.free.room() - one.free.room(),
            _ => i64::MAX,
        };
        let gaps = self.groups.windows(2).map(gap).enumerate();
        if let Some((at, gap)) = gaps.min_by_key(|(_, gap)| *gap)
            && gap < i64::MAX
        {
            let other = self.groups.remove(at + 1);
            self.groups[at].count += other.count;
            self.groups[at].free.lower_to(&other.free);
        }
    }

    /// Free resources of all nodes.
    pub fn total(&self) -> Resources {
        let mut total = Resources::default();
        for group in &self.groups {
            total.add(&group.free, group.count);
        }
        total
    }
}
