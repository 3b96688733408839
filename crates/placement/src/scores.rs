//! Scores: which of the clusters that take a share come first.

use crate::decide::Score;
use crate::filters::Question;
use crate::fleet::ClusterEntry;
use crate::node::{Effect, Taint};
use crate::rules::Rules;

/// Whether the rules prefer clusters for reasons other than room.
pub fn has_preferences(rules: &Rules) -> bool {
    rules.with.iter().chain(&rules.without).any(|rule| !rule.is_required)
}

/// Preferences of the rules less reasons to avoid a cluster.
pub fn preference(question: Question<'_>, entry: &ClusterEntry) -> i64 {
    preferred_workloads(question, entry) - avoided(question, entry)
}

/// Preferred workloads on the cluster less those that should be avoided.
fn preferred_workloads(question: Question<'_>, entry: &ClusterEntry) -> i64 {
    let count = |found: &[crate::rules::OtherWorkloads]| {
        let preferred =
            found.iter().filter(|one| !one.is_required && one.clusters.contains(&entry.state.uid));
        i64::try_from(preferred.count()).unwrap_or(i64::MAX)
    };
    count(&question.rules.with) - count(&question.rules.without)
}

/// Taints that ask to avoid the cluster, and are not tolerated.
fn avoided(question: Question<'_>, entry: &ClusterEntry) -> i64 {
    let is_tolerated = |taint: &Taint| {
        taint.is_tolerated(&question.rules.tolerations)
            || taint.is_tolerated(&question.demand.needs.node.tolerations)
    };
    let taints = entry.state.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
    i64::try_from(taints.filter(|taint| !is_tolerated(taint)).count()).unwrap_or(i64::MAX)
}

/// All scores of a cluster, the most important first.
pub fn all(question: Question<'_>, entry: &ClusterEntry) -> Vec<Score> {
    let (demand, rules, uid) = (question.demand, question.rules, &entry.state.uid);
    let mut scores = Vec::new();
    let mut add = |name, value, text| scores.push(Score { name, value, text });
    if let Some(share) = demand.share(uid) {
        let replicas = demand.replicas_of(share);
        add("Present", replicas, "has a share now, and the fewest replicas move".to_string());
    }
    if let Some(at) = rules.terms.iter().position(|term| term.selects(&entry.state)) {
        let rank = i64::try_from(rules.terms.len() - at).unwrap_or(i64::MAX);
        add("Term", rank, format!("is in term {} of {}", at + 1, rules.terms.len()));
    }
    if demand.namespace_on.contains(uid) {
        add("Namespace", 1, "has objects of the namespace".to_string());
    }
    if demand.workspace_on.contains(uid) {
        add("Workspace", 1, "has objects of the workspace".to_string());
    }
    if has_preferences(rules) {
        add(
            "Workloads",
            preferred_workloads(question, entry),
            "has workloads that are preferred or avoided".to_string(),
        );
    }
    if question.fleet.has_avoided() {
        add("Taints", -avoided(question, entry), "has taints that ask to avoid it".to_string());
    }
    if let Some(free) = entry.account.free() {
        let cores = format!("{}.{:03}", free.milli_cpu / 1000, free.milli_cpu % 1000);
        let text = format!("has {cores} cores, {} MiB and {} pods free", free.memory >> 20, free.pods);
        add("Room", entry.account.room(), text);
    }
    scores
}
