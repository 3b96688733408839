//! Dependents of a released object: those that only it needs are released too; those that other objects need
//! stay.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::autoscaling::ScaleTarget;
use atoll_fleet::selecting::{self, selector, selects};
use atoll_fleet::{Placement, Reference, placed_by, references};
use atoll_meta::object;
use serde_json::Value;

use crate::advice::Failure;
use crate::cluster::Api;
use crate::cluster::connection::ClusterConnection;
use crate::cluster::object_release::REFERRERS;
use crate::place::resources::ApiResource;

use super::path;

/// Everything on the cluster that an object refers to, directly or indirectly.
#[derive(Default)]
pub struct Dependents {
    /// Dependents that no other object needs.
    pub released: Vec<(ApiResource, Value)>,
    /// Dependents that stay: other placed objects refer to them, or they have a placement of their own.
    pub kept: Vec<(ApiResource, Value)>,
}

/// Resource and name.
type Name = (String, String);

impl Dependents {
    pub async fn find(
        connection: &ClusterConnection,
        resources: &[ApiResource],
        resource: &ApiResource,
        object: &Value,
    ) -> Result<Dependents, Failure> {
        let (namespace, cluster) = (object::namespace(object), &connection.name);
        let mut closure: BTreeMap<Name, (ApiResource, Value)> = BTreeMap::new();
        let mut open = vec![object.clone()];
        while let Some(object) = open.pop() {
            for reference in references(&object) {
                let is_it = |it: &&ApiResource| it.group.is_empty() && it.name == reference.resource;
                let Some(resource) = resources.iter().find(is_it) else { continue };
                let name = (resource.name.clone(), reference.name.clone());
                if closure.contains_key(&name) {
                    continue;
                }
                let at = path(resource, namespace, &reference.name);
                let Some(mut found) = connection.fleet.api.find(&at).await? else { continue };
                if Placement::of(&found).share(cluster).is_some() {
                    object::set_type(&mut found, &resource.api_version(), &resource.kind);
                    open.push(found.clone());
                    closure.insert(name, (resource.clone(), found));
                }
            }
        }
        let selecting = selecting(connection, resources, object).await?;
        let owned = owned(connection, resources, object).await?;
        if closure.is_empty() && selecting.is_empty() && owned.is_empty() {
            return Ok(Dependents::default());
        }
        let others = referrers(connection, resources, namespace).await?;
        let root = (resource.name.clone(), object::name(object).to_string());
        let releasable = releasable(&root, &closure, &others);
        let (go, stay) = closure.into_iter().partition::<Vec<_>, _>(|(name, _)| releasable.contains(name));
        let plain =
            |all: Vec<(Name, (ApiResource, Value))>| all.into_iter().map(|(_, found)| found).collect();
        let mut dependents = Dependents { released: plain(go), kept: plain(stay) };
        let is_root = |(of, other): &&(String, Value)| {
            *of == resource.name && object::name(other) == object::name(object)
        };
        for (resource, found) in selecting {
            // An autoscaler has one target, and selects nothing.
            let selector = selector(&resource.kind, &found);
            let is_selected =
                |other: &Value| selector.as_ref().is_some_and(|selector| selects(selector, other));
            let is_needed =
                others.iter().filter(|other| !is_root(other)).any(|(_, other)| is_selected(other));
            match is_needed || Placement::of(&found).by != placed_by::REFERENCE {
                true => dependents.kept.push((resource, found)),
                false => dependents.released.push((resource, found)),
            }
        }
        for (resource, found) in owned {
            let is_found = |(_, known): &(ApiResource, Value)| object::uid(known) == object::uid(&found);
            if dependents.released.iter().chain(&dependents.kept).any(is_found) {
                continue;
            }
            let refers = |(_, other): &(String, Value)| {
                let mut needed = references(other).into_iter();
                resource.group.is_empty()
                    && needed.any(|it| it.resource == resource.name && it.name == object::name(&found))
            };
            let is_needed = others.iter().filter(|other| !is_root(other)).any(refers);
            match is_needed
                || has_other_owner(&found, object)
                || Placement::of(&found).by != placed_by::REFERENCE
            {
                true => dependents.kept.push((resource, found)),
                false => dependents.released.push((resource, found)),
            }
        }
        Ok(dependents)
    }
}

/// Group and name of autoscalers.
const AUTOSCALERS: (&str, &str) = ("autoscaling", "horizontalpodautoscalers");

/// Whether an autoscaler scales an object.
fn scales(autoscaler: &Value, target: &Value) -> bool {
    let group = object::split_api_version(object::api_version(target)).map_or("", |(group, _)| group);
    let target = ScaleTarget { group, kind: object::kind(target), name: object::name(target) };
    ScaleTarget::of(autoscaler) == Some(target)
}

/// Names of the autoscalers of an object that act in the control plane.
pub async fn autoscalers_above(
    api: &Api,
    resources: &[ApiResource],
    object: &Value,
) -> Result<Vec<String>, Failure> {
    let is_it = |it: &&ApiResource| (it.group.as_str(), it.name.as_str()) == AUTOSCALERS;
    let Some(resource) = resources.iter().find(is_it).filter(|_| !object::namespace(object).is_empty())
    else {
        return Ok(Vec::new());
    };
    let list = api.get(&resource.collection(object::namespace(object))).await?;
    let all = list["items"].as_array().into_iter().flatten();
    let is_above = |item: &&Value| {
        Placement::of(item).is_empty() && !object::is_being_deleted(item) && scales(item, object)
    };
    Ok(all.filter(is_above).map(|item| object::name(item).to_string()).collect())
}

/// The objects on the cluster that select the Pods of an object, or scale it.
async fn selecting(
    connection: &ClusterConnection,
    resources: &[ApiResource],
    object: &Value,
) -> Result<Vec<(ApiResource, Value)>, Failure> {
    let mut all = Vec::new();
    let namespace = object::namespace(object);
    if namespace.is_empty() || selecting::pod_labels(object).is_none() {
        return Ok(all);
    }
    for (group, plural) in selecting::RESOURCES.into_iter().chain([AUTOSCALERS]) {
        let is_it = |it: &&ApiResource| it.group == group && it.name == plural;
        let Some(resource) = resources.iter().find(is_it) else { continue };
        let list = connection.fleet.api.get(&resource.collection(namespace)).await?;
        for item in list["items"].as_array().into_iter().flatten() {
            let is_there = Placement::of(item).share(&connection.name).is_some();
            let is_selecting = || match (group, plural) {
                AUTOSCALERS => scales(item, object),
                _ => selector(&resource.kind, item).is_some_and(|selector| selects(&selector, object)),
            };
            if is_there && !object::is_being_deleted(item) && is_selecting() {
                let mut item = item.clone();
                object::set_type(&mut item, &resource.api_version(), &resource.kind);
                all.push((resource.clone(), item));
            }
        }
    }
    Ok(all)
}

/// Whether an object has other owners than this one, which may keep it in its clusters.
fn has_other_owner(found: &Value, owner: &Value) -> bool {
    object::owner_references(found).any(|reference| reference.uid != object::uid(owner))
}

/// The objects on the cluster that an object owns.
async fn owned(
    connection: &ClusterConnection,
    resources: &[ApiResource],
    owner: &Value,
) -> Result<Vec<(ApiResource, Value)>, Failure> {
    let (namespace, uid) = (object::namespace(owner), object::uid(owner));
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    let lists =
        |it: &&ApiResource| it.placeable && it.namespaced && it.verbs.iter().any(|verb| verb == "list");
    for resource in resources.iter().filter(|_| !namespace.is_empty()).filter(lists) {
        // Preferred versions are first.
        if !seen.insert((&resource.group, &resource.name)) {
            continue;
        }
        let list = connection.fleet.api.get(&resource.collection(namespace)).await?;
        for item in list["items"].as_array().into_iter().flatten() {
            let is_there = Placement::of(item).share(&connection.name).is_some();
            let is_owned = object::owner_references(item).any(|reference| reference.uid == uid);
            if is_there && is_owned && !object::is_being_deleted(item) {
                let mut item = item.clone();
                object::set_type(&mut item, &resource.api_version(), &resource.kind);
                all.push((resource.clone(), item));
            }
        }
    }
    Ok(all)
}

/// The dependents to release: all placed by reference, except those that a remaining object refers to.
fn releasable(
    root: &Name,
    closure: &BTreeMap<Name, (ApiResource, Value)>,
    others: &[(String, Value)],
) -> BTreeSet<Name> {
    let follows = |found: &Value| Placement::of(found).by == placed_by::REFERENCE;
    let mut releasable: BTreeSet<Name> =
        closure.iter().filter(|(_, (_, found))| follows(found)).map(|(name, _)| name.clone()).collect();
    loop {
        let stays = |(resource, other): &&(String, Value)| {
            let name = (resource.clone(), object::name(other).to_string());
            name != *root && !releasable.contains(&name)
        };
        let needed: BTreeSet<Reference> =
            others.iter().filter(stays).flat_map(|(_, other)| references(other)).collect();
        let before = releasable.len();
        let is_needed =
            |(resource, name): &Name| needed.iter().any(|it| it.resource == resource && it.name == *name);
        releasable.retain(|name| !is_needed(name));
        if releasable.len() == before {
            return releasable;
        }
    }
}

/// Lists the objects of a namespace on the cluster that refer to other objects.
async fn referrers(
    connection: &ClusterConnection,
    resources: &[ApiResource],
    namespace: &str,
) -> Result<Vec<(String, Value)>, Failure> {
    let mut referrers = Vec::new();
    for (group, plural) in REFERRERS.iter().filter(|_| !namespace.is_empty()) {
        let is_it = |it: &&ApiResource| it.group == *group && it.name == *plural;
        let Some(resource) = resources.iter().find(is_it) else { continue };
        let list = connection.fleet.api.get(&resource.collection(namespace)).await?;
        for item in list["items"].as_array().into_iter().flatten() {
            // An object that is being deleted needs nothing, as in the controller that places dependents.
            let is_there = Placement::of(item).share(&connection.name).is_some();
            if is_there && !object::is_being_deleted(item) {
                let mut item = item.clone();
                object::set_type(&mut item, &resource.api_version(), &resource.kind);
                referrers.push((resource.name.clone(), item));
            }
        }
    }
    Ok(referrers)
}

#[cfg(test)]
mod tests {
    use atoll_fleet::marks::PLACEMENT;
    use serde_json::json;

    use super::*;

    fn placed(kind: &str, name: &str, by: &str, spec: &Value) -> Value {
        let placement = format!(r#"{{"clusters":[{{"name":"east"}}],"by":"{by}"}}"#);
        let mut placed =
            json!({ "kind": kind, "metadata": { "name": name, "annotations": { PLACEMENT: placement } } });
        for (field, value) in spec.as_object().into_iter().flatten() {
            placed[field] = value.clone();
        }
        placed
    }

    #[test]
    fn dependents_of_other_objects_stay() {
        let pods = |account: &str, secret: &str| {
            let pull = json!([{ "name": secret }]);
            json!({ "spec": { "template": { "spec": { "serviceAccountName": account, "imagePullSecrets": pull } } } })
        };
        let pulls = |secret: &str| json!({ "imagePullSecrets": [{ "name": secret }] });
        let name = |resource: &str, name: &str| (resource.to_string(), name.to_string());
        let account = |it: &str, by: &str, secret: &str| {
            (
                name("serviceaccounts", it),
                (ApiResource::default(), placed("ServiceAccount", it, by, &pulls(secret))),
            )
        };
        let secret = |it: &str| {
            (name("secrets", it), (ApiResource::default(), placed("Secret", it, "reference", &json!({}))))
        };
        let web = |account: &str, secret: &str| {
            ("deployments".to_string(), placed("Deployment", "web", "hand", &pods(account, secret)))
        };
        let store = ("deployments".to_string(), placed("Deployment", "store", "hand", &pods("shared", "x")));
        let accounts = |closure: &BTreeMap<Name, (ApiResource, Value)>| -> Vec<(String, Value)> {
            let accounts = closure.iter().filter(|((resource, _), _)| resource == "serviceaccounts");
            accounts.map(|((resource, _), (_, found))| (resource.clone(), found.clone())).collect()
        };
        for (own, others, expected) in [
            // Reached directly and through the account.
            (
                vec![account("own", "reference", "pull"), secret("pull")],
                vec![web("own", "pull")],
                vec!["own", "pull"],
            ),
            (
                vec![account("shared", "reference", "pull"), secret("pull")],
                vec![web("shared", ""), store],
                vec![],
            ),
            (
                vec![account("own", "hand", "pull"), secret("pull"), secret("b")],
                vec![web("own", "b")],
                vec!["b"],
            ),
        ] {
            let closure: BTreeMap<_, _> = own.into_iter().collect();
            let mut others = others;
            others.extend(accounts(&closure));
            let releasable = releasable(&name("deployments", "web"), &closure, &others);
            let mut names: Vec<&str> = releasable.iter().map(|(_, name)| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, expected);
        }
    }
}
