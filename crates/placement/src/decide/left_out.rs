//! Clusters that a user has named and that get nothing, although all of them were to get something.

use super::{PlacementDecision, Refusal};
use crate::filters::{Admission, Cause, Question, access};
use crate::rules::Division;

/// The code of a name that no cluster has.
const NOT_FOUND: &str = "NotFound";

/// Returns a reason for each named cluster without a share. One that could take it, and that the division does not
/// need, is not left out.
pub fn of(question: Question<'_>, decision: &PlacementDecision) -> Vec<Refusal> {
    let (demand, rules) = (question.demand, question.rules);
    let needs_all = !matches!(rules.division, Division::Single | Division::Nowhere | Division::Pinned(_));
    if !needs_all || decision.shares.is_empty() || demand.is_paused {
        return Vec::new();
    }
    let mut found = Vec::new();
    for name in &rules.clusters.names {
        let known = question.fleet.index_named(&demand.workspace_path, name);
        let entry = known.and_then(|index| question.fleet.entry(index));
        // Clusters that do not serve the workspace are treated as nonexistent.
        let Some(entry) = entry.filter(|entry| access::workspaces(question, entry).is_none()) else {
            found.push(Refusal {
                name: name.as_str().into(),
                uid: Default::default(),
                code: NOT_FOUND,
                text: "is not a cluster of this workspace; see: atoll cluster list".to_string(),
            });
            continue;
        };
        if decision.shares.iter().any(|share| share.uid == entry.state.uid) {
            continue;
        }
        let least = match rules.division {
            Division::Duplicate => demand.pods(),
            _ => rules.min_replicas.unwrap_or(1).max(1).min(demand.pods()),
        };
        let cause = match question.admission(entry) {
            Admission::Closed(Cause::NoWeight { .. }) => continue,
            Admission::Closed(cause) | Admission::Keeps(cause) => cause,
            Admission::Open if question.room(entry, least) < least => question.why_full(entry),
            Admission::Open => continue,
        };
        found.push(Refusal {
            name: entry.state.name.clone(),
            uid: entry.state.uid.clone(),
            code: cause.code(),
            text: cause.text(&entry.state.name),
        });
    }
    found
}
