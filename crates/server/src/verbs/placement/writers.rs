//! The writers of placements that a scheduler makes: the controllers of the control plane, in the server or outside of
//! it. Other clients write an intent instead.
//!
//! Three kinds of writes by others are allowed, because the scheduler cannot make them:
//!
//! - a dry run, which checks an intent before it is written;
//! - one that follows the intent of the object, onto clusters that the scheduler does not choose by itself;
//! - a release: the clusters that stay are not changed, and the object is given back afterwards.
//!
//! None of them puts more of a workload on a cluster of a workspace above, unless the client may change that Cluster: it
//! is shared with others, and only the scheduler knows how much room there is.

use atoll_authn::{MASTERS, User};
use atoll_authz::{Attributes, Target};
use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::Share;
use atoll_fleet::scheduled::{CONTROLLERS_AGENT, has_intent, is_left_to_scheduler, is_placed_alone};
use atoll_fleet::{Placement, autoscaling, placed_by};
use atoll_meta::{Status, object};
use atoll_placement::intent::{ANNOTATION, Amount, Intent, Part};
use atoll_registry::Row;
use atoll_registry::catalog::ATOLL;
use http::header::USER_AGENT;
use serde_json::Value;

use crate::Server;
use crate::chain::Call;
use crate::local::is_controller;

const CLUSTERS: &str = "clusters";

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
    let is_left = is_placed_by_scheduler(server, row, call, existing);
    let is_made_by_scheduler = is_left && !object::is_being_deleted(existing) && server.has_scheduler();
    if autoscaling::is_autoscaler(resource) {
        check_autoscaler(server, row, call, current, wanted)?;
    }
    if is_controller_anywhere(server, call) {
        return Ok(());
    }
    if !is_made_by_scheduler || is_allowed(existing, current, wanted) {
        return check_shared_clusters(server, row, call, current, wanted);
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

/// Whether an object is left to a scheduler: a workload, an object of a kind that clusters have brought, or one of another
/// kind that asks for it.
fn is_placed_by_scheduler(server: &Server, row: &Row, call: &Call, existing: &Value) -> bool {
    let resource = (row.group.as_str(), row.resource.as_str());
    is_left_to_scheduler(resource, existing)
        || (!is_workload(resource)
            && is_placed_alone(existing)
            && (has_intent(existing) || is_placed_by_default(server, row, call)))
}

/// Whether the scheduler places objects of a resource without any intent: workloads, and what clusters have brought.
pub fn is_placed_by_default(server: &Server, row: &Row, call: &Call) -> bool {
    let is_imported = |workspace| server.registry.is_imported(row, workspace);
    is_workload((&row.group, &row.resource)) || (row.namespaced && call.workspace.id().is_ok_and(is_imported))
}

/// Checks that the client may put more of a workload on the clusters of workspaces above.
fn check_shared_clusters(
    server: &Server,
    row: &Row,
    call: &Call,
    current: &Placement,
    wanted: &WantedPlacement<'_>,
) -> Result<(), Status> {
    let is_checked = is_workload((&row.group, &row.resource)) && !wanted.dry_run && server.has_scheduler();
    if !is_checked {
        return Ok(());
    }
    for share in wanted.shares.iter().filter(|share| is_more(share, current)) {
        let name = share.name.as_str();
        if levels_above(server, call, share)?.is_some_and(|levels| !may_update(server, call, share, levels)) {
            let message = format!(
                "cluster {name:?} belongs to a workspace above, where workloads are placed by the scheduler and by users with \
                 the verb update on {CLUSTERS}.{ATOLL} {name:?}"
            );
            return Err(Status::forbidden(&row.group, &row.resource, &call.info.name, message));
        }
    }
    Ok(())
}

/// Checks that an autoscaler goes to no further cluster of a workspace above, where it would scale workloads beyond their
/// room. Controllers, which follow what users ask for, do not put it there either.
fn check_autoscaler(
    server: &Server,
    row: &Row,
    call: &Call,
    current: &Placement,
    wanted: &WantedPlacement<'_>,
) -> Result<(), Status> {
    if !server.has_scheduler() {
        return Ok(());
    }
    for share in wanted.shares.iter().filter(|share| current.share_of(&share.name, &share.uid).is_none()) {
        let Some(levels) = levels_above(server, call, share)? else { continue };
        if is_controller_anywhere(server, call) || !may_update(server, call, share, levels) {
            let message = format!("cluster {:?} {}", share.name, autoscaling::WHY_ABOVE);
            return Err(Status::forbidden(&row.group, &row.resource, &call.info.name, message));
        }
    }
    Ok(())
}

/// By how many levels the cluster of a share is registered above the workspace of the object; `None` if not at all.
fn levels_above(server: &Server, call: &Call, share: &Share) -> Result<Option<usize>, Status> {
    let workspace = call.workspace.id()?;
    let registered = server.registry.cluster(workspace, &share.name, &share.uid);
    let above = server.registry.ancestry(workspace);
    let levels = registered.and_then(|found| above.iter().position(|id| *id == found.workspace));
    Ok(levels.filter(|levels| *levels > 0))
}

/// Whether the client may change the Cluster of a share.
fn may_update(server: &Server, call: &Call, share: &Share, levels: usize) -> bool {
    let (subresource, namespace, name) = ("", "", share.name.as_str());
    let target = Target::Resource { group: ATOLL, resource: CLUSTERS, subresource, namespace, name };
    server.is_allowed_above(&call.workspace, levels, &Attributes { user: &call.user, verb: "update", target })
}

/// Whether a share is new, or larger than it was.
fn is_more(share: &Share, current: &Placement) -> bool {
    let Some(known) = current.share_of(&share.name, &share.uid) else { return true };
    let is_less =
        |new: Option<i64>, old: Option<i64>| new == old || new.zip(old).is_some_and(|(n, o)| n <= o);
    !is_less(share.replicas, known.replicas)
        || !is_less(share.completions, known.completions)
        || !is_less(share.parallelism, known.parallelism)
}

/// Whether a client is a scheduler: the server's own, or one that runs elsewhere if the server has none. Without any, all
/// clients with the rights of an administrator are.
pub fn is_scheduler(server: &Server, call: &Call) -> bool {
    let may_do_everything = || !server.runs_scheduler && is_master(&call.user);
    is_controller_anywhere(server, call) || (may_do_everything() && !server.has_scheduler())
}

/// Whether a client is a controller of this control plane. Outside of the server, it is known by its user agent: it has the
/// credential of an administrator, who could write anything, and who is to be kept from mistakes only.
fn is_controller_anywhere(server: &Server, call: &Call) -> bool {
    let is_outside = || {
        let agent = call.headers.get(USER_AGENT);
        !server.runs_scheduler
            && is_master(&call.user)
            && agent.is_some_and(|agent| agent == CONTROLLERS_AGENT)
    };
    is_controller(&call.user) || is_outside()
}

fn is_master(user: &User) -> bool {
    user.is_in(MASTERS) && user.home.is_none()
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
    fn shares_that_grow_are_more() {
        let share = |replicas| Share { replicas, ..Share::on("east", "1") };
        let current = |replicas| Placement { clusters: vec![share(replicas)], ..Placement::default() };
        for (before, after, expected) in [
            (Some(2), Some(2), false),
            (Some(2), Some(1), false),
            (Some(2), Some(3), true),
            (Some(2), None, true),
            (None, None, false),
            (None, Some(3), true),
        ] {
            assert_eq!(is_more(&share(after), &current(before)), expected, "{before:?} {after:?}");
        }
        assert!(is_more(&Share::on("west", "2"), &current(None)));
        assert!(is_more(&Share::on("east", "2"), &current(None)), "another cluster of that name");
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
