//! Whether above and below agree.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::{Placement, shape};
use atoll_meta::object;
use serde_json::Value;

use crate::log::whose;
use crate::plane::Plane;

pub const CLUSTER: &str = "east";
pub const NAMESPACES: [&str; 2] = ["shop", "farm"];
/// What is placed in these tests.
pub const RESOURCES: [(&str, &str); 2] = [("configmaps", "/api/v1"), ("deployments", "/apis/apps/v1")];

pub fn collection(resource: &str, namespace: &str) -> String {
    let base = RESOURCES.iter().find(|(name, _)| *name == resource).map(|(_, base)| *base);
    format!("{}/namespaces/{namespace}/{resource}", base.unwrap_or_default())
}

/// Objects in these, by where they are.
pub async fn objects(plane: &Plane) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (resource, base) in RESOURCES {
        let list = plane.client.get(&format!("{base}/{resource}")).await.expect("a list");
        for item in list["items"].as_array().into_iter().flatten() {
            let namespace = object::namespace(item);
            if !NAMESPACES.contains(&namespace) {
                continue;
            }
            found.insert(format!("{}/{}", collection(resource, namespace), object::name(item)), item.clone());
        }
    }
    found
}

/// In what they do not agree. Objects with the uids in `unknown` may be there though nothing is known of them above; what
/// is at the paths in `foreign` is somebody else's.
pub async fn disagreements(
    above: &Plane,
    below: &Plane,
    control_plane: &str,
    unknown: &BTreeSet<String>,
    foreign: &BTreeSet<String>,
) -> Vec<String> {
    let (wanted, found) = (objects(above).await, objects(below).await);
    let mut wrong = Vec::new();
    for (path, want) in &wanted {
        let placement = Placement::of(want);
        let uid = object::uid(want);
        if placement.leaving.iter().any(|name| name == CLUSTER) {
            wrong.push(format!("{path} has not been let go of"));
        }
        let Some(share) = placement.share(CLUSTER) else { continue };
        if object::is_being_deleted(want) {
            wrong.push(format!("{path} is deleted above and has not been let go of"));
            continue;
        }
        let Some(there) = found.get(path) else {
            wrong.push(format!("{path} is missing below"));
            continue;
        };
        let (plane, mark) = whose(there);
        let is_foreign =
            foreign.contains(path) || (plane == control_plane && unknown.contains(&mark) && mark != uid);
        if is_foreign {
            wrong.extend(
                (state(above, want).await != "Conflict").then(|| format!("{path}: no word of a conflict")),
            );
            continue;
        }
        if (plane.as_str(), mark.as_str()) != (control_plane, uid) {
            wrong.push(format!("{path} is marked as of {plane} {mark} and not of {uid}"));
            continue;
        }
        let shaped = shape::shape(want, CLUSTER, share.replicas);
        for field in ["data", "spec"] {
            if !covers(&shaped[field], &there[field]) {
                wrong.push(format!("{path}: {field} is {} and not {}", there[field], shaped[field]));
            }
        }
        let said = state(above, want).await;
        wrong.extend((said != "Applied").then(|| format!("{path} is applied, and above it says {said:?}")));
    }
    for (path, there) in &found {
        let (plane, uid) = whose(there);
        let is_wanted = wanted
            .get(path)
            .is_some_and(|want| object::uid(want) == uid && Placement::of(want).share(CLUSTER).is_some());
        if plane == control_plane && !is_wanted && !unknown.contains(&uid) {
            wrong.push(format!("{path} is below and nobody wants it there"));
        }
    }
    wrong
}

/// What is known above of how an object fares.
async fn state(above: &Plane, object: &Value) -> String {
    let (namespace, uid) = (object::namespace(object), object::uid(object));
    let path = format!("/apis/atoll.dev/v1alpha1/namespaces/{namespace}/objectstatuses/{uid}.{CLUSTER}");
    let record = above.client.get(&path).await.unwrap_or_default();
    record["status"]["state"].as_str().unwrap_or_default().to_string()
}

/// Whether all that is wanted is there.
fn covers(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| covers(value, found)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| covers(wanted, found))
        }
        (Value::Null, _) => true,
        (wanted, found) => wanted == found,
    }
}
