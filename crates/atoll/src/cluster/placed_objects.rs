//! The objects that are placed on a cluster, read from the sync view, and their removal.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use atoll_client::path;
use atoll_fleet::placed_by;
use atoll_fleet::view::{ObjectTarget, Record, Report, State, SyncLine};
use atoll_meta::object;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::control_plane_connection::{ControlPlaneConnection, uid};
use super::in_workspace;
use crate::advice::Failure;
use crate::place::by_intent;
use crate::place::resources::collection;
use crate::workspace::session::{Session, encoded};
use atoll_joining::client::Problem;

/// Timeout for reading the initial state of the sync view.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a line: an object with its envelope.
const LONGEST_LINE: usize = 16 << 20;
/// Records per report.
const BATCH: usize = 500;

#[derive(Debug, Default, PartialEq)]
pub struct PlacedObjects {
    /// Objects that are placed on the cluster.
    pub assigned: Vec<ObjectTarget>,
    /// Objects that the cluster still has to remove.
    pub leaving: Vec<ObjectTarget>,
}

impl PlacedObjects {
    pub fn is_empty(&self) -> bool {
        self.assigned.is_empty() && self.leaving.is_empty()
    }

    pub fn len(&self) -> usize {
        self.assigned.len() + self.leaving.len()
    }

    fn all(&self) -> impl Iterator<Item = &ObjectTarget> {
        self.assigned.iter().chain(&self.leaving)
    }

    /// Names of the CustomResourceDefinitions among them.
    pub fn definitions(&self) -> Vec<&str> {
        let is_definition = |target: &&ObjectTarget| {
            atoll_fleet::definitions::is_definition(&target.resource.group, &target.resource.resource)
        };
        self.all().filter(is_definition).map(|target| target.name.as_str()).collect()
    }

    /// Number of objects by resource.
    pub fn counts(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for target in self.all() {
            let resource = &target.resource;
            let name = match resource.group.as_str() {
                "" => resource.resource.clone(),
                group => format!("{}.{group}", resource.resource),
            };
            *counts.entry(name).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        counts.join(", ")
    }

    /// Adds a line of the sync view. Returns whether the initial state is complete.
    fn add_line(&mut self, line: &[u8]) -> bool {
        match SyncLine::parse(line) {
            Some(SyncLine::Object { target, .. }) => self.assigned.push(target),
            Some(SyncLine::Remove { target, .. }) => self.leaving.push(target),
            Some(SyncLine::Synced { .. }) => return true,
            Some(SyncLine::Ending { workspace, namespace, uid, .. }) if !uid.is_empty() => {
                self.leaving.push(ObjectTarget::namespace(&workspace, &namespace, &uid));
            }
            Some(
                SyncLine::Forget { .. }
                | SyncLine::Namespace { .. }
                | SyncLine::Ending { .. }
                | SyncLine::Paused { .. }
                | SyncLine::Alive,
            )
            | None => {}
        }
        false
    }
}

fn sync_view_path(cluster: &str) -> String {
    format!("/services/sync/{}", encoded(cluster))
}

/// Reads everything that is placed on the cluster now.
pub async fn read(fleet: &ControlPlaneConnection, cluster: &str) -> Result<PlacedObjects, Failure> {
    match tokio::time::timeout(READ_TIMEOUT, read_all(fleet, cluster)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::new(
            format!("the server did not send the placements of {cluster} in time"),
            "it may be busy; try again in a moment",
        )),
    }
}

async fn read_all(fleet: &ControlPlaneConnection, cluster: &str) -> Result<PlacedObjects, Failure> {
    let client = fleet.api.client();
    let path = fleet.api.at(&sync_view_path(cluster));
    let response = client.send(Method::GET, &path, "application/json", Bytes::new()).await?;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        let answer = atoll_meta::json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default();
        return Err(client.refusal(&path, status, &answer).into());
    }
    let (mut placed, mut rest) = (PlacedObjects::default(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the connection broke: {error}"))?;
        let Ok(data) = frame.into_data() else { continue };
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            if placed.add_line(&rest[..end]) {
                return Ok(placed);
            }
            rest.drain(..=end);
        }
        if rest.len() > LONGEST_LINE {
            return Err("the server sent a line that is too long".to_string().into());
        }
    }
    Err(Failure::new("the connection closed before all placements were received", "try again"))
}

/// Paths of workspaces by workspace id.
pub struct WorkspacePaths {
    known: HashMap<String, String>,
    /// The current workspace, if its id cannot be read: any unknown id is taken to be that of the current
    /// workspace.
    current: Option<String>,
}

impl WorkspacePaths {
    /// Reads the paths of the current workspace and of all workspaces below it.
    pub async fn read(session: &Session, id: Option<String>) -> Result<WorkspacePaths, Failure> {
        let mut known = HashMap::new();
        let current = match id {
            Some(id) => {
                known.insert(id, session.current.clone());
                None
            }
            None => Some(session.current.clone()),
        };
        let mut open = vec![session.current.clone()];
        while let Some(parent) = open.pop() {
            let list = session.children(&parent).await?;
            for workspace in list["items"].as_array().into_iter().flatten() {
                let path = format!("{parent}:{}", object::name(workspace));
                if let Some(id) = workspace["status"]["id"].as_str() {
                    known.insert(id.to_string(), path.clone());
                }
                open.push(path);
            }
        }
        Ok(WorkspacePaths { known, current })
    }

    /// The path of a workspace, if it exists.
    pub fn workspace(&self, id: &str) -> Option<&str> {
        self.known.get(id).or(self.current.as_ref()).map(String::as_str)
    }

    fn placement_path(&self, target: &ObjectTarget) -> Option<String> {
        self.object(target).map(|path| format!("{path}/placement"))
    }

    /// The path of an object.
    pub fn object(&self, target: &ObjectTarget) -> Option<String> {
        let workspace = self.workspace(&target.workspace)?;
        let resource = &target.resource;
        let collection =
            collection(&resource.group, &resource.version, &target.namespace, &resource.resource);
        Some(in_workspace(workspace, &path::object(&collection, &target.name)))
    }
}

/// The result of removing a cluster from the placement of an object.
#[derive(Debug, PartialEq, Eq)]
pub enum RemovalResult {
    Removed,
    /// The object is a dependent: it is removed together with the objects that need it.
    Dependent,
    /// The object no longer exists.
    Gone,
}

/// Removes a cluster from the placement of an object. Dependents are left to the controller that places them,
/// unless `all`.
pub async fn remove_placement(
    session: &Session,
    paths: &WorkspacePaths,
    target: &ObjectTarget,
    cluster: &str,
    all: bool,
) -> Result<RemovalResult, Failure> {
    const ATTEMPTS: usize = 5;
    let Some(path) = paths.placement_path(target) else { return Ok(RemovalResult::Gone) };
    for _ in 0..ATTEMPTS {
        let placement = match session.client.call(Method::GET, &path, None).await {
            Ok(placement) => placement,
            Err(problem) if problem.is("NotFound") => return Ok(RemovalResult::Gone),
            Err(problem) => return Err(problem.into()),
        };
        if uid(&placement) != target.uid {
            return Ok(RemovalResult::Gone);
        }
        if placement["spec"]["by"] == "reference" && !all {
            return Ok(RemovalResult::Dependent);
        }
        let Some(mut next) = without(&placement, cluster) else { return Ok(RemovalResult::Removed) };
        let is_scheduled = by_intent::is_scheduled(&placement);
        if is_scheduled {
            next["spec"]["by"] = placed_by::RELEASE.into();
        }
        match session.client.call(Method::PUT, &path, Some(&next)).await {
            Ok(_) if is_scheduled => {
                give_back(session, &path, &placement, &next).await?;
                return Ok(RemovalResult::Removed);
            }
            Ok(_) => return Ok(RemovalResult::Removed),
            Err(problem) if problem.is("NotFound") => return Ok(RemovalResult::Gone),
            // Another writer was faster: retry.
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(
        format!("the placement of {} keeps being changed by other writers", target.name),
        "try again",
    ))
}

/// Lets the scheduler decide again about an object that is on other clusters too. `before` and `after` are its
/// placements.
async fn give_back(session: &Session, path: &str, before: &Value, after: &Value) -> Result<(), Failure> {
    if after["spec"]["clusters"].as_array().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    let by = match before["spec"]["by"].as_str().unwrap_or_default() {
        // It was taken from the scheduler before, and its intent was written then.
        placed_by::RELEASE | placed_by::HAND | "" => placed_by::ANNOTATION,
        by => by,
    };
    let patch = json!({ "spec": { "by": by } });
    match session.client.patch(path, "application/merge-patch+json", &patch).await {
        Err(problem) if !problem.is("NotFound") => Err(problem.into()),
        _ => Ok(()),
    }
}

/// A placement without the cluster, or `None` if the cluster is not in it.
pub fn without(placement: &Value, cluster: &str) -> Option<Value> {
    let shares = placement["spec"]["clusters"].as_array()?;
    let rest: Vec<&Value> = shares.iter().filter(|share| share["name"] != cluster).collect();
    if rest.len() == shares.len() {
        return None;
    }
    let mut next = placement.clone();
    next["spec"]["clusters"] = json!(rest);
    Some(next)
}

/// Reports for a cluster that objects are gone, in place of its syncer.
pub async fn report_gone(
    fleet: &ControlPlaneConnection,
    cluster: &str,
    targets: &[ObjectTarget],
) -> Result<(), Problem> {
    for batch in targets.chunks(BATCH) {
        let records = batch.iter().map(|target| Record {
            target: target.clone(),
            state: State::Gone,
            ..Record::default()
        });
        let report = Report { records: records.collect(), ..Report::default() };
        let body = serde_json::to_value(&report).map_err(|error| error.to_string())?;
        fleet.api.create(&sync_view_path(cluster), &body).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_fleet::view::{Drift, SyncResource};

    fn target(group: &str, resource: &str, name: &str) -> ObjectTarget {
        let resource = SyncResource {
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            ..SyncResource::default()
        };
        ObjectTarget {
            resource,
            workspace: "w".into(),
            namespace: "n".into(),
            name: name.into(),
            uid: "u".into(),
        }
    }

    #[test]
    fn views_are_read_until_synced() {
        let mut placed = PlacedObjects::default();
        for line in [
            SyncLine::Object {
                target: target("apps", "deployments", "a"),
                generation: 1,
                object: json!({}),
                drift: Drift::Correct,
                held: false,
            },
            SyncLine::Object {
                target: target("apps", "deployments", "b"),
                generation: 1,
                object: json!({}),
                drift: Drift::Correct,
                held: false,
            },
            SyncLine::Alive,
            SyncLine::Remove { target: target("", "configmaps", "c"), since: 0 },
        ] {
            assert!(!placed.add_line(line.bytes().trim_ascii_end()));
        }
        assert!(!placed.add_line(b"nonsense"));
        let end = SyncLine::Synced {
            control_plane: "p".into(),
            uid: "u".into(),
            workspaces: Vec::new(),
            workspace: "w".into(),
            id: String::new(),
            observe: false,
        };
        assert!(placed.add_line(end.bytes().trim_ascii_end()));
        assert_eq!((placed.len(), placed.counts().as_str()), (3, "1 configmaps, 2 deployments.apps"));
    }

    #[test]
    fn placements_are_subresources_of_objects() {
        let known = HashMap::from([("w".to_string(), "root:a".to_string())]);
        let paths = WorkspacePaths { known, current: None };
        assert_eq!(
            paths.placement_path(&target("apps", "deployments", "web")).as_deref(),
            Some("/clusters/root:a/apis/apps/v1/namespaces/n/deployments/web/placement")
        );
        let elsewhere = ObjectTarget { workspace: "v".into(), ..target("", "configmaps", "a") };
        assert_eq!(paths.placement_path(&elsewhere), None);
        let paths = WorkspacePaths { current: Some("root:b".into()), ..paths };
        assert!(
            paths
                .placement_path(&elsewhere)
                .expect("it can only be there")
                .starts_with("/clusters/root:b/api/v1/")
        );
    }

    #[test]
    fn other_clusters_stay_in_the_placement() {
        let placement = json!({
            "metadata": { "resourceVersion": "7" },
            "spec": { "clusters": [{ "name": "east", "replicas": 3 }, { "name": "west", "replicas": 2 }], "by": "hand" },
        });
        let next = without(&placement, "east").expect("it was there");
        assert_eq!(next["spec"], json!({ "clusters": [{ "name": "west", "replicas": 2 }], "by": "hand" }));
        assert_eq!(next["metadata"]["resourceVersion"], "7");
        assert_eq!(without(&placement, "north"), None);
    }
}
