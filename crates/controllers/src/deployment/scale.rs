//! How many pods each ReplicaSet of a Deployment is to have.
//!
//! ```text
//!   size changed, or paused ─► in_proportion: all sets grow and shrink together
//!   rolling update ─► grow_new, else shrink_old: the unhealthy first, never below what must be available
//!   recreate ─► stop_old; when nothing is left, the new one
//! ```

use serde_json::Value;

use super::limits;
use super::revision::note_replicas;
use super::set::{DESIRED_REPLICAS, MAX_REPLICAS, Set, by_age};

/// The sets of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    pub new: Option<Set>,
    /// All others.
    pub old: Vec<Set>,
}

impl Sets {
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Set> {
        self.old.iter_mut().chain(&mut self.new)
    }

    /// How many pods all are to have.
    pub fn replicas(&self) -> i64 {
        self.all().map(Set::replicas).sum()
    }

    /// How many pods there are or are to be: one that is to go takes room until it goes.
    pub fn pods(&self) -> i64 {
        self.all().map(Set::pods).sum()
    }
}

/// Whether the Deployment has another size than when its sets got theirs.
pub fn is_scaled(deployment: &Value, sets: &Sets) -> bool {
    let wanted = limits::replicas(deployment);
    sets.all()
        .filter(|set| set.is_active())
        .any(|set| noted(set, DESIRED_REPLICAS).is_some_and(|own| own != wanted))
}

/// Gives a set another size. Says whether it had another before.
fn resize(deployment: &Value, set: &mut Set, size: i64) -> bool {
    if set.replicas() == size {
        return false;
    }
    set.change()["spec"]["replicas"] = size.into();
    note_replicas(deployment, set);
    true
}

/// The size of the new set, as far as there is room for more pods.
pub fn new_size(deployment: &Value, total: i64, current: i64) -> i64 {
    let wanted = limits::replicas(deployment);
    if !limits::is_rolling(deployment) {
        return wanted;
    }
    let room = wanted + limits::max_surge(deployment) - total;
    if room <= 0 { current } else { current + room.min(wanted - current) }
}

/// Rolling update, first half. Says whether anything changes.
pub fn grow_new(deployment: &Value, sets: &mut Sets) -> bool {
    let (total, wanted) = (sets.pods(), limits::replicas(deployment));
    let Some(new) = &mut sets.new else { return false };
    let size = match new.replicas() {
        current if current >= wanted => wanted,
        current => new_size(deployment, total, current),
    };
    resize(deployment, new, size)
}

/// Rolling update, second half. Says whether anything changes.
pub fn shrink_old(deployment: &Value, sets: &mut Sets) -> bool {
    let least = limits::replicas(deployment) - limits::max_unavailable(deployment);
    let missing = sets.new.as_ref().map_or(0, |new| new.replicas() - new.available());
    let most = sets.replicas() - least - missing;
    if most <= 0 {
        return false;
    }
    sets.old.sort_by(by_age);
    let mut gone = 0;
    // Those that do no good are not missed, and would be in the way.
    for set in sets.old.iter_mut().filter(|set| set.is_active()) {
        let unhealthy = (set.replicas() - set.available()).min(most - gone);
        resize(deployment, set, set.replicas() - unhealthy);
        gone += unhealthy;
    }
    let available: i64 = sets.all().map(Set::available).sum();
    let mut more = (available - least).min(most - gone);
    for set in sets.old.iter_mut().filter(|set| set.is_active()) {
        let size = set.replicas() - set.replicas().min(more.max(0));
        more -= set.replicas() - size;
        gone += set.replicas() - size;
        resize(deployment, set, size);
    }
    gone > 0
}

/// Recreate: no pods of old sets. Says whether anything changes.
pub fn stop_old(deployment: &Value, sets: &mut Sets) -> bool {
    let active = sets.old.iter_mut().filter(|set| set.is_active());
    active.map(|set| resize(deployment, set, 0)).fold(false, |any, changed| any | changed)
}

/// Recreate: all pods of the new set.
pub fn fill_new(deployment: &Value, sets: &mut Sets) {
    if let Some(new) = &mut sets.new {
        resize(deployment, new, limits::replicas(deployment));
    }
}

/// The size of the Deployment has changed, or it is paused: sets share in what comes or goes by how large they are, so that
/// a rollout gets neither ahead nor behind by it.
pub fn in_proportion(deployment: &Value, sets: &mut Sets) {
    let wanted = limits::replicas(deployment);
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
        stop_old(deployment, sets);
        return;
    }
    if limits::is_rolling(deployment) {
        share(deployment, sets);
    }
}

fn share(deployment: &Value, sets: &mut Sets) {
    let wanted = limits::replicas(deployment);
    let allowed = if wanted > 0 { wanted + limits::max_surge(deployment) } else { 0 };
    let mut active: Vec<&mut Set> = sets.all_mut().filter(|set| set.is_active()).collect();
    let change = allowed - active.iter().map(|set| set.replicas()).sum::<i64>();
    // Of sets of one size newer ones grow first, older ones shrink first.
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
    // What is left over by rounding is the largest one's.
    if let Some(first) = sizes.first_mut() {
        *first = (*first + change - done).max(0);
    }
    for (set, size) in active.into_iter().zip(sizes) {
        if !resize(deployment, set, size) {
            note_replicas(deployment, set);
        }
    }
}

/// By how much a set changes when its Deployment does.
fn fraction(deployment: &Value, set: &Set) -> i64 {
    let wanted = limits::replicas(deployment);
    if wanted == 0 {
        return -set.replicas();
    }
    let before = noted(set, MAX_REPLICAS).filter(|most| *most != 0);
    let before = before.unwrap_or_else(|| deployment["status"]["replicas"].as_i64().unwrap_or(0));
    if before == 0 {
        return 0;
    }
    let size = set.replicas().saturating_mul(wanted + limits::max_surge(deployment));
    rounded(size, before) - set.replicas()
}

/// A quotient of numbers that are not negative, halves upwards.
fn rounded(number: i64, by: i64) -> i64 {
    (number.saturating_mul(2) + by) / (2 * by)
}

fn noted(set: &Set, annotation: &str) -> Option<i64> {
    set.annotation(annotation)?
        .parse::<u32>()
        .ok()
        .filter(|count| i32::try_from(*count).is_ok())
        .map(i64::from)
}

/// Whether the new set has all pods, they can be counted on, and everybody agrees on how many they are.
fn is_saturated(deployment: &Value, new: &Set) -> bool {
    let wanted = limits::replicas(deployment);
    new.replicas() == wanted
        && new.annotation(DESIRED_REPLICAS).and_then(|text| text.parse::<i64>().ok()) == Some(wanted)
        && new.count("availableReplicas") == wanted
}

#[cfg(test)]
mod tests;
