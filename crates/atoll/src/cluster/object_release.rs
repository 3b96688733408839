//! Releases single objects in a cluster: they stay as they are and are no longer managed by Atoll.
//!
//! ```text
//!   object below: released ─► placement above: cluster removed ─► object below: marks removed
//! ```
//!
//! This order is safe while the syncer runs: it neither changes nor deletes an object with the released
//! annotation, and it ignores an object that is no longer placed on its cluster.

use atoll_fleet::keep_annotation;
use atoll_fleet::marks::{ADOPTER, KEEP, RELEASED};
use atoll_fleet::placed_by;
use atoll_fleet::view::ObjectTarget;
use atoll_meta::object;
use serde_json::json;

use super::control_plane_connection::{ControlPlaneConnection, uid};
use atoll_joining::api::Api;
pub use atoll_joining::{list_namespaces, remove_locators, remove_marks};

use super::placed_objects::{self, without};
use crate::advice::Failure;

/// Attempts at an update that conflicts with other writers.
const ATTEMPTS: usize = 10;

/// Group and resource of the kinds that have dependents: objects that they refer to are placed with them.
pub const REFERRERS: [(&str, &str); 9] = [
    ("", "replicationcontrollers"),
    ("batch", "cronjobs"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("batch", "jobs"),
    ("apps", "replicasets"),
    ("", "serviceaccounts"),
    ("apps", "statefulsets"),
    ("networking.k8s.io", "ingresses"),
];

/// Writes the released annotation to an object in a cluster. Returns whether the object exists.
pub async fn mark_released(below: &Api, path: &str, uid: &str) -> Result<bool, Failure> {
    let patch = json!({ "metadata": { "uid": uid, "annotations": { RELEASED: "true" } } });
    match below.merge(&format!("{path}?fieldManager={ADOPTER}"), &patch).await {
        Ok(_) => Ok(true),
        Err(problem) if problem.is("NotFound") => Ok(false),
        Err(problem) => Err(problem.into()),
    }
}

/// Adds a released object to the keep annotation of an object that it refers to, so that Atoll never deletes
/// that object.
pub async fn add_keep_mark(below: &Api, path: &str, of: &str, referrer: &str) -> Result<(), Failure> {
    change_keep(below, path, of, |kept| Some(keep_annotation::add(kept, referrer))).await
}

/// Removes the objects that are managed again from the keep annotation.
pub async fn remove_keep_marks(
    below: &Api,
    path: &str,
    of: &str,
    is_back: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    change_keep(below, path, of, |kept| keep_annotation::remove(kept, &is_back)).await
}

async fn change_keep(
    below: &Api,
    path: &str,
    of: &str,
    change: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(found) = below.find(path).await?.filter(|found| uid(found) == of) else { return Ok(()) };
        let before = object::annotation(&found, KEEP);
        let after = change(before.unwrap_or_default());
        if before == after.as_deref() {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "uid": of, "resourceVersion": object::resource_version(&found), "annotations": { KEEP: after },
        } });
        match below.merge(&format!("{path}?fieldManager={ADOPTER}"), &patch).await {
            Ok(_) => return Ok(()),
            Err(problem) if problem.is("NotFound") => return Ok(()),
            // Another writer was faster: retry.
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(format!("{path} keeps being changed by other writers"), "try again"))
}

/// Removes a cluster from the placement of an object that was released there, without deleting the object.
/// `path` is that of the object above.
pub async fn unplace(
    above: &Api,
    registering_workspace: &ControlPlaneConnection,
    cluster: &str,
    path: &str,
    target: &ObjectTarget,
) -> Result<(), Failure> {
    let path = format!("{path}/placement");
    for _ in 0..ATTEMPTS {
        let Some(placement) = above.find(&path).await?.filter(|found| uid(found) == target.uid) else {
            return Ok(());
        };
        if let Some(next) = without(&placement, cluster) {
            match above.put(&path, &next).await {
                Ok(_) => {}
                Err(problem) if problem.is("NotFound") => return Ok(()),
                // Another writer was faster: retry.
                Err(problem) if problem.is("Conflict") => continue,
                Err(problem) => return Err(problem.into()),
            }
        }
        placed_objects::report_gone(registering_workspace, cluster, std::slice::from_ref(target)).await?;
        return Ok(());
    }
    Err(Failure::new(
        format!("the placement of {} keeps being changed by other writers", target.name),
        "try again",
    ))
}

/// Checks with a dry run that the cluster can be removed from the placement of an object.
pub async fn check_unplace(above: &Api, cluster: &str, path: &str) -> Result<(), Failure> {
    let placement = above.get(&format!("{path}/placement")).await?;
    if let Some(next) = without(&placement, cluster) {
        match above.put(&format!("{path}/placement?dryRun=All"), &next).await {
            Err(problem) if !problem.is("Conflict") => return Err(problem.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Adds a cluster to a placement. Returns whether it was missing.
pub async fn add_to_placement(
    above: &Api,
    cluster: &str,
    path: &str,
    of: &str,
    by: &str,
) -> Result<bool, Failure> {
    let path = format!("{path}/placement");
    for _ in 0..ATTEMPTS {
        let mut placement = above.get(&path).await?;
        if uid(&placement) != of {
            return Err(Failure::new(
                format!("{path} belongs to a new object of the same name"),
                "try again",
            ));
        }
        let Some(clusters) = placement["spec"]["clusters"].as_array_mut() else {
            return Err(Failure::from(format!("{path} has no list of clusters")));
        };
        if clusters.iter().any(|share| share["name"] == cluster) {
            return Ok(false);
        }
        let is_first = clusters.is_empty();
        clusters.push(json!({ "name": cluster }));
        // The scheduler would remove a cluster that it has not chosen.
        let is_scheduled = placement["spec"]["by"].as_str().is_some_and(placed_by::is_scheduled);
        if is_first || is_scheduled || by == placed_by::ANNOTATION {
            placement["spec"]["by"] = by.into();
        }
        // The object already runs there, so a cordon does not matter.
        placement["spec"]["force"] = true.into();
        match above.put(&path, &placement).await {
            Ok(_) => return Ok(true),
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(format!("{path} keeps being changed by other writers"), "try again"))
}
