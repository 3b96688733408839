//! Computes the next actions of a StatefulSet: one pod at a time, or in parallel.

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use super::claims::{Owned, blocks};
use super::identity::{
    claim, claim_name, claim_templates, identity_matches, is_wanted, new_pod, ordinal, replicas, revision,
    set_identity, set_storage, start, storage_matches,
};
use crate::history::template_of;
use crate::pods::{is_available, is_ready, phase};

/// Input of a reconciliation.
pub struct Observed<'a> {
    pub set: &'a Value,
    pub pods: &'a [Arc<Value>],
    /// The current revision of the pods, and the one that they are updated to. Equal unless an update is in
    /// progress.
    pub current: &'a Value,
    pub update: &'a Value,
    pub collisions: i64,
    /// Returns the volume claim with a name, in the namespace of the set.
    pub claims: &'a (dyn Fn(&str) -> Option<Arc<Value>> + Sync),
    pub now: Timestamp,
}

/// An action for one pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create the pod, after its volume claims.
    Create(Value, Claims),
    /// Create volume claims that a pod waits for.
    Provide(Arc<Value>, Claims),
    /// Update the pod to this object.
    Update(Value, Claims),
    /// Update the owners of the volume claims of a pod that will be deleted.
    Disown(Arc<Value>, Claims),
    Delete(Arc<Value>),
}

/// Actions for the volume claims of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    pub create: Vec<Value>,
    /// Required claims that are being deleted.
    pub going: Vec<String>,
    pub update: Vec<Value>,
    /// Claims with another controller, for which the retention policy is ignored.
    pub conflicting: Vec<String>,
}

impl Claims {
    fn is_empty(&self) -> bool {
        *self == Claims::default()
    }
}

/// The next actions. The steps of one pod are executed in order; those of different pods in parallel if
/// `together` is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Each phase starts after the previous one succeeded.
    pub phases: Vec<Vec<Vec<Step>>>,
    pub together: bool,
    /// The outdated pod to delete last, so that it is recreated with the new revision.
    pub outdated: Option<Arc<Value>>,
    pub status: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub replicas: i64,
    pub ready: i64,
    pub available: i64,
    pub current: i64,
    pub updated: i64,
}

/// Whether the next pods may be processed, too.
#[derive(PartialEq)]
enum Turn {
    Next,
    Wait,
}

pub fn reconcile(seen: &Observed<'_>) -> Plan {
    let (wanted, condemned) = sorted(seen);
    let together = seen.set["spec"]["podManagementPolicy"] == "Parallel";
    let mut plan = Plan { together, ..Plan::default() };
    plan.status = if object::is_being_deleted(seen.set) {
        counts(seen, seen.pods.iter().map(AsRef::as_ref))
    } else {
        let created = wanted.iter().filter_map(Place::pod).chain(condemned.iter().copied());
        counts(seen, created.map(AsRef::as_ref))
    };
    if !object::is_being_deleted(seen.set) {
        fill(seen, &wanted, &condemned, &mut plan);
    }
    plan.phases.retain(|phase| !phase.is_empty());
    plan
}

/// The slot of an ordinal: a pod, or none yet.
enum Place<'a> {
    Taken(&'a Arc<Value>),
    Free(i64),
}

impl Place<'_> {
    fn pod(&self) -> Option<&Arc<Value>> {
        match self {
            Place::Taken(pod) => Some(pod),
            Place::Free(_) => None,
        }
    }
}

/// Returns pods by ordinal, and those with surplus ordinals, the highest first.
fn sorted<'a>(seen: &Observed<'a>) -> (Vec<Place<'a>>, Vec<&'a Arc<Value>>) {
    let first = start(seen.set);
    let mut wanted: Vec<Place<'a>> = (first..first + replicas(seen.set)).map(Place::Free).collect();
    let mut condemned = Vec::new();
    for pod in seen.pods {
        match ordinal(pod) {
            Some(ordinal) if is_wanted(seen.set, ordinal) => {
                let place = usize::try_from(ordinal - first).ok().and_then(|place| wanted.get_mut(place));
                if let Some(place) = place {
                    *place = Place::Taken(pod);
                }
            }
            Some(_) => condemned.push(pod),
            // The pod's name has no valid ordinal: it does not belong to the set.
            None => {}
        }
    }
    condemned.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    (wanted, condemned)
}

fn fill(seen: &Observed<'_>, wanted: &[Place<'_>], condemned: &[&Arc<Value>], plan: &mut Plan) {
    let mut phase = Vec::new();
    for place in wanted {
        let (steps, turn) = look_after(seen, place, plan.together);
        phase.extend((!steps.is_empty()).then_some(steps));
        if turn == Turn::Wait && !plan.together {
            plan.phases.push(phase);
            return;
        }
    }
    plan.phases.push(phase);
    let disowned = condemned.iter().filter_map(|pod| {
        let claims = owners(seen, pod);
        (!claims.is_empty()).then(|| vec![Step::Disown((*pod).clone(), claims)])
    });
    plan.phases.push(disowned.collect());
    if plan.together {
        let living = condemned.iter().filter(|pod| !object::is_being_deleted(pod));
        plan.phases.push(living.map(|pod| vec![Step::Delete((*pod).clone())]).collect());
    } else if let Some(last) = condemned.first() {
        if may_end(seen, wanted, condemned, last) {
            plan.phases.push(vec![vec![Step::Delete((*last).clone())]]);
        }
        return;
    }
    if seen.set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        plan.outdated = outdated(seen, wanted);
    }
}

/// Whether, in ordered mode, the pod with the highest ordinal may be deleted now: it is healthy, or it is the
/// first unavailable pod.
fn may_end(seen: &Observed<'_>, wanted: &[Place<'_>], condemned: &[&Arc<Value>], last: &Arc<Value>) -> bool {
    if object::is_being_deleted(last) {
        return false;
    }
    if is_running_and_ready(last) && is_fit(seen, last) {
        return true;
    }
    let in_order = wanted.iter().filter_map(Place::pod).chain(condemned.iter().rev().copied());
    let first = in_order.into_iter().find(|pod| is_unavailable(seen, pod));
    first.is_some_and(|first| Arc::ptr_eq(first, last))
}

/// Returns the actions for one ordinal.
fn look_after(seen: &Observed<'_>, place: &Place<'_>, together: bool) -> (Vec<Step>, Turn) {
    let pod = match place {
        Place::Taken(pod) => *pod,
        Place::Free(ordinal) => return make(seen, *ordinal),
    };
    if matches!(phase(pod), "Failed" | "Succeeded") {
        let steps = match object::is_being_deleted(pod) {
            true => Vec::new(),
            false => vec![Step::Delete(pod.clone())],
        };
        return (steps, Turn::Wait);
    }
    let mut steps = Vec::new();
    let mut claims_are_right = false;
    if phase(pod) == "Pending" {
        let missing = missing(seen, pod);
        let claims = Claims { create: missing.create, going: missing.going, ..owners(seen, pod) };
        claims_are_right = !claims.update.is_empty();
        if !claims.is_empty() {
            steps.push(Step::Provide(pod.clone(), claims));
        }
    }
    let is_well = !object::is_being_deleted(pod) && is_running_and_ready(pod) && is_fit(seen, pod);
    if !together && !is_well {
        return (steps, Turn::Wait);
    }
    steps.extend(repair(seen, pod, claims_are_right));
    (steps, Turn::Next)
}

fn make(seen: &Observed<'_>, ordinal: i64) -> (Vec<Step>, Turn) {
    let pod = versioned(seen, ordinal);
    let names = claim_templates(seen.set).map(|template| claim_name(seen.set, template, ordinal));
    if names.filter_map(|name| (seen.claims)(&name)).any(|claim| blocks(seen.set, &pod, &claim)) {
        return (Vec::new(), Turn::Wait);
    }
    let claims = Claims { update: owners(seen, &pod).update, ..missing(seen, &pod) };
    (vec![Step::Create(pod, claims)], Turn::Wait)
}

/// Returns a new pod with the revision that applies to its ordinal.
fn versioned(seen: &Observed<'_>, ordinal: i64) -> Value {
    let strategy = &seen.set["spec"]["updateStrategy"];
    let (first, rolling) = (start(seen.set), &strategy["rollingUpdate"]);
    let stays = match rolling.is_null() {
        true => {
            let current = seen.set["status"]["currentReplicas"].as_i64().unwrap_or(0);
            strategy["type"] == "RollingUpdate" && ordinal < first + current
        }
        false => ordinal < first + partition(seen.set),
    };
    let from = if stays { seen.current } else { seen.update };
    new_pod(seen.set, &template_of(from), object::name(from), ordinal)
}

fn partition(set: &Value) -> i64 {
    set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0)
}

/// Returns the volume claims that a pod lacks.
fn missing(seen: &Observed<'_>, pod: &Value) -> Claims {
    let mut claims = Claims::default();
    let Some(ordinal) = ordinal(pod) else { return claims };
    for template in claim_templates(seen.set) {
        let name = claim_name(seen.set, template, ordinal);
        match (seen.claims)(&name) {
            None => claims.create.push(claim(seen.set, template, ordinal)),
            Some(existing) if object::is_being_deleted(&existing) => claims.going.push(name),
            Some(_) => {}
        }
    }
    claims
}

/// Returns the volume claims of a pod whose owners must change.
fn owners(seen: &Observed<'_>, pod: &Value) -> Claims {
    let mut claims = Claims::default();
    let Some(ordinal) = ordinal(pod) else { return claims };
    for template in claim_templates(seen.set) {
        let name = claim_name(seen.set, template, ordinal);
        let Some(claim) = (seen.claims)(&name) else { continue };
        let owned = Owned { claim: &claim, set: seen.set, pod };
        if !owned.is_up_to_date() {
            claims.conflicting.extend(owned.is_somebody_elses().then_some(name));
            claims.update.push(owned.updated());
        }
    }
    claims
}

fn repair(seen: &Observed<'_>, pod: &Arc<Value>, claims_are_right: bool) -> Option<Step> {
    let (identity, storage) = (identity_matches(seen.set, pod), storage_matches(seen.set, pod));
    let owners = if claims_are_right { Claims::default() } else { owners(seen, pod) };
    if identity && storage && owners.is_empty() {
        return None;
    }
    let ordinal = ordinal(pod)?;
    let mut right = pod.as_ref().clone();
    if !identity {
        set_identity(seen.set, &mut right, ordinal);
    }
    let mut claims = owners;
    if !storage {
        set_storage(seen.set, &mut right, ordinal);
        let missing = missing(seen, pod);
        claims = Claims { create: missing.create, going: missing.going, ..claims };
    }
    Some(Step::Update(right, claims))
}

/// Returns the next pod to replace, from the highest ordinal to the lowest; none while a higher one is
/// unavailable.
fn outdated(seen: &Observed<'_>, wanted: &[Place<'_>]) -> Option<Arc<Value>> {
    let first = usize::try_from(partition(seen.set)).unwrap_or(usize::MAX);
    for place in wanted.iter().skip(first).rev() {
        let pod = place.pod()?;
        if revision(pod) != object::name(seen.update) && !object::is_being_deleted(pod) {
            return Some(pod.clone());
        }
        if is_unavailable(seen, pod) {
            return None;
        }
    }
    None
}

fn is_running_and_ready(pod: &Value) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

fn is_fit(seen: &Observed<'_>, pod: &Value) -> bool {
    is_available(pod, min_ready_seconds(seen.set), seen.now)
}

fn is_unavailable(seen: &Observed<'_>, pod: &Value) -> bool {
    !is_fit(seen, pod) || object::is_being_deleted(pod)
}

pub fn min_ready_seconds(set: &Value) -> i64 {
    set["spec"]["minReadySeconds"].as_i64().unwrap_or(0)
}

fn counts<'a>(seen: &Observed<'_>, pods: impl Iterator<Item = &'a Value>) -> Counts {
    let mut counts = Counts::default();
    for pod in pods {
        let is_created = !phase(pod).is_empty();
        let is_ready = is_running_and_ready(pod);
        let counts_for =
            |of: &Value| is_created && !object::is_being_deleted(pod) && revision(pod) == object::name(of);
        counts.replicas += i64::from(is_created);
        counts.ready += i64::from(is_ready);
        counts.available += i64::from(is_ready && is_fit(seen, pod));
        counts.current += i64::from(counts_for(seen.current));
        counts.updated += i64::from(counts_for(seen.update));
    }
    counts
}

/// Returns the status of a set with these counts. An update ends when all pods have its revision and are
/// ready.
pub fn status(seen: &Observed<'_>, mut counts: Counts) -> Value {
    let wanted = replicas(seen.set);
    let mut current = object::name(seen.current);
    let is_rolling = seen.set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    if is_rolling && [counts.updated, counts.ready, counts.replicas] == [wanted; 3] {
        counts.current = counts.updated;
        current = object::name(seen.update);
    }
    let mut status = json!({
        "observedGeneration": object::generation(seen.set),
        "replicas": counts.replicas,
        "currentRevision": current,
        "updateRevision": object::name(seen.update),
        "collisionCount": seen.collisions,
        "availableReplicas": counts.available,
    });
    let sometimes = [
        ("readyReplicas", counts.ready),
        ("currentReplicas", counts.current),
        ("updatedReplicas", counts.updated),
    ];
    for (field, count) in sometimes.into_iter().filter(|(_, count)| *count != 0) {
        status[field] = count.into();
    }
    status
}

/// Whether a status differs from the stored one.
pub fn differs(set: &Value, status: &Value) -> bool {
    let number = |of: &Value, field: &str| of[field].as_i64().unwrap_or(0);
    const COUNTS: [&str; 5] =
        ["replicas", "currentReplicas", "readyReplicas", "updatedReplicas", "availableReplicas"];
    let old = &set["status"];
    number(status, "observedGeneration") > number(old, "observedGeneration")
        || COUNTS.iter().any(|field| number(status, field) != number(old, field))
        || ["currentRevision", "updateRevision"].iter().any(|field| {
            status[*field].as_str().unwrap_or_default() != old[*field].as_str().unwrap_or_default()
        })
}

#[cfg(test)]
mod tests;
