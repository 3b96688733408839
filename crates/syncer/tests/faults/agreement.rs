//! Whether above and below agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atoll_fleet::view::{Drift, LEFT};
use atoll_fleet::{Placement, marks, shape};
use atoll_meta::object;
use serde_json::{Map, Value};

use crate::log::whose;
use crate::plane::Plane;
use crate::spots::{Above, Below, CLUSTER, Room, Spot};

/// Lists of which no more may be there than is wanted; all items of them are people's.
const WHOLE: [&str; 5] = [
    "/spec/template/spec/volumes",
    "/spec/template/spec/imagePullSecrets",
    "/imagePullSecrets",
    "/spec/tls",
    "/spec/ports",
];

/// What may be otherwise, and why.
pub struct Excuses<'a> {
    pub control_plane: &'a str,
    /// Uids of objects that may be there though nothing is known of them above.
    pub unknown: &'a BTreeSet<String>,
    /// Paths of what is somebody else's.
    pub foreign: &'a BTreeMap<String, Duration>,
    /// Namespaces that nobody remembers: theirs stay.
    pub forgotten: &'a BTreeSet<Room>,
    /// Names of namespaces that were made after their maker had given up.
    pub late: &'a BTreeSet<String>,
}

/// In what they do not agree.
pub async fn disagreements(above: &Plane, below: &Plane, excuses: &Excuses<'_>) -> Vec<String> {
    let control_plane = excuses.control_plane;
    let (up, down) = (Above::of(above).await, Below::of(below, control_plane).await);
    let wanted = up.wanted();
    let mut wrong = Vec::new();
    let mut claimed = BTreeSet::new();
    for (spot, want) in &up.objects {
        let path = spot.path();
        let placement = Placement::of(want);
        if placement.leaving.iter().any(|one| one.name == CLUSTER) {
            wrong.push(format!("{path} has not been let go of"));
        }
        let share = placement.share(CLUSTER);
        if object::is_being_deleted(want) {
            wrong.push(format!("{path} is deleted above and not gone: {}", want["metadata"]));
            continue;
        }
        if share.is_some() != wanted.contains(spot) {
            wrong.push(format!("{path} follows nobody, or does not follow: {placement:?}"));
        }
        let Some(share) = share else { continue };
        let there = down.path(spot).and_then(|place| Some((down.objects.get(&place)?, place)));
        let Some((there, place)) = there else {
            wrong.push(format!("{path} is missing below"));
            continue;
        };
        let (state, message) = state(above, spot, want).await;
        if let Some(conflict) = conflict(spot, want, there, &place, excuses) {
            wrong.extend(conflict);
            wrong.extend(
                (state != "Conflict")
                    .then(|| format!("{path}: no word of a conflict, but {state}: {message}")),
            );
            continue;
        }
        claimed.insert(place);
        let mut shaped = shape::shape(want, CLUSTER, share.replicas);
        if Drift::of(&Value::Null, want) == Drift::Report
            && let Some(left) = message.strip_prefix(LEFT)
        {
            // What is said to be left is left; all else is not.
            if left.contains(spot.kind.field) {
                take_out(&mut shaped, spot.kind.field);
            }
        }
        wrong.extend(
            differences(&shaped, there)
                .into_iter()
                .map(|what| format!("{path}: {what}; above it says {message:?}")),
        );
        wrong.extend(
            (state != "Applied")
                .then(|| format!("{path} is applied, and above it says {state:?}: {message}")),
        );
    }
    for (path, there) in &down.objects {
        let (plane, uid) = whose(there);
        if plane == control_plane && !claimed.contains(path) && !excuses.unknown.contains(&uid) {
            wrong.push(format!("{path} is below and nobody wants it there"));
        }
    }
    wrong.extend(rooms(&up, &down, excuses));
    wrong
}

/// Whether what is there is not for an object: what is wrong about that, if it should be.
fn conflict(
    spot: &Spot,
    want: &Value,
    there: &Value,
    place: &str,
    excuses: &Excuses<'_>,
) -> Option<Option<String>> {
    let (plane, mark) = whose(there);
    let uid = object::uid(want);
    if (plane.as_str(), mark.as_str()) == (excuses.control_plane, uid) {
        return None;
    }
    let is_foreign = plane.is_empty() && excuses.foreign.contains_key(place);
    let is_forgotten = plane == excuses.control_plane && excuses.unknown.contains(&mark);
    let message = || format!("{} is marked as of {plane:?} {mark:?} and not of {uid}", spot.path());
    Some((!is_foreign && !is_forgotten).then(message))
}

/// What is there that should not be so.
fn differences(shaped: &Value, there: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (field, wanted) in shaped.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "apiVersion" | "kind" | "metadata") && !covers(wanted, &there[field]) {
            wrong.push(format!("{field} is {} and not {wanted}", there[field]));
        }
    }
    for field in ["labels", "annotations"] {
        let (wanted, found) = (&shaped["metadata"][field], &there["metadata"][field]);
        if !covers(wanted, found) {
            wrong.push(format!("{field} are {found} and not {wanted}"));
        }
    }
    for list in WHOLE {
        let count = |value: &Value| value.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        if count(shaped) != count(there) {
            wrong.push(format!("{list} is {:?} and not {:?}", there.pointer(list), shaped.pointer(list)));
        }
    }
    let nothing = Map::new();
    let data = |value: &Value| value["data"].as_object().unwrap_or(&nothing).clone();
    let wanted = data(shaped);
    for key in data(there).keys().filter(|key| !wanted.contains_key(*key) && !is_anothers(there, key)) {
        wrong.push(format!("data.{key} is still there"));
    }
    wrong
}

/// Whether somebody else has set a key.
fn is_anothers(there: &Value, key: &str) -> bool {
    let entries = there["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut others = entries.filter(|entry| entry["manager"] != marks::MANAGER);
    others.any(|entry| entry["fieldsV1"]["f:data"].get(format!("f:{key}")).is_some())
}

/// Namespaces: none is half gone, each stands for one above, and those that Atoll made go with theirs unless something is in them.
fn rooms(up: &Above, down: &Below, excuses: &Excuses<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (room, is_ending) in &up.rooms {
        wrong.extend(is_ending.then(|| format!("{} has not ended", room.path())));
    }
    for (room, namespaces) in &down.rooms {
        let names: Vec<&str> =
            namespaces.iter().map(object::name).filter(|name| !excuses.late.contains(*name)).collect();
        if names.len() > 1 {
            wrong.push(format!("{} is in {names:?}", room.path()));
        }
        if up.rooms.contains_key(room) || excuses.forgotten.contains(room) {
            continue;
        }
        for name in names {
            let inside = format!("/namespaces/{name}/");
            if !down.objects.keys().any(|path| path.contains(&inside)) {
                wrong
                    .push(format!("{} has ended, and {name} is still below with nothing in it", room.path()));
            }
        }
    }
    wrong
}

/// What is known above of how an object fares.
async fn state(above: &Plane, spot: &Spot, object: &Value) -> (String, String) {
    let (prefix, namespace, uid) = (spot.room.space.prefix, spot.room.namespace, object::uid(object));
    let path =
        format!("{prefix}/apis/atoll.dev/v1alpha1/namespaces/{namespace}/objectstatuses/{uid}.{CLUSTER}");
    let record = above.client.get(&path).await.unwrap_or_default();
    let text = |field: &str| record["status"][field].as_str().unwrap_or_default().to_string();
    (text("state"), text("message"))
}

/// Takes a field out that is named as managers of fields name it.
fn take_out(value: &mut Value, field: &str) {
    let mut names: Vec<&str> = field.split('.').skip(1).collect();
    let Some(last) = names.pop() else { return };
    let parent = names.into_iter().try_fold(value, |value, name| value.get_mut(name));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(last);
    }
}

/// Whether all that is wanted is there.
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
        // Servers leave out what is empty.
        (Value::Array(wanted), Value::Null) => wanted.is_empty(),
        (Value::Object(wanted), Value::Null) => wanted.is_empty(),
        (wanted, found) => wanted == found,
    }
}
