//! Objects of the control plane that adopted objects refer to and the cluster does not have. The controller that places
//! dependents would send them there, so the contents of the cluster would decide what leaves the control plane.

use std::collections::BTreeSet;

use atoll_client::path;
use atoll_fleet::placement::{Share, next_needed};
use atoll_fleet::references::RESOURCES;
use atoll_fleet::scheduled::stays_above;
use atoll_fleet::{Placement, Reference, references};
use atoll_meta::object;
use serde_json::{Value, json};

use super::plan::{Item, shown};
use crate::advice::Failure;
use crate::cluster::connection::ClusterConnection;
use crate::cluster::control_plane_connection::uid;
use crate::cluster::object_release::REFERRERS;
use crate::place::resources::ApiResource;

/// Most objects that an error lists.
const MAX_SHOWN: usize = 10;

/// An object of the control plane that would be sent to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentObject {
    /// Kind and name.
    pub shown: String,
    /// Kind and name of the object that refers to it.
    pub referrer: String,
    /// Whether the cluster has an object of that name that cannot be adopted.
    pub is_left_out: bool,
}

/// Returns the resources of dependents among all resources.
pub fn dependent_resources(resources: &[ApiResource]) -> Vec<ApiResource> {
    let is_it = |it: &&ApiResource| it.group.is_empty() && RESOURCES.contains(&it.name.as_str());
    resources.iter().filter(is_it).cloned().collect()
}

/// Finds the objects that would be sent with adopted ones. `resources` are those of dependents; `adopted` are the items
/// and what they are or will be in the control plane; `is_left_out` is whether an object of the cluster is not adopted,
/// by resource and name.
pub async fn find(
    connection: &ClusterConnection,
    resources: &[ApiResource],
    adopted: &[(&Item, Value)],
    is_left_out: impl Fn(&ApiResource, &str) -> bool,
) -> Result<Vec<SentObject>, Failure> {
    let name = |item: &Item| (item.resource.name.clone(), item.name().to_string());
    let is_dependent = |item: &Item| resources.contains(&item.resource);
    // References stay in one namespace, and an adoption has one.
    let mut known: BTreeSet<(String, String)> =
        adopted.iter().map(|(item, _)| *item).filter(|item| is_dependent(item)).map(name).collect();
    let mut open: Vec<(ApiResource, Value, String)> = Vec::new();
    for (item, above) in adopted.iter().filter(|(item, _)| !item.is_done && item.resource.namespaced) {
        let mut above = above.clone();
        object::set_type(&mut above, &item.resource.api_version(), &item.resource.kind);
        object::set_namespace(&mut above, &item.namespace);
        open.push((item.resource.clone(), above, item.shown()));
    }
    open.reverse();
    let share = Share::on(&connection.name, uid(&connection.cluster));
    let mut sent = Vec::new();
    while let Some((resource, referring, referrer)) = open.pop() {
        let namespace = object::namespace(&referring);
        for reference in placed_references(&resource, &referring) {
            let Some(resource) = resources.iter().find(|it| it.name == reference.resource) else { continue };
            if !known.insert((resource.name.clone(), reference.name.clone())) {
                continue;
            }
            let at = path::object(&resource.collection(namespace), &reference.name);
            let Some(mut found) = connection.fleet.api.find(&at).await? else { continue };
            object::set_type(&mut found, &resource.api_version(), &resource.kind);
            if is_sent(&found, &share) {
                let shown = shown(&resource.kind, &found);
                let is_left_out = is_left_out(resource, &reference.name);
                sent.push(SentObject { shown: shown.clone(), referrer: referrer.clone(), is_left_out });
                open.push((resource.clone(), found, shown));
            }
        }
    }
    Ok(sent)
}

/// Returns the references of an object that the controller of dependents follows. Of kinds that refer to nothing in
/// their specification it reads the annotation only.
fn placed_references(resource: &ApiResource, object: &Value) -> Vec<Reference> {
    match REFERRERS.contains(&(&resource.group, &resource.name)) {
        true => references(object),
        false => references(&json!({ "metadata": object["metadata"] })),
    }
}

/// Whether a dependent would be placed on a cluster that needs it, and is not there yet.
fn is_sent(dependent: &Value, share: &Share) -> bool {
    if object::is_being_deleted(dependent) || stays_above(dependent) {
        return false;
    }
    let contains = |shares: &[Share]| shares.iter().any(|it| it.is_of(&share.name, &share.uid));
    let current = Placement::of(dependent);
    let next = next_needed(&current, vec![share.clone()]);
    !contains(&current.clusters) && next.is_some_and(|(next, _)| contains(&next))
}

/// The failure for objects that would be sent although the user has not allowed it.
pub fn not_allowed(sent: &[SentObject], cluster: &str) -> Failure {
    let mut lines: Vec<String> = sent.iter().take(MAX_SHOWN).map(|one| reason(one, cluster)).collect();
    if sent.len() > MAX_SHOWN {
        lines.push(format!("{} more objects would be sent there", sent.len() - MAX_SHOWN));
    }
    Failure::new(lines.join("\n       "), "add --with-dependents to allow it")
}

fn reason(sent: &SentObject, cluster: &str) -> String {
    let SentObject { shown, referrer, is_left_out } = sent;
    match is_left_out {
        false => format!(
            "{shown} exists in the control plane and not in cluster {cluster}: adopting {referrer} would send it there"
        ),
        true => format!(
            "{shown} of cluster {cluster} cannot be adopted: adopting {referrer} would place the one of the control plane \
             there"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependents_are_sent_where_they_may_be_placed() {
        let annotated = |key: &str, value: &str| json!({ "metadata": { "annotations": { (key): value } } });
        let placed = |clusters: Value, by: &str| {
            annotated("atoll.dev/placement", &json!({ "clusters": clusters, "by": by }).to_string())
        };
        let lab = json!([{ "name": "lab", "uid": "1" }]);
        for (dependent, expected) in [
            (json!({}), true),
            (placed(json!([{ "name": "east" }]), "reference"), true),
            (placed(json!([{ "name": "east" }]), "hand"), true),
            // Another Cluster had that name.
            (placed(json!([{ "name": "lab", "uid": "0" }]), "reference"), true),
            (placed(lab, "hand"), false),
            (placed(json!([{ "name": "east" }]), "release"), false),
            (annotated("atoll.dev/clusters", "none"), false),
            (json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false),
        ] {
            assert_eq!(is_sent(&dependent, &Share::on("lab", "1")), expected, "{dependent}");
        }
    }

    #[test]
    fn errors_list_a_limited_number_of_objects() {
        let one = |number: usize| SentObject {
            shown: format!("Secret shop/s{number}"),
            referrer: "Deployment shop/web".into(),
            is_left_out: number == 1,
        };
        let failure = not_allowed(&(0..12).map(one).collect::<Vec<_>>(), "lab");
        let lines: Vec<&str> = failure.message.lines().map(str::trim).collect();
        assert_eq!(
            (lines[0], lines[1], lines[10], lines.len()),
            (
                "Secret shop/s0 exists in the control plane and not in cluster lab: adopting Deployment shop/web would send it there",
                "Secret shop/s1 of cluster lab cannot be adopted: adopting Deployment shop/web would place the one of the control plane there",
                "2 more objects would be sent there",
                11
            )
        );
    }
}
