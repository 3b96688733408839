//! Checks that above and below agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atoll_fleet::view::{DRIFT_PREFIX, Drift};
use atoll_fleet::{Placement, marks, shape};
use atoll_meta::object;
use serde_json::{Map, Value};

use crate::log::marks_of;
use crate::objects::{AboveState, BelowState, NamespaceRef, ObjectRef};
use crate::test_server::TestServer;

/// Lists without items of other managers, which must have the same length above and below.
const COMPLETE_LISTS: [&str; 5] = [
    "/spec/template/spec/volumes",
    "/spec/template/spec/imagePullSecrets",
    "/imagePullSecrets",
    "/spec/tls",
    "/spec/ports",
];

/// Differences that are allowed.
pub struct AllowedDifferences<'a> {
    /// The name of the cluster.
    pub cluster: &'a str,
    pub control_plane: &'a str,
    /// Uids of objects that may exist below without an object above.
    pub unknown: &'a BTreeSet<String>,
    /// Paths of objects of other users.
    pub foreign: &'a BTreeMap<String, Duration>,
    /// Namespaces that the control plane may have lost, whose namespaces below are kept.
    pub forgotten: &'a BTreeSet<NamespaceRef>,
    /// Names of namespaces that were created by requests whose sender had given up.
    pub late: &'a BTreeSet<String>,
}

/// Returns the differences between above and a cluster below.
pub async fn disagreements(
    (above, up): (&TestServer, &AboveState),
    below: &TestServer,
    allowed: &AllowedDifferences<'_>,
) -> Vec<String> {
    let (control_plane, cluster) = (allowed.control_plane, allowed.cluster);
    let down = BelowState::read(below, control_plane).await;
    let wanted = up.wanted(cluster);
    let mut problems = Vec::new();
    let mut claimed = BTreeSet::new();
    for (object_ref, want) in &up.objects {
        let path = object_ref.path();
        let placement = Placement::of(want);
        if placement.leaving.iter().any(|one| one.name == cluster) {
            problems.push(format!("{path} is still leaving"));
        }
        let share = placement.share(cluster);
        if object::is_being_deleted(want) {
            problems.push(format!("{path} is being deleted above and still exists: {}", want["metadata"]));
            continue;
        }
        if share.is_some() != wanted.contains(object_ref) {
            problems.push(format!("{path} has a wrong placement: {placement:?}"));
        }
        let Some(share) = share else { continue };
        let found_below =
            down.path(object_ref).and_then(|path_below| Some((down.objects.get(&path_below)?, path_below)));
        let Some((found_below, path_below)) = found_below else {
            problems.push(format!("{path} is missing below"));
            continue;
        };
        let (state, message) = reported_state(above, cluster, object_ref, want).await;
        if let Some(conflict) = conflict(object_ref, want, found_below, &path_below, allowed) {
            problems.extend(conflict);
            problems.extend(
                (state != "Conflict")
                    .then(|| format!("{path}: a conflict is reported as {state}: {message}")),
            );
            continue;
        }
        claimed.insert(path_below);
        let mut shaped = shape::shape(want, cluster, share);
        if Drift::of(&Value::Null, want) == Drift::Report
            && let Some(left) = message.strip_prefix(DRIFT_PREFIX)
        {
            // Only drift that is reported as kept may exist.
            if left.contains(object_ref.kind.field) {
                remove_field(&mut shaped, object_ref.kind.field);
            }
        }
        problems.extend(
            differences(&shaped, found_below)
                .into_iter()
                .map(|what| format!("{path}: {what}; the reported message is {message:?}")),
        );
        problems.extend(
            (state != "Applied").then(|| format!("{path} is applied, and reported as {state:?}: {message}")),
        );
    }
    for (path, found_below) in &down.objects {
        let (plane, uid) = marks_of(found_below);
        if plane == control_plane && !claimed.contains(path) && !allowed.unknown.contains(&uid) {
            problems.push(format!("{path} exists below without a placement"));
        }
    }
    problems.extend(namespace_disagreements(up, &down, allowed));
    problems
}

/// Returns `Some` if the object below does not belong to the object above, with a message if that is not
/// allowed.
fn conflict(
    object_ref: &ObjectRef,
    want: &Value,
    found_below: &Value,
    path_below: &str,
    allowed: &AllowedDifferences<'_>,
) -> Option<Option<String>> {
    let (plane, mark) = marks_of(found_below);
    let uid = object::uid(want);
    if (plane.as_str(), mark.as_str()) == (allowed.control_plane, uid) {
        return None;
    }
    let is_foreign = plane.is_empty() && allowed.foreign.contains_key(path_below);
    let is_forgotten = plane == allowed.control_plane && allowed.unknown.contains(&mark);
    let message = || format!("{} is marked as of {plane:?} {mark:?} and not of {uid}", object_ref.path());
    Some((!is_foreign && !is_forgotten).then(message))
}

/// Returns the differences between a shape and the object below.
fn differences(shaped: &Value, found_below: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for (field, wanted) in shaped.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "apiVersion" | "kind" | "metadata")
            && !covers(wanted, &found_below[field])
        {
            problems.push(format!("{field} is {} and not {wanted}", found_below[field]));
        }
    }
    for field in ["labels", "annotations"] {
        let (wanted, found) = (&shaped["metadata"][field], &found_below["metadata"][field]);
        if !covers(wanted, found) {
            problems.push(format!("{field} are {found} and not {wanted}"));
        }
    }
    for list in COMPLETE_LISTS {
        let count = |value: &Value| value.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        if count(shaped) != count(found_below) {
            problems.push(format!(
                "{list} is {:?} and not {:?}",
                found_below.pointer(list),
                shaped.pointer(list)
            ));
        }
    }
    let nothing = Map::new();
    let data = |value: &Value| value["data"].as_object().unwrap_or(&nothing).clone();
    let wanted = data(shaped);
    for key in data(found_below)
        .keys()
        .filter(|key| !wanted.contains_key(*key) && !is_set_by_other_manager(found_below, key))
    {
        problems.push(format!("data.{key} still exists"));
    }
    problems
}

/// Returns whether another manager has set a key.
fn is_set_by_other_manager(found_below: &Value, key: &str) -> bool {
    let entries = found_below["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut others = entries.filter(|entry| entry["manager"] != marks::MANAGER);
    others.any(|entry| entry["fieldsV1"]["f:data"].get(format!("f:{key}")).is_some())
}

/// Checks namespaces: none is being deleted, each exists once below, and those that Atoll created are deleted
/// with the ones above unless they have objects.
fn namespace_disagreements(
    up: &AboveState,
    down: &BelowState,
    allowed: &AllowedDifferences<'_>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (namespace_ref, is_ending) in &up.namespaces {
        problems.extend(is_ending.then(|| format!("{} is not deleted", namespace_ref.path())));
    }
    for (namespace_ref, namespaces) in &down.namespaces {
        let names: Vec<&str> =
            namespaces.iter().map(object::name).filter(|name| !allowed.late.contains(*name)).collect();
        if names.len() > 1 {
            problems.push(format!("{} is in {names:?}", namespace_ref.path()));
        }
        if up.namespaces.contains_key(namespace_ref) || allowed.forgotten.contains(namespace_ref) {
            continue;
        }
        for name in names {
            let inside = format!("/namespaces/{name}/");
            if !down.objects.keys().any(|path| path.contains(&inside)) {
                problems.push(format!(
                    "{} is deleted, and {name} still exists below without objects",
                    namespace_ref.path()
                ));
            }
        }
    }
    problems
}

/// Returns state and message of the ObjectStatus of a cluster.
pub async fn reported_state(
    above: &TestServer,
    cluster: &str,
    object_ref: &ObjectRef,
    object: &Value,
) -> (String, String) {
    let (prefix, namespace, uid) =
        (object_ref.namespace_ref.workspace.prefix, object_ref.namespace_ref.namespace, object::uid(object));
    let path =
        format!("{prefix}/apis/atoll.dev/v1alpha1/namespaces/{namespace}/objectstatuses/{uid}.{cluster}");
    let record = above.client.get(&path).await.unwrap_or_default();
    let text = |field: &str| record["status"][field].as_str().unwrap_or_default().to_string();
    (text("state"), text("message"))
}

/// Removes a field given as a path of managed fields.
fn remove_field(value: &mut Value, field: &str) {
    let mut names: Vec<&str> = field.split('.').skip(1).collect();
    let Some(last) = names.pop() else { return };
    let parent = names.into_iter().try_fold(value, |value, name| value.get_mut(name));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(last);
    }
}

/// Returns whether `found` has everything in `wanted`.
fn covers(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, value)| covers(value, found.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| covers(wanted, found))
        }
        (Value::Null, _) => true,
        // Servers omit empty values.
        (Value::Array(wanted), Value::Null) => wanted.is_empty(),
        (Value::Object(wanted), Value::Null) => wanted.is_empty(),
        (wanted, found) => wanted == found,
    }
}
