//! Explanations: the decision about an object again, with a reason and scores for each cluster.

use atoll_fleet::explanation::{ClusterExplanation, Explanation, PolicyExplanation, ScoreExplanation};
use atoll_fleet::placement::Share;
use atoll_fleet::{Placement, placed_by};
use atoll_informer::Key;
use atoll_meta::object;
use atoll_placement::decide::{PlacementDecision, Verdict, explain};
use atoll_placement::demand::Demand;
use atoll_placement::intent::{Intent, IntentSource};
use atoll_placement::policy::PolicySelection;
use atoll_placement::rules::{Division, Rules};
use serde_json::Value;

use super::{Eligibility, NO_CLUSTER, POD_SECURITY, Prepared, Round, left_out_message, why_above};
use crate::writer::PlacementTarget;
use crate::{moving, workloads};

/// The score of free resources. For inherited clusters it would reveal their size.
const ROOM: &str = "Room";
/// The refusal of a cluster that the rules exclude.
const EXCLUDED: &str = "Excluded";
/// The refusal of a paused cluster, which keeps what it has.
const PAUSED: &str = "Paused";
/// The code of a cluster whose turn in a rollout has not come.
const HELD: &str = "Held";

impl Round<'_> {
    /// Explains the placement of the object with this queue key, and changes nothing. `None` if the object is
    /// not in the cache.
    pub fn explain(&mut self, key: &Key) -> Option<Explanation> {
        let (cache, at) = self.scheduler.kinds.target(key)?;
        let object = cache.get(&at)?;
        let (resource, placement) = (cache.resource.clone(), Placement::of(&object));
        if !workloads::is_placed_here(&resource, &object, &placement)
            || self.is_left_alone(&at, &object, &placement)
        {
            return Some(as_placed(&placement, left_alone(&object, &placement)));
        }
        let Ok(path) = self.scheduler.path(&at.workspace) else { return Some(Explanation::default()) };
        let target = PlacementTarget { resource, at, object };
        let namespace = self.scheduler.namespace(&target.at);
        let intent = Intent::of(&target.object, Some(&namespace));
        let named = self.named_by_labels(&target);
        let intent = intent.or_else(|| self.intent_of_labels(&target, &path));
        if let Some((source, name)) = named.first().filter(|_| intent.is_none()) {
            return Some(as_placed(&placement, format!("its {source} names the cluster {name:?}")));
        }
        if !workloads::is_workload(&target.resource)
            && let Some(note) = self.not_eligible(key, &target, &namespace, intent.as_ref(), &placement)
        {
            return Some(as_placed(&placement, note));
        }
        let candidates = self.candidates(&target.at);
        let prepared =
            self.prepare(key, &target, &placement, &path, (&namespace, intent.as_ref()), &candidates);
        let Prepared { selection, mut demand, mut rules, problem } = prepared;
        let mut explanation = Explanation {
            by: rules.by.to_string(),
            replicas: demand.has_replicas().then_some(demand.replicas),
            policies: policies(&selection, intent.as_ref().map(|(_, source)| *source)),
            recomputed: true,
            ..Explanation::default()
        };
        if let (Some((intent, source)), Some(policy)) = (&intent, selection.winner)
            && let Some(message) = self.excess(&path, &target, &namespace, (intent, *source), policy)
        {
            let policies = explanation.policies;
            return Some(Explanation { policies, ..as_placed(&placement, message) });
        }
        if let Some(message) = problem {
            let policies = explanation.policies;
            return Some(Explanation { policies, ..as_placed(&placement, message) });
        }
        if rules.division == Division::Nowhere {
            explanation.note = why_above(&rules, intent.as_ref());
            return Some(explanation);
        }
        if self.ledger.fleet.serving(&path).next().is_none() {
            explanation.note = NO_CLUSTER.to_string();
            return Some(explanation);
        }
        let now = self.scheduler.writer.clock.seconds();
        let reports = self.read_reports(key, &target, &mut demand, now);
        self.autoscaled(&target, &placement, &mut demand, &reports);
        explanation.replicas = demand.has_replicas().then_some(demand.replicas);
        let bound_for = self.ledger.shares(&placement.target, &demand.workspace_path);
        let is_moving = moving::is_moving(&placement);
        let losses = self.losses(key, &mut demand, &rules, is_moving.then_some(&bound_for), now);
        let present = demand.clone();
        let demand = if is_moving { moving::as_if_on(&demand, bound_for) } else { demand };
        let decision = self.decide_allowed((&target, &namespace), &demand, &mut rules, intent.as_ref());
        explanation.unplaced = decision.unplaced;
        let held = losses.held.map(|(_, reason)| reason);
        let next = moving::next_shares(&self.ledger.fleet, &present, &decision, &rules);
        let stays = next.err().filter(|_| !decision.shares.is_empty()).map(|(_, reason)| reason);
        let is_kept = decision.kept > 0;
        let stays =
            stays.or_else(|| is_kept.then(|| "a part of it stays, because no other cluster takes it".into()));
        let note = held.or(stays).or(decision.reason.clone()).or_else(|| left_out_message(&decision));
        explanation.note = note.unwrap_or_default();
        let (_, verdicts) = explain(&self.ledger.fleet, &demand, &rules);
        let of =
            |verdict: &Verdict| self.of_cluster((&target, &namespace), &demand, &rules, &decision, verdict);
        explanation.clusters = verdicts.iter().map(of).collect();
        Some(explanation)
    }

    /// The reason why an object of another kind than a workload has no clusters of its own.
    fn not_eligible(
        &mut self,
        key: &Key,
        target: &PlacementTarget,
        namespace: &Value,
        intent: Option<&(Intent, IntentSource)>,
        placement: &Placement,
    ) -> Option<String> {
        let is_owned = self.owned_shares(target).is_some_and(|shares| !shares.is_empty());
        let note = match self.eligibility(key, target, namespace, intent) {
            Eligibility::Eligible => return None,
            Eligibility::NotServed => "no cluster serves its kind",
            Eligibility::NotAsked if is_owned => "it is placed with the object that owns it",
            Eligibility::NotAsked if placement.by == placed_by::REFERENCE => {
                "it is placed with the objects that need it"
            }
            Eligibility::NotAsked => "neither its annotation atoll.dev/clusters nor a policy places it",
        };
        Some(note.to_string())
    }

    fn of_cluster(
        &self,
        (target, namespace): (&PlacementTarget, &Value),
        demand: &Demand,
        rules: &Rules,
        decision: &PlacementDecision,
        verdict: &Verdict,
    ) -> ClusterExplanation {
        let share = decision.shares.iter().find(|share| share.uid == verdict.uid);
        let wanted = share.and_then(|share| share.replicas.or(share.completions));
        let current = demand.share(&verdict.uid);
        let has = current.map(|share| demand.replicas_of(share)).filter(|_| demand.has_replicas());
        let is_own =
            self.ledger.fleet.cluster(&verdict.uid).is_some_and(|own| own.workspace == demand.workspace_path);
        let mut found = ClusterExplanation {
            name: verdict.name.to_string(),
            uid: verdict.uid.to_string(),
            chosen: share.is_some(),
            replicas: wanted,
            current: has.filter(|_| has != wanted),
            fits: verdict.fits,
            ..ClusterExplanation::default()
        };
        let is_full = share.is_some() && decision.unplaced == 0 && decision.kept == 0;
        if let Some(refusal) = verdict.refusal.as_ref().filter(|refusal| !is_full || refusal.code == PAUSED) {
            (found.code, found.reason) = (refusal.code.to_string(), refusal.text.clone());
        }
        if found.code.is_empty()
            && Placement::of(&target.object).share_of(&found.name, &found.uid).is_some_and(|share| share.held)
        {
            (found.code, found.reason) =
                (HELD.to_string(), "keeps its Pod template until its turn".to_string());
        }
        // Clusters whose Pod Security level does not allow the pods were excluded one by one.
        if found.code == EXCLUDED
            && rules.clusters.except_uids.contains(&verdict.uid)
            && let Some(violation) = self.violation(target, namespace, &verdict.uid)
        {
            (found.code, found.reason) = (POD_SECURITY.to_string(), violation);
        }
        let scores = verdict.scores.iter().filter(|score| is_own || score.name != ROOM);
        found.scores = scores
            .map(|score| ScoreExplanation {
                name: score.name.to_string(),
                value: score.value,
                reason: score.text.clone(),
            })
            .collect();
        found
    }
}

/// The clusters of a placement that the scheduler did not make.
fn as_placed(placement: &Placement, note: String) -> Explanation {
    let cluster = |share: &Share| ClusterExplanation {
        name: share.name.clone(),
        uid: share.uid.clone(),
        chosen: true,
        replicas: share.replicas.or(share.completions),
        ..ClusterExplanation::default()
    };
    Explanation {
        by: placement.by.clone(),
        note,
        clusters: placement.clusters.iter().map(cluster).collect(),
        ..Explanation::default()
    }
}

/// The reason why the scheduler does not place an object.
fn left_alone(found: &Value, placement: &Placement) -> String {
    if object::is_being_deleted(found) {
        return "it is being deleted".to_string();
    }
    if let Some(owner) = object::controller_of(found) {
        return format!("it belongs to {} {}, which is placed instead", owner.kind, owner.name);
    }
    if workloads::has_finished(found) {
        return "it has finished".to_string();
    }
    match placement.clusters.is_empty() {
        true => "the scheduler does not place it: its pods are created in the control plane".to_string(),
        false => format!("the scheduler leaves it alone, because it was placed by {}", placement.by),
    }
}

/// The policies of the workspace that match. Those of workspaces above are named only where they apply.
fn policies(selection: &PolicySelection<'_>, intent: Option<IntentSource>) -> Vec<PolicyExplanation> {
    let Some(winner) = selection.winner else { return Vec::new() };
    let reason = match intent {
        None => "",
        Some(IntentSource::Label) => "its label decides",
        Some(_) => "the annotation atoll.dev/clusters decides",
    };
    let mut found = vec![PolicyExplanation {
        policy: winner.reference(),
        applies: intent.is_none(),
        reason: reason.into(),
    }];
    for loser in selection.losers.iter().filter(|loser| loser.policy.distance == 0) {
        let policy = loser.policy.reference();
        let why = loser.why(winner);
        let reason = why.strip_prefix(&format!("{policy}: ")).unwrap_or(&why).to_string();
        found.push(PolicyExplanation { policy, applies: false, reason });
    }
    found
}
