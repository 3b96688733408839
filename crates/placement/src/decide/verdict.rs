//! Verdicts: why each cluster takes nothing, or no more.

use super::{PlacementDecision, Refusal, Verdict};
use crate::filters::{Admission, Cause, Question, access};
use crate::fleet::ClusterEntry;
use crate::ledger::UNLIMITED;
use crate::scores;

/// Refusals of all clusters that take nothing, or no more.
pub fn refusals(question: Question<'_>, decision: &PlacementDecision) -> Vec<Refusal> {
    serving(question).into_iter().filter_map(|entry| refusal(question, decision, entry)).collect()
}

pub fn verdicts(question: Question<'_>, decision: &PlacementDecision) -> Vec<Verdict> {
    let verdict = |entry: &ClusterEntry| Verdict {
        name: entry.state.name.clone(),
        uid: entry.state.uid.clone(),
        share: decision.shares.iter().find(|share| share.uid == entry.state.uid).cloned(),
        refusal: refusal(question, decision, entry),
        fits: entry.account.report().map(|_| question.room(entry, UNLIMITED)),
        scores: scores::all(question, entry),
    };
    serving(question).into_iter().map(verdict).collect()
}

/// Clusters that a message to the workspace may name: those that are open to it, and those where the object is.
fn serving(question: Question<'_>) -> Vec<&ClusterEntry> {
    let found = question.fleet.by_room(&question.demand.workspace_path);
    let is_known = |entry: &&ClusterEntry| {
        access::workspaces(question, entry).is_none() || question.demand.share(&entry.state.uid).is_some()
    };
    let found = found.filter_map(|index| question.fleet.entry(index));
    let mut found: Vec<&ClusterEntry> = found.filter(is_known).collect();
    found.sort_by(|one, other| {
        let key = |entry: &ClusterEntry| {
            (entry.state.registered, entry.state.name.clone(), entry.state.uid.clone())
        };
        key(one).cmp(&key(other))
    });
    found
}

fn refusal(question: Question<'_>, decision: &PlacementDecision, entry: &ClusterEntry) -> Option<Refusal> {
    let cause = cause(question, decision, entry)?;
    Some(Refusal {
        name: entry.state.name.clone(),
        uid: entry.state.uid.clone(),
        code: cause.code(),
        text: cause.text(&entry.state.name),
    })
}

fn cause<'a>(
    question: Question<'a>,
    decision: &PlacementDecision,
    entry: &'a ClusterEntry,
) -> Option<Cause<'a>> {
    let (demand, rules) = (question.demand, question.rules);
    if decision.shares.is_empty() && decision.unplaced == 0 {
        return None;
    }
    let share = decision.shares.iter().find(|share| share.uid == entry.state.uid);
    let has_all = decision.unplaced == 0 && decision.kept == 0;
    match question.admission(entry) {
        Admission::Closed(cause) | Admission::Keeps(cause)
            if share.is_none() || !has_all || cause == Cause::Paused =>
        {
            return Some(cause);
        }
        Admission::Closed(_) | Admission::Keeps(_) => return None,
        Admission::Open if share.is_some() && has_all => return None,
        Admission::Open => {}
    }
    let taken = share.map_or(0, |share| share.replicas.unwrap_or(0));
    let need = if demand.may_be_partial() { taken + 1 } else { demand.pods() };
    if question.room(entry, need) < need {
        return Some(question.why_full(entry));
    }
    let skew = rules.spread.iter().find_map(|spread| Some((spread.by.label(), spread.max_skew?)));
    let chosen = i64::try_from(decision.shares.len()).unwrap_or(i64::MAX);
    match (skew, rules.max_clusters) {
        (_, Some(most)) if share.is_none() && chosen >= most => Some(Cause::EnoughClusters(most)),
        (Some((label, most)), _) if !has_all => Some(Cause::Skew { label, most }),
        _ if share.is_none() => Some(Cause::NotChosen),
        _ => None,
    }
}
