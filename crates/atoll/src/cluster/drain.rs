//! `atoll cluster drain`: moves everything off a cluster, make before break.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::{Share, names_of};
use atoll_fleet::view::ObjectTarget;
use atoll_fleet::what_if::{PlacementEffect, WhatIf, WhatIfAnswer};
use atoll_fleet::{ClusterView, Placement, placed_by};
use atoll_meta::views::TaintView;
use atoll_scheduler::DRAIN;
use http::Method;
use serde_json::{Value, json};

use super::control_plane_connection::ControlPlaneConnection;
use super::guarded;
use super::placed_objects::{self, WorkspacePaths};
use crate::advice::{Failure, invocation, pluralize};
use crate::cluster::{Api, in_workspace};
use crate::command::DrainOptions;
use crate::place::move_to::last_warning;
use crate::style::Paint;
use crate::{output, what_if};

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Most objects that are named.
const MOST_NAMED: usize = 20;

/// The fate of an object on a cluster that is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Course {
    /// It moves elsewhere.
    Moves,
    /// It goes with the objects that need it.
    Follows,
    /// It runs on every cluster.
    DaemonSet,
    /// It was not placed by the scheduler, which leaves it alone.
    ByHand,
}

pub async fn run(options: &DrainOptions) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&options.cluster.connection)?;
    let name = &options.cluster.name;
    let found = fleet.get(name).await?;
    if options.dry_run {
        return show(&fleet, name).await;
    }
    let mut taints: Vec<Value> = ClusterView::of(&found).taints().map(|taint| taint.json().clone()).collect();
    if !ClusterView::of(&found).taints().any(|taint| taint.key() == DRAIN) {
        taints.push(json!({ "key": DRAIN, "effect": "NoExecute" }));
    }
    fleet.change(name, &guarded(&found, json!({ "unschedulable": true, "taints": taints }))).await?;
    output::print(&format!(
        "Cluster {name} is cordoned, and its objects move to other clusters. Open it again with: {} cluster uncordon {name}\n",
        invocation()
    ));
    if options.timeout == 0 {
        return Ok(());
    }
    wait(&fleet, name, Instant::now() + Duration::from_secs(options.timeout.into())).await
}

/// Taints of a cluster without the one of a drain, if it has that.
pub fn without_drain(cluster: &Value) -> Option<Vec<Value>> {
    let taints = || ClusterView::of(cluster).taints();
    let others = taints().filter(|taint| taint.key() != DRAIN).map(TaintView::json).cloned();
    taints().any(|taint| taint.key() == DRAIN).then(|| others.collect())
}

/// Says what would move where, and what would stay. The scheduler decides as for a drain in earnest.
async fn show(fleet: &ControlPlaneConnection, cluster: &str) -> Result<(), Failure> {
    let contents = DrainContents::read(fleet, cluster).await?;
    let change = WhatIf { drain: Some(cluster.to_string()), ..WhatIf::default() };
    let body = serde_json::to_value(&change).unwrap_or_default();
    let text = match fleet.api.create(what_if::PATH, &body).await {
        Ok(answer) => {
            let answer: WhatIfAnswer = serde_json::from_value(answer).unwrap_or_default();
            would_move(&answer, cluster, Paint::stdout())
        }
        // No scheduler runs in the server.
        Err(problem) if problem.is("ServiceUnavailable") => {
            let moving = contents.of(Course::Moves);
            let count = u64::try_from(moving.len()).unwrap_or(0);
            format!(
                "{} on {cluster}: {}. Where they would go is not known, because no scheduler runs in the control plane.\n",
                pluralize(count, "object"),
                names(&moving)
            )
        }
        Err(problem) => return Err(problem.into()),
    };
    output::print(&(text + &contents.stays(cluster) + "Nothing was changed.\n"));
    Ok(())
}

/// Describes where objects would go, and why others would stay.
fn would_move(answer: &WhatIfAnswer, cluster: &str, paint: Paint) -> String {
    let is_on = |shares: &[Share]| shares.iter().any(|share| share.name == cluster);
    let on_cluster = answer.changes.iter().filter(|effect| is_on(&effect.before));
    let (staying, leaving): (Vec<&PlacementEffect>, Vec<&PlacementEffect>) =
        on_cluster.partition(|effect| is_on(&effect.after));
    let leaving: Vec<PlacementEffect> = leaving.into_iter().cloned().collect();
    let mut text = what_if::paused(answer);
    match leaving.is_empty() {
        true => text.push_str(&format!("Nothing on {cluster} would move.\n")),
        false => {
            let count = u64::try_from(leaving.len()).unwrap_or(0);
            text.push_str(&format!("{} would move off {cluster}:\n", pluralize(count, "object")));
            text.push_str(&what_if::effects(&leaving, paint));
        }
    }
    for effect in staying {
        let PlacementEffect { kind, namespace, name, after, reason, .. } = effect;
        let on = names_of(after);
        let why = if reason.is_empty() { "no other cluster takes all of it" } else { reason.as_str() };
        text.push_str(&format!("{kind} {namespace}/{name} would stay on {on}: {why}\n"));
    }
    text + &what_if::others(answer)
}

/// Prints the progress until everything that can move has left.
async fn wait(fleet: &ControlPlaneConnection, cluster: &str, deadline: Instant) -> Result<(), Failure> {
    let mut told = String::new();
    loop {
        let contents = DrainContents::read(fleet, cluster).await?;
        let moving = contents.of(Course::Moves);
        if moving.is_empty() && contents.leaving == 0 {
            output::print(&(contents.stays(cluster) + &format!("Cluster {cluster} is drained.\n")));
            return Ok(());
        }
        let count = u64::try_from(moving.len()).unwrap_or(0);
        let mut text = format!("{} still on {cluster}: {}", pluralize(count, "object"), names(&moving));
        if contents.leaving > 0 {
            text.push_str(&format!("; {} being removed there", contents.leaving));
        }
        text.push_str(".\n");
        for (object, why) in contents.blocked(fleet, &moving).await {
            text.push_str(&format!("  {object} is blocked: {why}\n"));
        }
        if text != told {
            output::print(&text);
            told = text;
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(
                format!("{} could not leave {cluster} in time", pluralize(count, "object")),
                "they move as soon as they can; the cluster stays cordoned",
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The objects of a cluster that is drained.
struct DrainContents {
    objects: Vec<(Course, ObjectTarget)>,
    /// Uids of objects whose placement says that they cannot leave.
    blocked: HashSet<String>,
    /// Objects that the cluster has still to remove.
    leaving: usize,
    paths: WorkspacePaths,
}

impl DrainContents {
    async fn read(fleet: &ControlPlaneConnection, cluster: &str) -> Result<DrainContents, Failure> {
        let placed = placed_objects::read(fleet, cluster).await?;
        let id = fleet.workspace_id().await?;
        let paths = WorkspacePaths::read(&fleet.session, id).await?;
        let (mut objects, mut blocked) = (Vec::new(), HashSet::new());
        for target in placed.assigned {
            let Some(path) = paths.object(&target) else { continue };
            let found = match fleet.session.client.call(Method::GET, &path, None).await {
                Err(problem) if problem.is("NotFound") => continue,
                found => found?,
            };
            let placement = Placement::of(&found);
            if !placement.blocked.is_empty() {
                blocked.insert(target.uid.clone());
            }
            objects.push((course(&target, &placement), target));
        }
        Ok(DrainContents { objects, blocked, leaving: placed.leaving.len(), paths })
    }

    fn of(&self, course: Course) -> Vec<&ObjectTarget> {
        self.objects.iter().filter(|(own, _)| *own == course).map(|(_, target)| target).collect()
    }

    /// Names what stays, and what to do about it.
    fn stays(&self, cluster: &str) -> String {
        let mut text = String::new();
        let daemon_sets = self.of(Course::DaemonSet);
        if !daemon_sets.is_empty() {
            text.push_str(&format!(
                "DaemonSets stay until the cluster is removed: {}.\n",
                names(&daemon_sets)
            ));
        }
        let by_hand = self.of(Course::ByHand);
        if !by_hand.is_empty() {
            text.push_str(&format!(
                "Not placed by the scheduler, and so left on {cluster}: {}. Move them with: {} place RESOURCE/NAME --on CLUSTER\n",
                names(&by_hand),
                invocation()
            ));
        }
        text
    }

    /// Objects that cannot move, with the reason.
    async fn blocked(
        &self,
        fleet: &ControlPlaneConnection,
        moving: &[&ObjectTarget],
    ) -> BTreeMap<String, String> {
        let mut blocked = BTreeMap::new();
        let Ok(context) = fleet.session.config.context() else { return blocked };
        for target in moving.iter().take(MOST_NAMED) {
            let Some(workspace) = self.paths.workspace(&target.workspace) else { continue };
            let Ok(api) = Api::above(&context, &in_workspace(workspace, "")) else { continue };
            let is_blocked = self.blocked.contains(&target.uid);
            if let Some(why) = last_warning(&api, &target.namespace, &target.name, is_blocked).await {
                blocked.insert(title(target), why);
            }
        }
        blocked
    }
}

fn course(target: &ObjectTarget, placement: &Placement) -> Course {
    let resource = (target.resource.group.as_str(), target.resource.resource.as_str());
    match placement.by.as_str() {
        _ if resource == ("apps", "daemonsets") => Course::DaemonSet,
        by if placed_by::is_scheduled(by) => Course::Moves,
        placed_by::LABEL if is_workload(resource) => Course::Moves,
        "" | "reference" => Course::Follows,
        _ => Course::ByHand,
    }
}

fn title(target: &ObjectTarget) -> String {
    format!("{}/{} in {}", target.resource.resource, target.name, target.namespace)
}

fn names(targets: &[&ObjectTarget]) -> String {
    let mut names: Vec<String> = targets.iter().take(MOST_NAMED).map(|target| title(target)).collect();
    if targets.len() > MOST_NAMED {
        names.push(format!("and {} more", targets.len() - MOST_NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_and_what_stays_are_told() {
        let effect = |name: &str, before: &[&str], after: &[&str], reason: &str| PlacementEffect {
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: name.into(),
            before: before.iter().map(|name| Share::on(name, "")).collect(),
            after: after.iter().map(|name| Share::on(name, "")).collect(),
            reason: reason.into(),
            ..PlacementEffect::default()
        };
        let changes = vec![
            effect("web", &["east"], &["west"], ""),
            effect("db", &["east"], &["east"], "its volumes are on east"),
            effect("elsewhere", &["west"], &["north"], ""),
        ];
        let answer = WhatIfAnswer { changes, others: Some(2), ..WhatIfAnswer::default() };
        assert_eq!(
            would_move(&answer, "east", Paint::PLAIN),
            "1 object would move off east:\n\
             KIND         NAMESPACE   NAME   NOW    THEN   WHY NOT\n\
             Deployment   default     web    east   west   \n\
             Deployment default/db would stay on east: its volumes are on east\n\
             2 objects of other workspaces would move.\n"
        );
        let nothing = would_move(&WhatIfAnswer::default(), "east", Paint::PLAIN);
        assert_eq!(nothing, "Nothing on east would move.\n");
    }

    #[test]
    fn objects_of_others_and_daemon_sets_stay() {
        let target = |group: &str, resource: &str| {
            let mut target = ObjectTarget::default();
            (target.resource.group, target.resource.resource) = (group.into(), resource.into());
            target
        };
        let by = |by: &str| Placement { by: by.into(), ..Placement::default() };
        let web = target("apps", "deployments");
        assert_eq!(course(&web, &by("default")), Course::Moves);
        assert_eq!(course(&web, &by("annotation")), Course::Moves);
        assert_eq!(course(&web, &by("hand")), Course::ByHand);
        assert_eq!(course(&target("", "configmaps"), &by("reference")), Course::Follows);
        assert_eq!(course(&target("apps", "daemonsets"), &by("default")), Course::DaemonSet);
    }

    #[test]
    fn only_the_taint_of_the_drain_is_removed() {
        let taint = |key: &str| json!({ "key": key, "effect": "NoExecute" });
        let cluster = |taints: Value| json!({ "spec": { "taints": taints } });
        assert_eq!(without_drain(&cluster(json!([taint("a")]))), None);
        assert_eq!(without_drain(&cluster(json!([taint("a"), taint(DRAIN)]))), Some(vec![taint("a")]));
    }
}
