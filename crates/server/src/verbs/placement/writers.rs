//! The writers of placements that a scheduler makes: the controllers of the control plane. Other clients write
//! an intent instead.
//!
//! Three kinds of writes by others are allowed, because the scheduler cannot make them:
//!
//! - a dry run, which checks an intent before it is written;
//! - one that follows the intent of the object, onto clusters that the scheduler does not choose by itself;
//! - a release: the clusters that stay are not changed, and the object is given back afterwards.

use atoll_authn::{MASTERS, User};
use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::Share;
use atoll_fleet::scheduled::{has_intent, is_left_to_scheduler, is_placed_alone};
use atoll_fleet::{Placement, placed_by};
use atoll_meta::{Status, object};
use atoll_placement::intent::{ANNOTATION, Amount, Intent, Part};
use atoll_registry::Row;
use serde_json::Value;

use crate::Server;
use crate::chain::Call;
use crate::local::is_controller;

/// The placement that a client wants to write.
pub struct WantedPlacement<'a> {
    pub by: &'a str,
    pub shares: &'a [Share],
    pub dry_run: bool,
}

/// Checks that the client may write this placement of an object.
pub fn check(
    server: &Server,
    row: &Row,
    call: &Call,
    (existing, current): (&Value, &Placement),
    wanted: &WantedPlacement<'_>,
) -> Result<(), Status> {
    let resource = (row.group.as_str(), row.resource.as_str());
    // Objects of other kinds are left to the scheduler when they ask for it.
    let is_left = is_left_to_scheduler(resource, existing)
        || (!is_workload(resource) && has_intent(existing) && is_placed_alone(existing));
    let is_made_by_scheduler = server.runs_scheduler && is_left && !object::is_being_deleted(existing);
    if !is_made_by_scheduler || is_controller(&call.user) || is_allowed(existing, current, wanted) {
        return Ok(());
    }
    let (namespace, name) = (object::namespace(existing), object::name(existing));
    let flag = if namespace == "default" { String::new() } else { format!(" --namespace {namespace}") };
    let message = format!(
        "the scheduler makes this placement; set the annotation instead: kubectl annotate {} {name}{flag} {ANNOTATION}={} --overwrite",
        row.singular,
        intent(wanted.shares)
    );
    Err(Status::forbidden(&row.group, &row.resource, name, message))
}

/// Whether a client is a scheduler: the server's own, or one that runs elsewhere if the server has none.
pub fn is_scheduler(server: &Server, user: &User) -> bool {
    let runs_elsewhere = || !server.runs_scheduler && user.is_in(MASTERS) && user.home.is_none();
    is_controller(user) || runs_elsewhere()
}

fn is_allowed(existing: &Value, current: &Placement, wanted: &WantedPlacement<'_>) -> bool {
    let are_all = |names: &[&str]| {
        let is_named = |share: &Share| names.contains(&share.name.as_str());
        names.len() == wanted.shares.len() && wanted.shares.iter().all(is_named)
    };
    let present: Vec<&str> = current.clusters.iter().map(|share| share.name.as_str()).collect();
    match wanted.by {
        placed_by::RELEASE => wanted.shares.iter().all(|share| {
            let known = current.share_of(&share.name, &share.uid);
            known.is_some_and(|known| known.numbers() == share.numbers())
        }),
        placed_by::ANNOTATION if wanted.dry_run => true,
        placed_by::ANNOTATION => match Intent::on(existing) {
            Some(Ok(intent)) => are_all(&intent.clusters().collect::<Vec<_>>()) || are_all(&present),
            _ => false,
        },
        "" | placed_by::HAND => false,
        _ => current.by == placed_by::RELEASE && are_all(&present),
    }
}

/// Returns the intent that asks for shares.
fn intent(shares: &[Share]) -> Intent {
    let is_divided = shares.iter().all(|share| share.replicas.is_some());
    let part = |share: &Share| Part {
        cluster: share.name.clone(),
        amount: match share.replicas {
            Some(number) if is_divided => Amount::Weight(number),
            // Only exact numbers can be combined with names.
            Some(number) => Amount::Pin(number),
            None => Amount::Unset,
        },
    };
    Intent { parts: shares.iter().map(part).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on(names: &[&str]) -> Vec<Share> {
        names.iter().map(|name| Share::on(name, "")).collect()
    }

    #[test]
    fn others_follow_intents_and_release() {
        let object = |intent: &str| json!({ "metadata": { "annotations": { ANNOTATION: intent } } });
        let placed =
            |by: &str| Placement { clusters: on(&["east", "west"]), by: by.into(), ..Placement::default() };
        for (intent, before, by, clusters, dry_run, expected) in [
            ("east", "annotation", "annotation", &["east"][..], false, true),
            ("east", "hand", "annotation", &["east", "west"], false, true),
            ("east", "annotation", "annotation", &["north"], false, false),
            ("east", "annotation", "annotation", &["north"], true, true),
            ("east", "annotation", "annotation", &[], false, false),
            ("east,west", "annotation", "annotation", &["east"], false, false),
            ("east", "annotation", "hand", &["east"], false, false),
            ("east", "annotation", "hand", &["east"], true, false),
            ("east", "annotation", "release", &["east", "west"], false, true),
            ("east", "release", "release", &["west"], false, true),
            ("east", "release", "release", &[], false, true),
            ("east", "release", "release", &["north"], false, false),
            ("east", "release", "default", &["east", "west"], false, true),
            ("east", "release", "default", &["east"], false, false),
            ("east", "release", "hand", &["east", "west"], false, false),
            ("east", "hand", "default", &["east", "west"], false, false),
        ] {
            let wanted = WantedPlacement { by, shares: &on(clusters), dry_run };
            let found = is_allowed(&object(intent), &placed(before), &wanted);
            assert_eq!(found, expected, "{intent} {before} {by} {clusters:?} {dry_run}");
        }
    }

    #[test]
    fn intents_of_shares_can_be_written() {
        let share = |name: &str, replicas| Share { name: name.into(), replicas, ..Share::default() };
        for (shares, expected) in [
            (vec![share("east", Some(2)), share("west", Some(1))], "east=2,west=1"),
            (vec![share("east", Some(2)), share("west", None)], "east==2,west"),
            (vec![share("east", None)], "east"),
            (vec![], "none"),
        ] {
            let text = intent(&shares).to_string();
            assert_eq!(text, expected);
            assert!(Intent::parse(&text).is_ok());
        }
    }
}
