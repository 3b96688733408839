//! Computes the next actions of a StatefulSet: one pod at a time, or in parallel.

// upstream: pkg/controller/statefulset/stateful_set_control.go
// upstream: pkg/controller/statefulset/stateful_set_utils.go

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

use super::claims::{ClaimOwnership, blocks};
use super::identity::{
    claim, claim_name, claim_templates, identity_matches, is_wanted, new_pod, ordinal, replicas, revision,
    set_identity, set_storage, start, storage_matches,
};
use crate::shared::pods::{is_available, is_ready, phase};
use crate::workloads::history::template_of;

/// Maximum number of pods that one reconciliation creates; their events start the next one. Without a limit,
/// the memory of a reconciliation would grow with a number in the spec.
const MAX_CREATED: usize = 500;

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
pub enum PodStep {
    /// Create the pod, after its volume claims.
    Create(Value, Claims),
    /// Create volume claims that a pod waits for.
    CreateClaims(Arc<Value>, Claims),
    /// Update the pod to this object.
    Update(Value, Claims),
    /// Update the owners of the volume claims of a pod that will be deleted.
    UpdateClaimOwners(Arc<Value>, Claims),
    Delete(Arc<Value>),
}

/// Actions for the volume claims of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    pub create: Vec<Value>,
    /// Required claims that are being deleted.
    pub terminating: Vec<String>,
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
/// `parallel` is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Each phase starts after the previous one succeeded.
    pub phases: Vec<Vec<Vec<PodStep>>>,
    pub parallel: bool,
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
enum Progress {
    Continue,
    Wait,
}

pub fn reconcile(observed: &Observed<'_>) -> Plan {
    let Slots { wanted, condemned, is_complete } = sort_pods(observed);
    let parallel = observed.set["spec"]["podManagementPolicy"] == "Parallel";
    let mut plan = Plan { parallel, ..Plan::default() };
    plan.status = if object::is_being_deleted(observed.set) {
        counts(observed, observed.pods.iter().map(AsRef::as_ref))
    } else {
        let created = wanted.iter().filter_map(Slot::pod).chain(condemned.iter().copied());
        counts(observed, created.map(AsRef::as_ref))
    };
    if !object::is_being_deleted(observed.set) {
        plan_actions(observed, &wanted, &condemned, &mut plan);
    }
    if !is_complete {
        // The ordinals that are left out have no pods, so an update waits for them.
        plan.outdated = None;
    }
    plan.phases.retain(|phase| !phase.is_empty());
    plan
}

/// The slot of an ordinal: a pod, or none yet.
enum Slot<'a> {
    Pod(&'a Arc<Value>),
    Free(i64),
}

impl Slot<'_> {
    fn pod(&self) -> Option<&Arc<Value>> {
        match self {
            Slot::Pod(pod) => Some(pod),
            Slot::Free(_) => None,
        }
    }
}

/// The pods of a set, by ordinal.
struct Slots<'a> {
    /// The slots of wanted ordinals in ascending order, with at most `MAX_CREATED` free ones.
    wanted: Vec<Slot<'a>>,
    /// Pods with surplus ordinals, the highest first.
    condemned: Vec<&'a Arc<Value>>,
    /// Whether `wanted` contains all wanted ordinals.
    is_complete: bool,
}

fn sort_pods<'a>(observed: &Observed<'a>) -> Slots<'a> {
    let mut existing = BTreeMap::new();
    let mut condemned = Vec::new();
    for pod in observed.pods {
        match ordinal(pod) {
            Some(ordinal) if is_wanted(observed.set, ordinal) => drop(existing.insert(ordinal, pod)),
            Some(_) => condemned.push(pod),
            // The pod's name has no valid ordinal: it does not belong to the set.
            None => {}
        }
    }
    condemned.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    let (first, mut free) = (start(observed.set), MAX_CREATED);
    let mut slots = Slots { wanted: Vec::new(), condemned, is_complete: true };
    let mut next = first;
    let end = first + replicas(observed.set);
    for (ordinal, pod) in existing.into_iter().map(|(ordinal, pod)| (ordinal, Some(pod))).chain([(end, None)])
    {
        let gap = usize::try_from(ordinal - next).unwrap_or(0);
        slots.wanted.extend((next..ordinal).take(free).map(Slot::Free));
        slots.is_complete &= gap <= free;
        free = free.saturating_sub(gap);
        slots.wanted.extend(pod.map(Slot::Pod));
        next = ordinal + 1;
    }
    slots
}

fn plan_actions(observed: &Observed<'_>, wanted: &[Slot<'_>], condemned: &[&Arc<Value>], plan: &mut Plan) {
    let mut phase = Vec::new();
    for slot in wanted {
        let (steps, progress) = process_slot(observed, slot, plan.parallel);
        phase.extend((!steps.is_empty()).then_some(steps));
        if progress == Progress::Wait && !plan.parallel {
            plan.phases.push(phase);
            return;
        }
    }
    plan.phases.push(phase);
    let owner_updates = condemned.iter().filter_map(|pod| {
        let claims = owners(observed, pod);
        (!claims.is_empty()).then(|| vec![PodStep::UpdateClaimOwners((*pod).clone(), claims)])
    });
    plan.phases.push(owner_updates.collect());
    if plan.parallel {
        let not_deleting = condemned.iter().filter(|pod| !object::is_being_deleted(pod));
        plan.phases.push(not_deleting.map(|pod| vec![PodStep::Delete((*pod).clone())]).collect());
    } else if let Some(last) = condemned.first() {
        if may_delete_last(observed, wanted, condemned, last) {
            plan.phases.push(vec![vec![PodStep::Delete((*last).clone())]]);
        }
        return;
    }
    if observed.set["spec"]["updateStrategy"]["type"] != "OnDelete" {
        plan.outdated = outdated(observed, wanted);
    }
}

/// Whether, in ordered mode, the pod with the highest ordinal may be deleted now: it is healthy, or it is the
/// first unavailable pod.
fn may_delete_last(
    observed: &Observed<'_>,
    wanted: &[Slot<'_>],
    condemned: &[&Arc<Value>],
    last: &Arc<Value>,
) -> bool {
    if object::is_being_deleted(last) {
        return false;
    }
    if is_running_and_ready(last) && is_pod_available(observed, last) {
        return true;
    }
    let in_order = wanted.iter().filter_map(Slot::pod).chain(condemned.iter().rev().copied());
    let first = in_order.into_iter().find(|pod| is_unavailable(observed, pod));
    first.is_some_and(|first| Arc::ptr_eq(first, last))
}

/// Returns the actions for one ordinal.
fn process_slot(observed: &Observed<'_>, slot: &Slot<'_>, parallel: bool) -> (Vec<PodStep>, Progress) {
    let pod = match slot {
        Slot::Pod(pod) => *pod,
        Slot::Free(ordinal) => return create_pod(observed, *ordinal),
    };
    if matches!(phase(pod), "Failed" | "Succeeded") {
        let steps = match object::is_being_deleted(pod) {
            true => Vec::new(),
            false => vec![PodStep::Delete(pod.clone())],
        };
        return (steps, Progress::Wait);
    }
    let mut steps = Vec::new();
    let mut claims_are_right = false;
    if phase(pod) == "Pending" {
        let missing = missing(observed, pod);
        let claims =
            Claims { create: missing.create, terminating: missing.terminating, ..owners(observed, pod) };
        claims_are_right = !claims.update.is_empty();
        if !claims.is_empty() {
            steps.push(PodStep::CreateClaims(pod.clone(), claims));
        }
    }
    let is_healthy =
        !object::is_being_deleted(pod) && is_running_and_ready(pod) && is_pod_available(observed, pod);
    if !parallel && !is_healthy {
        return (steps, Progress::Wait);
    }
    steps.extend(repair(observed, pod, claims_are_right));
    (steps, Progress::Continue)
}

fn create_pod(observed: &Observed<'_>, ordinal: i64) -> (Vec<PodStep>, Progress) {
    let pod = new_versioned_pod(observed, ordinal);
    let names = claim_templates(observed.set).map(|template| claim_name(observed.set, template, ordinal));
    if names.filter_map(|name| (observed.claims)(&name)).any(|claim| blocks(observed.set, &pod, &claim)) {
        return (Vec::new(), Progress::Wait);
    }
    let claims = Claims { update: owners(observed, &pod).update, ..missing(observed, &pod) };
    (vec![PodStep::Create(pod, claims)], Progress::Wait)
}

/// Returns a new pod with the revision that applies to its ordinal.
fn new_versioned_pod(observed: &Observed<'_>, ordinal: i64) -> Value {
    let strategy = &observed.set["spec"]["updateStrategy"];
    let (first, rolling) = (start(observed.set), &strategy["rollingUpdate"]);
    let stays = match rolling.is_null() {
        true => {
            let current = observed.set["status"]["currentReplicas"].as_i64().unwrap_or(0);
            strategy["type"] == "RollingUpdate" && ordinal < first + current
        }
        false => ordinal < first + partition(observed.set),
    };
    let from = if stays { observed.current } else { observed.update };
    new_pod(observed.set, &template_of(from), object::name(from), ordinal)
}

fn partition(set: &Value) -> i64 {
    set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0)
}

/// Returns the volume claims that a pod lacks.
fn missing(observed: &Observed<'_>, pod: &Value) -> Claims {
    let mut claims = Claims::default();
    let Some(ordinal) = ordinal(pod) else { return claims };
    for template in claim_templates(observed.set) {
        let name = claim_name(observed.set, template, ordinal);
        match (observed.claims)(&name) {
            None => claims.create.push(claim(observed.set, template, ordinal)),
            Some(existing) if object::is_being_deleted(&existing) => claims.terminating.push(name),
            Some(_) => {}
        }
    }
    claims
}

/// Returns the volume claims of a pod whose owners must change.
fn owners(observed: &Observed<'_>, pod: &Value) -> Claims {
    let mut claims = Claims::default();
    let Some(ordinal) = ordinal(pod) else { return claims };
    for template in claim_templates(observed.set) {
        let name = claim_name(observed.set, template, ordinal);
        let Some(claim) = (observed.claims)(&name) else { continue };
        let ownership = ClaimOwnership { claim: &claim, set: observed.set, pod };
        if !ownership.is_up_to_date() {
            claims.conflicting.extend(ownership.has_other_controller().then_some(name));
            claims.update.push(ownership.updated());
        }
    }
    claims
}

fn repair(observed: &Observed<'_>, pod: &Arc<Value>, claims_are_right: bool) -> Option<PodStep> {
    let (identity, storage) = (identity_matches(observed.set, pod), storage_matches(observed.set, pod));
    let owners = if claims_are_right { Claims::default() } else { owners(observed, pod) };
    if identity && storage && owners.is_empty() {
        return None;
    }
    let ordinal = ordinal(pod)?;
    let mut right = pod.as_ref().clone();
    if !identity {
        set_identity(observed.set, &mut right, ordinal);
    }
    let mut claims = owners;
    if !storage {
        set_storage(observed.set, &mut right, ordinal);
        let missing = missing(observed, pod);
        claims = Claims { create: missing.create, terminating: missing.terminating, ..claims };
    }
    Some(PodStep::Update(right, claims))
}

/// Returns the next pod to replace, from the highest ordinal to the lowest; none while a higher one is
/// unavailable.
fn outdated(observed: &Observed<'_>, wanted: &[Slot<'_>]) -> Option<Arc<Value>> {
    let first = usize::try_from(partition(observed.set)).unwrap_or(usize::MAX);
    for slot in wanted.iter().skip(first).rev() {
        let pod = slot.pod()?;
        if revision(pod) != object::name(observed.update) && !object::is_being_deleted(pod) {
            return Some(pod.clone());
        }
        if is_unavailable(observed, pod) {
            return None;
        }
    }
    None
}

fn is_running_and_ready(pod: &Value) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

fn is_pod_available(observed: &Observed<'_>, pod: &Value) -> bool {
    is_available(pod, min_ready_seconds(observed.set), observed.now)
}

fn is_unavailable(observed: &Observed<'_>, pod: &Value) -> bool {
    !is_pod_available(observed, pod) || object::is_being_deleted(pod)
}

pub fn min_ready_seconds(set: &Value) -> i64 {
    set["spec"]["minReadySeconds"].as_i64().unwrap_or(0)
}

fn counts<'a>(observed: &Observed<'_>, pods: impl Iterator<Item = &'a Value>) -> Counts {
    let mut counts = Counts::default();
    for pod in pods {
        let is_created = !phase(pod).is_empty();
        let is_ready = is_running_and_ready(pod);
        let counts_for =
            |of: &Value| is_created && !object::is_being_deleted(pod) && revision(pod) == object::name(of);
        counts.replicas += i64::from(is_created);
        counts.ready += i64::from(is_ready);
        counts.available += i64::from(is_ready && is_pod_available(observed, pod));
        counts.current += i64::from(counts_for(observed.current));
        counts.updated += i64::from(counts_for(observed.update));
    }
    counts
}

/// Returns the status of a set with these counts. An update ends when all pods have its revision and are
/// ready.
pub fn status(observed: &Observed<'_>, mut counts: Counts) -> Value {
    let wanted = replicas(observed.set);
    let mut current = object::name(observed.current);
    let is_rolling = observed.set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    if is_rolling && [counts.updated, counts.ready, counts.replicas] == [wanted; 3] {
        counts.current = counts.updated;
        current = object::name(observed.update);
    }
    let mut status = json!({
        "observedGeneration": object::generation(observed.set),
        "replicas": counts.replicas,
        "currentRevision": current,
        "updateRevision": object::name(observed.update),
        "collisionCount": observed.collisions,
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
