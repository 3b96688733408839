//! `atoll cluster remove`: removes the cluster from all placements, then deletes the Cluster and everything
//! that belongs to it.

pub mod release;

use std::path::PathBuf;
use std::time::Duration;

use atoll_fleet::ClusterView;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::control_plane_connection::{self, ControlPlaneConnection};
use super::join;
use super::placed_objects::{self, PlacedObjects, RemovalResult, WorkspacePaths};
use super::{Api, confirmation, connection};
use crate::advice::{Failure, invocation, pluralize};
use crate::command::ClusterName;
use crate::output::{errln, outln};
use crate::place::intent;
use atoll_joining::cleanup::{self, Leftover};
use atoll_joining::credential::{self, CLUSTER};

/// How to treat the objects that are placed on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalMode {
    DeleteWorkloads,
    Keep,
    Lost,
}

const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Time without progress after which a possible cause is printed.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Rounds to wait for the removal of dependents before they are removed directly.
const ROUNDS_FOR_DEPENDENTS: usize = 10;

/// A kubeconfig of the cluster's administrator, and a context in it.
pub type Administrator = Option<(PathBuf, Option<String>)>;

/// Credentials for the cluster: the one stored by the join, or a kubeconfig of its administrator.
#[derive(Clone, Copy)]
struct ClusterAccess<'a> {
    secret: Option<&'a Value>,
    admin: &'a Administrator,
    /// The cluster and its registering workspace, if an agent connects it.
    agent: Option<(&'a str, &'a ControlPlaneConnection)>,
}

/// Connects to the cluster without checking its identity.
fn connect(access: ClusterAccess<'_>) -> Result<Api, Failure> {
    match (access.admin, access.agent) {
        (Some((file, context)), _) => Ok(join::administrator::open(file, context.as_deref())?.api),
        (None, Some((name, registering_workspace))) => connection::through_agent(name, registering_workspace),
        (None, None) => cleanup::connect(access.secret),
    }
}

pub async fn run(
    cluster: &ClusterName,
    mode: RemovalMode,
    admin: Administrator,
    yes: bool,
) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&cluster.connection)?;
    let name = cluster.name.as_str();
    let secret = fleet.api.find(&credential::secret_path(name)).await?;
    let secret = secret.filter(|secret| secret["metadata"]["labels"][CLUSTER] == name);
    let found = match fleet.find(name).await? {
        Some(found) => found,
        // An earlier attempt was interrupted.
        None if secret.is_some() => {
            outln!("Cluster {name} is no longer registered; removing its remaining objects.");
            let access = ClusterAccess { secret: secret.as_ref(), admin: &admin, agent: None };
            return delete_leftovers(&fleet, name, &Value::Null, access, mode).await;
        }
        None => fleet.get(name).await?,
    };
    let agent = (ClusterView::of(&found).mode() == "pull").then_some((name, &fleet));
    let access = ClusterAccess { secret: secret.as_ref(), admin: &admin, agent };
    let placed = placed_objects::read(&fleet, name).await?;
    confirmation::confirm(&announcement(&found, &placed, mode), &format!("Remove {name}?"), yes)?;
    // Cordon the cluster, so that no new objects are placed on it meanwhile.
    fleet.change(name, &json!({ "spec": { "unschedulable": true } })).await?;
    let paths = WorkspacePaths::read(&fleet.session, fleet.workspace_id().await?).await?;
    // Atoll never wrote to an observed cluster, so it reports no removals.
    let is_observed = ClusterView::of(&found).is_observed();
    match mode {
        RemovalMode::DeleteWorkloads if is_observed => forget_workloads(&fleet, name, &paths).await?,
        RemovalMode::DeleteWorkloads => delete_workloads(&fleet, name, &paths).await?,
        RemovalMode::Lost => forget_workloads(&fleet, name, &paths).await?,
        RemovalMode::Keep => {
            let below = connect(access)?;
            cleanup::check_identity(&found, &below).await?;
            let control_plane = release::stop_syncer(&fleet, name, &below).await?;
            // They keep running there, so they must not be placed elsewhere.
            let anywhere = Api::above(&fleet.session.config.context()?, "")?;
            for target in &placed.assigned {
                let resource = (target.resource.group.as_str(), target.resource.resource.as_str());
                if let Some(path) = paths.object(target) {
                    match intent::take_from_scheduler(&anywhere, resource, &path, &[name.to_string()]).await {
                        Err(problem) if !problem.is("NotFound") => return Err(problem.into()),
                        _ => {}
                    }
                }
            }
            forget_workloads(&fleet, name, &paths).await?;
            let count = release::remove_marks(&below, &control_plane).await?;
            outln!(
                "Released {} in the cluster.",
                pluralize(u64::try_from(count).unwrap_or(u64::MAX), "object")
            );
        }
    }
    // The tunnel of the agent ends with the Cluster.
    if agent.is_some() && mode != RemovalMode::Lost {
        clean(&found, access).await?;
    }
    fleet.api.delete(&control_plane_connection::path(name)).await?;
    delete_leftovers(&fleet, name, &found, access, mode).await
}

/// Describes what the command will do.
fn announcement(cluster: &Value, placed: &PlacedObjects, mode: RemovalMode) -> String {
    let name = atoll_meta::object::name(cluster);
    let is_observed = ClusterView::of(cluster).is_observed();
    let what = match placed.is_empty() {
        true => format!("Nothing is placed on {name}."),
        false => format!("Placed on {name}: {}.", placed.counts()),
    };
    let then = match (mode, placed.is_empty()) {
        (RemovalMode::DeleteWorkloads, false) if is_observed => {
            "The cluster is only observed, so nothing is deleted there; it leaves the fleet."
        }
        (RemovalMode::DeleteWorkloads, true) => {
            "The cluster leaves the fleet, and the objects that Atoll created there are deleted."
        }
        (RemovalMode::DeleteWorkloads, false) => {
            "All of that is deleted there, then the cluster leaves the fleet. What is placed on other clusters stays there."
        }
        (RemovalMode::Keep, _) => {
            "All of that keeps running there and is no longer managed by Atoll; the cluster leaves the fleet."
        }
        (RemovalMode::Lost, _) => {
            "The cluster is treated as lost: nothing is deleted there, the command does not wait for it, and objects that still run there are no \
             longer tracked."
        }
    };
    let definitions = placed.definitions();
    if mode != RemovalMode::DeleteWorkloads || definitions.is_empty() {
        return format!("{what}\n{then}");
    }
    let commands: Vec<String> = definitions
        .iter()
        .map(|name| format!("  {}", atoll_fleet::definitions::delete_command(name)))
        .collect();
    format!(
        "{what}\n{then}\nCustomResourceDefinitions stay there and are no longer managed by Atoll, because other users may have objects of their \
         types. To delete them with all of those objects, run with a kubeconfig of {name}:\n{}",
        commands.join("\n")
    )
}

/// Removes the cluster from all placements and waits until its syncer has deleted the objects.
async fn delete_workloads(
    fleet: &ControlPlaneConnection,
    name: &str,
    paths: &WorkspacePaths,
) -> Result<(), Failure> {
    let (mut last, mut rounds, mut since, mut warned) = (usize::MAX, 0, Instant::now(), false);
    loop {
        let placed = placed_objects::read(fleet, name).await?;
        if placed.is_empty() {
            return Ok(());
        }
        let only_dependents =
            remove_placements(fleet, name, paths, &placed, rounds >= ROUNDS_FOR_DEPENDENTS).await?;
        rounds = if only_dependents { rounds + 1 } else { 0 };
        if placed.len() != last {
            errln!("waiting until {name} has removed {}", placed.counts());
            (last, since, warned) = (placed.len(), Instant::now(), false);
        } else if since.elapsed() > STALL_TIMEOUT && !warned {
            warned = true;
            errln!("{}", stall_reason(name, &fleet.get(name).await?));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Removes the cluster from the placements. Returns whether only dependents are left.
async fn remove_placements(
    fleet: &ControlPlaneConnection,
    name: &str,
    paths: &WorkspacePaths,
    placed: &PlacedObjects,
    all: bool,
) -> Result<bool, Failure> {
    let mut only_dependents = !placed.assigned.is_empty();
    for target in &placed.assigned {
        let taken = placed_objects::remove_placement(&fleet.session, paths, target, name, all).await?;
        only_dependents &= taken == RemovalResult::Dependent;
    }
    Ok(only_dependents)
}

/// Explains why the removal makes no progress.
fn stall_reason(name: &str, cluster: &Value) -> String {
    let mut conditions = atoll_meta::views::conditions(cluster);
    let wrong = conditions.find(|one| matches!(one.kind(), "Ready" | "Reachable") && !one.is_true());
    let why = match wrong {
        Some(one) => {
            format!("{name} is not {}: {} {}", one.kind().to_lowercase(), one.reason(), one.message())
        }
        None => format!("{name} does not remove its objects; does a finalizer block a deletion there?"),
    };
    format!(
        "{}\nIf it is lost permanently, interrupt this command and run: {} cluster remove {name} --lost",
        why.trim_end(),
        invocation()
    )
}

/// Removes the cluster from all placements and reports all objects as gone.
async fn forget_workloads(
    fleet: &ControlPlaneConnection,
    name: &str,
    paths: &WorkspacePaths,
) -> Result<(), Failure> {
    const ROUNDS: usize = 100;
    for _ in 0..ROUNDS {
        let placed = placed_objects::read(fleet, name).await?;
        if placed.is_empty() {
            return Ok(());
        }
        remove_placements(fleet, name, paths, &placed, true).await?;
        let leaving = placed_objects::read(fleet, name).await?.leaving;
        placed_objects::report_gone(fleet, name, &leaving).await?;
    }
    Err(Failure::new(
        format!("objects keep being placed on {name}"),
        "does a label or a policy place them there? Change that first",
    ))
}

/// Removes what remains once nothing is placed there and the Cluster is deleted.
async fn delete_leftovers(
    fleet: &ControlPlaneConnection,
    name: &str,
    cluster: &Value,
    access: ClusterAccess<'_>,
    mode: RemovalMode,
) -> Result<(), Failure> {
    if mode != RemovalMode::Lost && access.agent.is_none() {
        clean(cluster, access).await?;
    }
    let api = &fleet.api;
    let role = join::agent::role_name(name);
    let [own_role, own_binding] = join::agent::renewal_paths(name);
    for path in [
        own_binding,
        own_role,
        format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{role}"),
        format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"),
        join::agent::account_path(name),
        control_plane_connection::heartbeat_path(name),
    ] {
        api.delete(&path).await?;
    }
    if access.secret.is_some() {
        api.delete(&credential::secret_path(name)).await?;
    }
    outln!("Cluster {name} has left the fleet.");
    Ok(())
}

/// Deletes what joining created in the cluster.
async fn clean(cluster: &Value, access: ClusterAccess<'_>) -> Result<(), Failure> {
    let cleaned = match connect(access) {
        Ok(api) => cleanup::clean(cluster, &api).await,
        Err(failure) => Err(failure),
    };
    match cleaned {
        Ok(Leftover::Nothing) => Ok(()),
        Ok(Leftover::Some(text)) => {
            errln!("{text}");
            Ok(())
        }
        // Keep the credential, because the next attempt needs it.
        Err(failure) => Err(Failure::new(
            format!("objects that Atoll created in the cluster are still there: {failure}"),
            format!(
                "run the same command again; if the cluster is lost permanently, add --lost; or delete it yourself, then \
                 add --lost: {}",
                cleanup::manual_cleanup()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_fleet::view::{ObjectTarget, SyncResource};

    #[test]
    fn announcements_describe_the_mode() {
        let resource =
            SyncResource { group: "apps".into(), resource: "deployments".into(), ..SyncResource::default() };
        let target = ObjectTarget { resource, ..ObjectTarget::default() };
        let placed = PlacedObjects { assigned: vec![target.clone(), target], leaving: Vec::new() };
        for (placed, mode, what, then) in [
            (
                &placed,
                RemovalMode::DeleteWorkloads,
                "Placed on east: 2 deployments.apps.",
                "All of that is deleted there",
            ),
            (&placed, RemovalMode::Keep, "Placed on east: 2 deployments.apps.", "keeps running there"),
            (&placed, RemovalMode::Lost, "Placed on east: 2 deployments.apps.", "treated as lost"),
            (
                &PlacedObjects::default(),
                RemovalMode::DeleteWorkloads,
                "Nothing is placed on east.",
                "leaves the fleet",
            ),
        ] {
            let text = announcement(&json!({ "metadata": { "name": "east" } }), placed, mode);
            assert!(text.starts_with(what) && text.contains(then), "{text}");
        }
    }

    #[test]
    fn standstills_name_the_failing_condition() {
        let cluster = json!({ "status": { "conditions": [
            { "type": "Schedulable", "status": "False", "reason": "Cordoned" },
            { "type": "Ready", "status": "False", "reason": "Unreachable", "message": "no answer" },
        ] } });
        let text = stall_reason("east", &cluster);
        assert!(text.starts_with("east is not ready: Unreachable no answer\n"), "{text}");
        assert!(text.ends_with("atoll cluster remove east --lost"), "{text}");
        assert!(stall_reason("east", &json!({})).contains("finalizer"));
    }
}
