//! Computes the size of each ReplicaSet of a Deployment.
//!
//! ```text
//!   size changed, or paused ─► scale_proportionally: all sets grow and shrink together
//!   rolling update ─► scale_up_new, else scale_down_old: unhealthy pods first, never below the minimum available
//!   recreate ─► scale_down_all_old; when no old pod is left, the new set
//! ```

// upstream: pkg/controller/deployment/sync.go
// upstream: pkg/controller/deployment/rolling.go
// upstream: pkg/controller/deployment/recreate.go
// upstream: pkg/controller/deployment/util/deployment_util.go

use serde_json::Value;

use super::limits;
use super::revision::set_replicas_annotations;
use super::set::{DESIRED_REPLICAS, MAX_REPLICAS, Set, by_age};
use crate::shared::views::DeploymentView;
use crate::shared::views::status::{AVAILABLE_REPLICAS, REPLICAS};

/// The ReplicaSets of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    pub new: Option<Set>,
    /// All other sets.
    pub old: Vec<Set>,
}

impl Sets {
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Set> {
        self.old.iter_mut().chain(&mut self.new)
    }

    /// Returns the sum of the desired pods.
    pub fn replicas(&self) -> i64 {
        self.all().map(Set::replicas).sum()
    }

    /// Returns the sum of existing or desired pods. A pod that should be deleted counts until it is gone.
    pub fn pods(&self) -> i64 {
        self.all().map(Set::pods).sum()
    }
}

/// Whether the Deployment's size differs from the one noted on its active sets.
pub fn is_scaled(deployment: &Value, sets: &Sets) -> bool {
    let wanted = DeploymentView::of(deployment).replicas();
    sets.all()
        .filter(|set| set.is_active())
        .any(|set| annotated_count(set, DESIRED_REPLICAS).is_some_and(|own| own != wanted))
}

/// Sets the size of a set. Returns whether it changed.
fn resize(deployment: &Value, set: &mut Set, size: i64) -> bool {
    if set.replicas() == size {
        return false;
    }
    set.change()["spec"]["replicas"] = size.into();
    set_replicas_annotations(deployment, set);
    true
}

/// Returns the size of the new set, limited by the surge.
pub fn new_size(deployment: &Value, total: i64, current: i64) -> i64 {
    let wanted = DeploymentView::of(deployment).replicas();
    if !DeploymentView::of(deployment).is_rolling() {
        return wanted;
    }
    let room = wanted + limits::max_surge(deployment) - total;
    if room <= 0 { current } else { current + room.min(wanted - current) }
}

/// First half of a rolling update. Returns whether anything changed.
pub fn scale_up_new(deployment: &Value, sets: &mut Sets) -> bool {
    let (total, wanted) = (sets.pods(), DeploymentView::of(deployment).replicas());
    let Some(new) = &mut sets.new else { return false };
    let size = match new.replicas() {
        current if current >= wanted => wanted,
        current => new_size(deployment, total, current),
    };
    resize(deployment, new, size)
}

/// Second half of a rolling update. Returns whether anything changed.
pub fn scale_down_old(deployment: &Value, sets: &mut Sets) -> bool {
    let least = DeploymentView::of(deployment).replicas() - limits::max_unavailable(deployment);
    let missing = sets.new.as_ref().map_or(0, |new| new.replicas() - new.available());
    let most = sets.replicas() - least - missing;
    if most <= 0 {
        return false;
    }
    sets.old.sort_by(by_age);
    let mut removed = 0;
    // Unavailable pods of old sets are removed first, because they would block the rollout.
    for set in sets.old.iter_mut().filter(|set| set.is_active()) {
        let unhealthy = (set.replicas() - set.available()).min(most - removed);
        resize(deployment, set, set.replicas() - unhealthy);
        removed += unhealthy;
    }
    let available: i64 = sets.all().map(Set::available).sum();
    let mut more = (available - least).min(most - removed);
    for set in sets.old.iter_mut().filter(|set| set.is_active()) {
        let size = set.replicas() - set.replicas().min(more.max(0));
        more -= set.replicas() - size;
        removed += set.replicas() - size;
        resize(deployment, set, size);
    }
    removed > 0
}

/// Recreate: scales all old sets to zero. Returns whether anything changed.
pub fn scale_down_all_old(deployment: &Value, sets: &mut Sets) -> bool {
    let active = sets.old.iter_mut().filter(|set| set.is_active());
    active.map(|set| resize(deployment, set, 0)).fold(false, |any, changed| any | changed)
}

/// Recreate: scales the new set to all pods.
pub fn scale_new_to_full(deployment: &Value, sets: &mut Sets) {
    if let Some(new) = &mut sets.new {
        resize(deployment, new, DeploymentView::of(deployment).replicas());
    }
}

/// Scales all sets in proportion to their size after the size of the Deployment changed, or while it is
/// paused, so that the progress of a rollout stays the same.
pub fn scale_proportionally(deployment: &Value, sets: &mut Sets) {
    let wanted = DeploymentView::of(deployment).replicas();
    sets.old.sort_by(|one, other| by_age(other, one));
    let active = sets.all().filter(|set| set.is_active()).count();
    if active <= 1 {
        let only = match active {
            1 => sets.all_mut().find(|set| set.is_active()),
            _ if sets.new.is_some() => sets.new.as_mut(),
            _ => sets.old.first_mut(),
        };
        if let Some(set) = only {
            resize(deployment, set, wanted);
        }
        return;
    }
    if sets.new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        scale_down_all_old(deployment, sets);
        return;
    }
    if DeploymentView::of(deployment).is_rolling() {
        distribute(deployment, sets);
    }
}

fn distribute(deployment: &Value, sets: &mut Sets) {
    let wanted = DeploymentView::of(deployment).replicas();
    let allowed = if wanted > 0 { wanted + limits::max_surge(deployment) } else { 0 };
    let mut active: Vec<&mut Set> = sets.all_mut().filter(|set| set.is_active()).collect();
    let change = allowed - active.iter().map(|set| set.replicas()).sum::<i64>();
    // Of sets of the same size, newer ones grow first and older ones shrink first.
    active.sort_by(|one, other| {
        let age = if change > 0 { by_age(other, one) } else { by_age(one, other) };
        other.replicas().cmp(&one.replicas()).then(age)
    });
    let (mut done, mut sizes) = (0, Vec::new());
    for set in &active {
        let part = match change - done {
            0 => 0,
            left if change > 0 => fraction(deployment, set).min(left),
            left => fraction(deployment, set).max(left),
        };
        sizes.push(set.replicas() + part);
        done += part;
    }
    // The rounding error goes to the largest set.
    if let Some(first) = sizes.first_mut() {
        *first = (*first + change - done).max(0);
    }
    for (set, size) in active.into_iter().zip(sizes) {
        if !resize(deployment, set, size) {
            set_replicas_annotations(deployment, set);
        }
    }
}

/// Returns the change of a set's size in proportion to the Deployment's change.
fn fraction(deployment: &Value, set: &Set) -> i64 {
    let wanted = DeploymentView::of(deployment).replicas();
    if wanted == 0 {
        return -set.replicas();
    }
    let before = annotated_count(set, MAX_REPLICAS).filter(|most| *most != 0);
    let before = before.unwrap_or_else(|| DeploymentView::of(deployment).status().count(REPLICAS));
    if before == 0 {
        return 0;
    }
    let size = set.replicas().saturating_mul(wanted + limits::max_surge(deployment));
    rounded(size, before) - set.replicas()
}

/// Divides non-negative numbers, rounding half up.
fn rounded(number: i64, by: i64) -> i64 {
    (number.saturating_mul(2) + by) / (2 * by)
}

fn annotated_count(set: &Set, annotation: &str) -> Option<i64> {
    set.annotation(annotation)?
        .parse::<u32>()
        .ok()
        .filter(|count| i32::try_from(*count).is_ok())
        .map(i64::from)
}

/// Whether the new set has all pods, they are available, and its annotation agrees.
fn is_saturated(deployment: &Value, new: &Set) -> bool {
    let wanted = DeploymentView::of(deployment).replicas();
    new.replicas() == wanted
        && new.annotation(DESIRED_REPLICAS).and_then(|text| text.parse::<i64>().ok()) == Some(wanted)
        && new.count(AVAILABLE_REPLICAS) == wanted
}

#[cfg(test)]
mod tests;
