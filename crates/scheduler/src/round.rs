//! One batch of decisions. Each decision sees the reservations of the previous ones.

mod explain;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use atoll_fleet::owners::MAX_OWNERS;
use atoll_fleet::placed_condition::{BEYOND_POLICY, CONDITION, ConditionValue, NOT_PLACED, UNSCHEDULABLE};
use atoll_fleet::placement::{LeftOut, MAX_LEFT_OUT, Share, names_of};
use atoll_fleet::{Placement, placed_by, pod_security};
use atoll_informer::{Key, Resource};
use atoll_meta::text::clean;
use atoll_meta::views::condition;
use atoll_meta::{Status, object};
use atoll_placement::cluster::resource_name;
use atoll_placement::decide::{DecidedShare, PlacementDecision, decide};
use atoll_placement::demand::{CurrentShare, Demand, Work};
use atoll_placement::fleet::Fleet;
use atoll_placement::intent::{Intent, IntentSource};
use atoll_placement::policy::{Policy, PolicySelection, PolicyTarget, select};
use atoll_placement::rules::{ClusterFilter, Division, Rules};
use serde_json::{Value, json};

use crate::Scheduler;
use crate::advance::Decidable;
use crate::beyond_policy;
use crate::ledger::Ledger;
use crate::other_workloads;
use crate::rules::{pins, rules};
use crate::taking_over;
use crate::workloads;
use crate::writer::{PlacementTarget, Wanted};

/// Label that every Namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Most clusters per object that are excluded because their Pod Security level does not allow its pods. The
/// server refuses any further one.
const MAX_VIOLATIONS: usize = 16;
/// Most clusters in a message, and the longest text about one of them.
const MAX_REASONS: usize = 16;
const LONGEST_REASON: usize = 512;
/// Most policies that a round keeps for further objects of their namespaces. Workspaces inherit those of all
/// workspaces above.
const MAX_CANDIDATES: usize = 4096;
/// The refusal of a cluster whose Pod Security level does not allow the pods.
const POD_SECURITY: &str = "PodSecurity";
/// Message about an object that no cluster can run.
const NO_CLUSTER: &str =
    "no cluster serves this workspace; join one with: atoll cluster join NAME --kubeconfig FILE";

type Candidates = Arc<Vec<Policy>>;

/// The action that follows from a decision.
pub enum DecidedStep {
    /// Nothing is to be written.
    Settled,
    /// The placement is to be written. The reason and the message say which replicas have no place.
    Place(PlacementTarget, Wanted, Option<(&'static str, String)>),
    /// `spec.replicas` is to be set to the number that an autoscaler in a cluster has set there.
    Scale(PlacementTarget, i64),
    /// The placement was made without the scheduler, and is to become this intent.
    TakeOver(PlacementTarget, Intent),
    /// The object stays as it is, and the reason is reported.
    Report(PlacementTarget, ConditionValue),
    Failed(Status),
}

/// Whether an object of another kind than a workload is placed by an intent of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eligibility {
    Eligible,
    /// Neither its annotation nor a policy asks for clusters, and its kind is not imported.
    NotAsked,
    /// A policy applies to all custom kinds, or its kind was imported, but no cluster serves it.
    NotServed,
}

/// The rules of an object and its needs.
struct Prepared<'p> {
    selection: PolicySelection<'p>,
    demand: Demand,
    rules: Rules,
    /// The reason why the rules cannot be applied.
    problem: Option<String>,
}

pub struct Round<'a> {
    pub scheduler: &'a Scheduler,
    pub ledger: MutexGuard<'a, Ledger>,
    /// Policies that may apply, by workspace and namespace.
    candidates: HashMap<(Arc<str>, Arc<str>), Candidates>,
    /// Objects to decide about again after a delay.
    pub wakes: Vec<(Key, Duration)>,
}

impl<'a> Round<'a> {
    /// Begins a round with everything that has changed since the last one.
    pub fn begin(scheduler: &'a Scheduler) -> Round<'a> {
        let mut ledger = scheduler.ledger();
        scheduler.update(&mut ledger);
        Round { scheduler, ledger, candidates: HashMap::new(), wakes: Vec::new() }
    }

    /// Decides about the object with this queue key, and reserves its shares.
    pub fn decide(&mut self, key: &Key) -> DecidedStep {
        let found = self.scheduler.kinds.target(key);
        let Some((object, cache, at)) = found.and_then(|(cache, at)| Some((cache.get(&at)?, cache, at)))
        else {
            self.scheduler.pending.remove(key);
            self.scheduler.rebalancing.remove(key);
            self.scheduler.reports.set_awaited(key, false);
            self.scheduler.progress.remove(key);
            self.scheduler.pauses.take(key);
            return DecidedStep::Settled;
        };
        let (resource, placement) = (cache.resource.clone(), Placement::of(&object));
        if self.ledger.is_ahead(key, &object) {
            return DecidedStep::Settled;
        }
        if taking_over::is_needed(&resource, &object, &placement) {
            let is_divided = self.is_divided(&resource, &at, &object);
            let intent = taking_over::intent(&object, &placement, is_divided);
            return DecidedStep::TakeOver(PlacementTarget { resource, at, object }, intent);
        }
        if taking_over::was_released(&resource, &object) {
            return DecidedStep::TakeOver(PlacementTarget { resource, at, object }, Intent::default());
        }
        if !workloads::is_placed_here(&resource, &object, &placement) {
            self.scheduler.pending.remove(key);
            self.scheduler.counts.remove(key);
            return DecidedStep::Settled;
        }
        if self.is_left_alone(&at, &object, &placement) {
            self.scheduler.pending.remove(key);
            self.scheduler.counts.remove(key);
            return DecidedStep::Settled;
        }
        let path = match self.scheduler.path(&at.workspace) {
            Ok(path) => path,
            Err(status) => return DecidedStep::Failed(status),
        };
        let target = PlacementTarget { resource, at, object };
        let namespace = self.scheduler.namespace(&target.at);
        let intent = Intent::of(&target.object, Some(&namespace));
        if !workloads::is_workload(&target.resource) {
            let eligibility = self.eligibility(key, &target, &namespace, intent.as_ref());
            if eligibility != Eligibility::Eligible {
                let with_owners = self.place_with_owners(key, &target, &placement);
                let step = with_owners.unwrap_or_else(|| self.clear_placement(key, target, &placement));
                if eligibility == Eligibility::NotServed {
                    // It is tried again when a cluster changes.
                    self.scheduler.pending.insert(key.clone(), "");
                }
                return step;
            }
        }
        let intent = intent.or_else(|| self.intent_of_labels(&target, &path));
        match self.of_dialect(key, &target, &path).filter(|_| intent.is_none()) {
            Some(step) => step,
            None => self.decide_object(key, target, &placement, &path, (&namespace, intent)),
        }
    }

    /// Whether an object was placed by labels of a dialect that is no longer enabled. Such an object stays.
    fn is_left_alone(&self, at: &Key, object: &Value, placement: &Placement) -> bool {
        placement.by == placed_by::LABEL
            && !placement.clusters.is_empty()
            && (self.scheduler.dialects)(&at.workspace, object).is_none()
    }

    /// The clusters that an object names by labels of a dialect, each with the label.
    fn named_by_labels(&self, target: &PlacementTarget) -> Vec<(String, String)> {
        (self.scheduler.dialects)(&target.at.workspace, &target.object).unwrap_or_default()
    }

    /// The intent of a workload that names clusters by labels of a dialect. Clusters that do not exist do not
    /// count.
    fn intent_of_labels(&self, target: &PlacementTarget, path: &str) -> Option<(Intent, IntentSource)> {
        if !workloads::is_workload(&target.resource) {
            return None;
        }
        let named = self.named_by_labels(target);
        let existing: BTreeSet<&str> = named
            .iter()
            .map(|(_, name)| name.as_str())
            .filter(|name| self.ledger.fleet.named(path, name).is_some())
            .collect();
        (!existing.is_empty()).then(|| (Intent::naming(existing), IntentSource::Label))
    }

    /// The step for an object that names clusters by labels of a dialect: the dialect places it. A workload
    /// waits for these clusters.
    fn of_dialect(&self, key: &Key, target: &PlacementTarget, path: &str) -> Option<DecidedStep> {
        let named = self.named_by_labels(target);
        let (source, name) = named.first()?;
        let exists = |name: &str| self.ledger.fleet.named(path, name).is_some();
        if named.iter().any(|(_, name)| exists(name)) {
            self.scheduler.pending.remove(key);
            return Some(DecidedStep::Settled);
        }
        let on = names_of(&Placement::of(&target.object).clusters);
        let stays = if on.is_empty() { String::new() } else { format!("; it stays on {on}") };
        let message = format!(
            "its {source} names the cluster {name:?}, which does not exist{stays}; see: atoll cluster list"
        );
        Some(not_placed(target, message))
    }

    /// Whether an object of another kind than a workload is placed by its annotation or a policy, or because clusters have
    /// brought its kind.
    fn eligibility(
        &mut self,
        key: &Key,
        target: &PlacementTarget,
        namespace: &Value,
        intent: Option<&(Intent, IntentSource)>,
    ) -> Eligibility {
        let is_own = |(_, source): &(Intent, IntentSource)| *source == IntentSource::Object;
        if intent.is_some_and(is_own) {
            return Eligibility::Eligible;
        }
        // Policies do not apply to objects that are placed with their owners.
        if self.owned_shares(target).is_some_and(|shares| !shares.is_empty()) {
            return Eligibility::NotAsked;
        }
        let candidates = self.candidates(&target.at);
        let of_policy = self.policy_target(key, target, namespace);
        let Some(policy) = select(candidates.iter(), &of_policy).winner else {
            return self.default_eligibility(key, target);
        };
        let names_kind = policy.specificity(&of_policy).is_some_and(|fit| fit.has_kind);
        if names_kind || self.is_served(target) { Eligibility::Eligible } else { Eligibility::NotServed }
    }

    /// Whether an object without an intent of its own is placed: it is if it is in a namespace and clusters have brought
    /// its kind. It stays where it is when no cluster serves its kind any more.
    fn default_eligibility(&self, key: &Key, target: &PlacementTarget) -> Eligibility {
        let (kinds, at) = (&self.scheduler.kinds, &target.at);
        let is_imported = workloads::target(key).is_some_and(|(kind, _)| kinds.is_imported(kind));
        // It goes along with the owner once that has clusters.
        let waits = || {
            let mut owners = object::owner_references(&target.object).take(MAX_OWNERS);
            !kinds.knows_owners(at, &target.object)
                || owners.any(|owner| kinds.is_placed_by_default(&at.workspace, &owner))
        };
        if !is_imported || !target.resource.namespaced || waits() {
            return Eligibility::NotAsked;
        }
        match Placement::of(&target.object).clusters.is_empty() && !self.is_served(target) {
            true => Eligibility::NotServed,
            false => Eligibility::Eligible,
        }
    }

    /// Whether a cluster of its workspace is known to serve the kind of an object.
    fn is_served(&self, target: &PlacementTarget) -> bool {
        let Ok(path) = self.scheduler.path(&target.at.workspace) else { return false };
        let name = resource_name(&target.resource.group, &target.resource.plural);
        let mut clusters = self.ledger.fleet.serving(&path);
        clusters.any(|cluster| cluster.apis.as_ref().is_some_and(|apis| apis.contains(&name)))
    }

    fn policy_target<'t>(
        &self,
        key: &Key,
        target: &'t PlacementTarget,
        namespace: &'t Value,
    ) -> PolicyTarget<'t> {
        let is_custom = workloads::target(key).is_some_and(|(kind, _)| self.scheduler.kinds.is_custom(kind));
        let of_policy = policy_target(&target.resource, &target.at, &target.object, namespace);
        PolicyTarget { is_custom, ..of_policy }
    }

    /// The step for an object that is no longer placed: it stays only on clusters where other objects need it.
    fn clear_placement(&mut self, key: &Key, target: PlacementTarget, placement: &Placement) -> DecidedStep {
        self.scheduler.pending.remove(key);
        self.scheduler.counts.remove(key);
        self.ledger.remove_object(key);
        if placement.clusters.is_empty() || !placed_by::is_scheduled(&placement.by) {
            return DecidedStep::Settled;
        }
        let mut shares = workloads::with_decided(placement, Vec::new());
        shares.iter_mut().for_each(|share| share.needed = None);
        let wanted = Wanted { shares, by: placed_by::REFERENCE.to_string(), ..Wanted::default() };
        DecidedStep::Place(target, wanted, None)
    }

    fn decide_object(
        &mut self,
        key: &Key,
        target: PlacementTarget,
        placement: &Placement,
        path: &str,
        (namespace, intent): (&Value, Option<(Intent, IntentSource)>),
    ) -> DecidedStep {
        let candidates = self.candidates(&target.at);
        let prepared = self.prepare(key, &target, placement, path, (namespace, intent.as_ref()), &candidates);
        let Prepared { selection, demand, rules, problem } = prepared;
        match selection.winner {
            Some(policy) => {
                let is_placed = intent.is_none() && placement.by == *rules.by;
                self.scheduler.counts.set(key, policy, is_placed);
            }
            None => self.scheduler.counts.remove(key),
        }
        if let (Some((intent, source)), Some(policy)) = (&intent, selection.winner)
            && let Some(message) = self.excess(path, &target, namespace, (intent, *source), policy)
        {
            return DecidedStep::Report(
                target,
                ConditionValue { status: "False", reason: BEYOND_POLICY, message },
            );
        }
        if let Some(message) = problem {
            return DecidedStep::Report(
                target,
                ConditionValue { status: "False", reason: UNSCHEDULABLE, message },
            );
        }
        if rules.division == Division::Nowhere {
            self.ledger.reserve(key, (&demand.object, &demand.needs), Vec::new(), false);
            return self.stays_above(target, placement, &rules, intent.as_ref());
        }
        if !self.ledger.fleet.is_served(path) {
            self.scheduler.pending.insert(key.clone(), "");
            // Other controllers may run workloads that were never placed.
            return match condition(&target.object, CONDITION) {
                Some(_) if placement.clusters.is_empty() => not_placed(&target, NO_CLUSTER.to_string()),
                _ => DecidedStep::Settled,
            };
        }
        let intent = intent.as_ref();
        self.advance(key, Decidable { target, placement, demand, rules, namespace, intent })
    }

    /// Determines the rules and the needs of an object.
    fn prepare<'p>(
        &self,
        key: &Key,
        target: &PlacementTarget,
        placement: &Placement,
        path: &str,
        (namespace, intent): (&Value, Option<&(Intent, IntentSource)>),
        candidates: &'p [Policy],
    ) -> Prepared<'p> {
        let at = &target.at;
        let of_policy = self.policy_target(key, target, namespace);
        let selection = select(candidates.iter(), &of_policy);
        let mut demand = self.demand(target, placement, path);
        demand.shares_cluster_with_namespace = self.ledger.shares_cluster_with_namespace(key);
        let mut rules = rules(intent, selection.winner, demand.runs_once);
        let mut problem = None;
        if let Some(policy) = selection.winner.filter(|_| intent.is_none()) {
            let (scheduler, ledger, object) = (self.scheduler, &self.ledger, (key, at));
            let resolve = |rules| other_workloads::resolve(scheduler, ledger, object, path, rules);
            match resolve(&policy.affinity).and_then(|with| Ok((with, resolve(&policy.anti_affinity)?))) {
                Ok(resolved) => (rules.with, rules.without) = resolved,
                Err(message) => problem = Some(message),
            }
        }
        demand.may_rebalance = self.may_rebalance(key, placement, &rules);
        if let Some(most) = selection.winner.and_then(|policy| policy.max_moving) {
            rules.moves.max_surge = Some(most.of(demand.replicas));
        }
        Prepared { selection, demand, rules, problem }
    }

    /// Decides without clusters whose Pod Security level does not allow the pods. Only chosen clusters are
    /// checked, because a check reads the whole pod template.
    pub fn decide_allowed(
        &self,
        (target, namespace): (&PlacementTarget, &Value),
        demand: &Demand,
        rules: &mut Rules,
        intent: Option<&(Intent, IntentSource)>,
    ) -> PlacementDecision {
        let intent = intent.map(|(intent, _)| intent);
        let mut violations: HashMap<Arc<str>, String> = HashMap::new();
        loop {
            let mut decision = decide_parts(&self.ledger.fleet, demand, rules, intent);
            let new = decision.shares.iter().filter(|share| demand.share(&share.uid).is_none());
            let mut new =
                new.filter_map(|share| Some((share, self.violation(target, namespace, &share.uid)?)));
            match new.next() {
                Some((share, violation)) if violations.len() < MAX_VIOLATIONS => {
                    rules.clusters.except_uids.insert(share.uid.clone());
                    violations.insert(share.uid.clone(), violation);
                }
                _ => {
                    for refusal in decision.refusals.iter_mut().chain(&mut decision.left_out) {
                        if let Some(violation) = violations.get(&refusal.uid) {
                            (refusal.code, refusal.text) = (POD_SECURITY, violation.clone());
                        }
                    }
                    return decision;
                }
            }
        }
    }

    /// The violations of the Pod Security level of a cluster by a pod template.
    fn violation(&self, target: &PlacementTarget, namespace: &Value, uid: &str) -> Option<String> {
        let key = self.ledger.cluster_key(uid)?;
        let cluster = self.scheduler.clusters.get(key)?;
        let resource = (&*target.resource.group, &*target.resource.plural);
        let is_registered_there = key.workspace == target.at.workspace;
        let label = |key: &str| object::label(namespace, key);
        pod_security::refusal(&cluster, is_registered_there, label, resource, &target.object)
    }

    fn candidates(&mut self, at: &Key) -> Candidates {
        let scheduler = self.scheduler;
        let of = (at.workspace.clone(), at.namespace.clone());
        if let Some(found) = self.candidates.get(&of) {
            return found.clone();
        }
        let found = Arc::new(scheduler.policies.candidates(&scheduler.api, &at.workspace, &at.namespace));
        let known: usize = self.candidates.values().map(|policies| policies.len()).sum();
        if known + found.len() > MAX_CANDIDATES {
            self.candidates.clear();
        }
        self.candidates.insert(of, found.clone());
        found
    }

    /// Whether a policy says how the replicas of an object are divided.
    fn is_divided(&mut self, resource: &Resource, at: &Key, object: &Value) -> bool {
        let (candidates, namespace) = (self.candidates(at), self.scheduler.namespace(at));
        let winner = select(candidates.iter(), &policy_target(resource, at, object, &namespace)).winner;
        winner.is_some_and(|policy| policy.replicas.division.is_some())
    }

    /// The part of an intent that goes beyond the policy without the right to do so. Policies change after
    /// intents were written, and the intent of a Namespace is not checked for each of its objects.
    fn excess(
        &self,
        path: &str,
        target: &PlacementTarget,
        namespace: &Value,
        (intent, source): (&Intent, IntentSource),
        policy: &Policy,
    ) -> Option<String> {
        let holder = match source {
            IntentSource::Object | IntentSource::Label => &target.object,
            IntentSource::Namespace => namespace,
        };
        // A cluster that does not serve the workspace is treated as nonexistent: its labels are not disclosed.
        let cluster = |name: &str| {
            let named = self.ledger.fleet.named(path, name)?;
            let uid = Some(named.uid.clone()).filter(|uid| self.ledger.fleet.serves(uid, path))?;
            self.scheduler.clusters.get(self.ledger.cluster_key(&uid)?)
        };
        beyond_policy::message(policy, (intent, source), holder, cluster)
    }

    fn demand(&self, target: &PlacementTarget, placement: &Placement, path: &str) -> Demand {
        let (resource, at) = (&target.resource, &target.at);
        let mut demand = self.scheduler.demand(resource, at, path, &target.object);
        demand.current = self.ledger.shares(&workloads::decided_shares(placement), path);
        demand.is_cluster_scoped = !resource.namespaced;
        demand.leaving = placement.leaving.iter().map(|one| one.uid.as_str().into()).collect();
        demand.namespace_on = self.ledger.namespace_on(&at.workspace, &at.namespace);
        demand.workspace_on = self.ledger.workspace_on(&at.workspace);
        demand
    }

    /// Whether shares may move although they break no rule: exact rules leave no choice, and after a change of
    /// a policy or intent its user expects an effect.
    fn may_rebalance(&self, key: &Key, placement: &Placement, rules: &Rules) -> bool {
        let is_exact =
            matches!(rules.division, Division::Weighted(_) | Division::Pinned(_) | Division::Duplicate);
        is_exact || placement.by != *rules.by || self.scheduler.takes_new_rules(key)
    }

    fn stays_above(
        &self,
        target: PlacementTarget,
        placement: &Placement,
        rules: &Rules,
        intent: Option<&(Intent, IntentSource)>,
    ) -> DecidedStep {
        if !placement.clusters.is_empty() {
            let wanted = Wanted { by: rules.by.to_string(), ..Wanted::default() };
            return DecidedStep::Place(target, wanted, None);
        }
        if !workloads::is_workload(&target.resource) {
            return DecidedStep::Settled;
        }
        not_placed(&target, why_above(rules, intent))
    }
}

/// Explains why an object stays in the control plane.
fn why_above(rules: &Rules, intent: Option<&(Intent, IntentSource)>) -> String {
    let why = match intent {
        Some((_, IntentSource::Object)) => "its annotation atoll.dev/clusters is none".to_string(),
        Some((_, IntentSource::Namespace)) => {
            "the annotation atoll.dev/clusters of its Namespace is none".to_string()
        }
        Some((_, IntentSource::Label)) => "its label names no cluster".to_string(),
        None => format!("{} places it nowhere", rules.by),
    };
    format!("the object stays in the control plane, so nothing runs: {why}")
}

/// An object as policies see it.
pub fn policy_target<'a>(
    resource: &'a Resource,
    at: &'a Key,
    object: &'a Value,
    namespace: &'a Value,
) -> PolicyTarget<'a> {
    PolicyTarget {
        group: &resource.group,
        kind: &resource.kind,
        namespace: &at.namespace,
        name: &at.name,
        labels: object::label_map(object),
        namespace_labels: object::label_map(namespace),
        is_workload: workloads::is_workload(resource),
        is_custom: false,
    }
}

fn not_placed(target: &PlacementTarget, message: String) -> DecidedStep {
    let target = PlacementTarget {
        resource: target.resource.clone(),
        at: target.at.clone(),
        object: target.object.clone(),
    };
    DecidedStep::Report(target, ConditionValue { status: "False", reason: NOT_PLACED, message })
}

/// Decides about pins of some clusters first, and divides the rest between the others.
fn decide_parts(fleet: &Fleet, demand: &Demand, rules: &Rules, intent: Option<&Intent>) -> PlacementDecision {
    let pins = intent.filter(|intent| !intent.is_pinned()).map(pins).unwrap_or_default();
    if pins.is_empty() || demand.work != Work::Replicas {
        return decide(fleet, demand, rules);
    }
    let is_pinned = |name: &str| pins.iter().any(|(pinned, _)| pinned == name);
    let mut rest = demand.clone();
    rest.replicas = (demand.replicas - pins.iter().map(|(_, count)| count).sum::<i64>()).max(0);
    rest.current.retain(|share| fleet.cluster(&share.uid).is_some_and(|cluster| !is_pinned(&cluster.name)));
    let mut rules_of_rest = rules.clone();
    rules_of_rest.clusters.names.retain(|name| !is_pinned(name));
    let mut decision = decide(fleet, &rest, &rules_of_rest);
    let clusters = ClusterFilter::named(pins.iter().map(|(name, _)| name.as_str()));
    let pinned = Rules { clusters, division: Division::Pinned(pins.clone()), ..rules.clone() };
    let exact = decide(fleet, demand, &pinned);
    decision.shares.extend(exact.shares);
    decision.unplaced += exact.unplaced;
    decision.kept += exact.kept;
    decision.reason = decision.reason.or(exact.reason);
    decision.refusals.extend(exact.refusals);
    decision
}

/// The placement that a decision leads to.
pub fn wanted(decision: &PlacementDecision, demand: &Demand, rules: &Rules) -> Wanted {
    let shares: Vec<Share> = decision.shares.iter().map(share).collect();
    let is_copied = rules.division == Division::Duplicate && demand.runs_once && shares.len() > 1;
    let left_out = decision.left_out.iter().take(MAX_LEFT_OUT);
    let left_out = left_out.map(|one| LeftOut { name: one.name.to_string(), reason: one.code.to_string() });
    Wanted {
        shares,
        by: decision.by.to_string(),
        duplicate: is_copied,
        left_out: left_out.collect(),
        ..Wanted::default()
    }
}

pub fn share(decided: &DecidedShare) -> Share {
    Share {
        name: decided.name.to_string(),
        uid: decided.uid.to_string(),
        replicas: decided.replicas,
        first_ordinal: decided.first_ordinal,
        completions: decided.completions,
        parallelism: decided.parallelism,
        ..Share::default()
    }
}

/// The number of pods of a share.
pub fn pods(share: &DecidedShare, demand: &Demand) -> i64 {
    demand.pods_of(&CurrentShare {
        uid: share.uid.clone(),
        replicas: share.replicas,
        first_ordinal: share.first_ordinal,
        completions: share.completions,
        parallelism: share.parallelism,
        ..CurrentShare::default()
    })
}

/// Explains why replicas have no cluster, with a reason for each cluster.
pub fn message(decision: &PlacementDecision) -> String {
    let mut parts: Vec<String> = decision.reason.iter().map(|reason| clean(reason, LONGEST_REASON)).collect();
    let reasons = decision.refusals.iter().take(MAX_REASONS);
    parts.extend(reasons.map(|refusal| format!("{} {}", refusal.name, clean(&refusal.text, LONGEST_REASON))));
    if let Some(more) = decision.refusals.len().checked_sub(MAX_REASONS).filter(|more| *more > 0) {
        parts.push(format!("{more} more clusters take nothing"));
    }
    let what = match decision.shares.is_empty() {
        true => "no cluster accepts the object".to_string(),
        false if decision.unplaced == 0 => "no other cluster takes them".to_string(),
        false => format!("{} of its replicas have no place", decision.unplaced),
    };
    match parts.is_empty() {
        true => what,
        false => format!("{what}: {}", parts.join("; ")),
    }
}

/// Tells which named clusters take nothing, each with its reason.
pub fn left_out_message(decision: &PlacementDecision) -> Option<String> {
    let reasons = decision.left_out.iter().take(MAX_REASONS);
    let parts: Vec<String> =
        reasons.map(|one| format!("{} {}", one.name, clean(&one.text, LONGEST_REASON))).collect();
    (!parts.is_empty()).then(|| format!("clusters that were asked for are left out: {}", parts.join("; ")))
}

/// The Namespace of an object, as policies see it. One that every workspace has from the start is not in the
/// cache until it is changed.
pub fn bootstrap_namespace(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { NAMESPACE_NAME: name } } })
}
