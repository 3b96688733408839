//! Decides whether an existing namespace in the cluster may be used for a namespace above.

use atoll_fleet::namespaces::is_consented;
use atoll_fleet::{Locator, marks};
use atoll_meta::{Status, object};
use serde_json::Value;

use super::namespace_path;
use crate::connections::cluster_client::ClusterClient;

/// Exists in every cluster and cannot be created.
const DEFAULT: &str = "default";

/// Returns the existing namespace for a namespace above without a recorded mapping. One with the right
/// locator comes first. `None` if one must be created.
pub async fn find_existing(
    below: &ClusterClient,
    locator: &Locator,
    in_registering_workspace: bool,
) -> Result<Option<(String, Value)>, Status> {
    let (plain, mapped) = (locator.below(true), locator.below(false));
    let is_ours = |found: &Option<Value>| {
        found
            .as_ref()
            .is_some_and(|found| ownership_of(found, locator, in_registering_workspace) == Ownership::Owned)
    };
    let there = below.get(&namespace_path(&plain)).await?;
    if is_ours(&there) || plain == mapped {
        return Ok(there.map(|found| (plain, found)));
    }
    let stands_for_it = below.get(&namespace_path(&mapped)).await?;
    if is_ours(&stands_for_it) {
        return Ok(stands_for_it.map(|found| (mapped, found)));
    }
    // Another workspace has used the plain name since before names were mapped; it keeps it.
    let is_used_by_other_workspace = there.as_ref().and_then(Locator::of).is_some_and(|said| {
        said.is_ok_and(|said| {
            said.control_plane == locator.control_plane && said.workspace != locator.workspace
        })
    });
    let is_usable = match &there {
        Some(found) if in_registering_workspace => {
            !is_used_by_other_workspace || object::is_being_deleted(found)
        }
        Some(found) => ownership_of(found, locator, in_registering_workspace) == Ownership::Available,
        None => in_registering_workspace,
    };
    match is_usable {
        true => Ok(there.map(|found| (plain, found))),
        false => Ok(stands_for_it.map(|found| (mapped, found))),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Ownership {
    Owned,
    /// It has no locator, and this workspace may use it.
    Available,
    Taken(String),
}

/// Decides whether an existing namespace may be used. `in_registering_workspace` tells whether the namespace
/// above is in the registering workspace.
pub fn ownership_of(found: &Value, locator: &Locator, in_registering_workspace: bool) -> Ownership {
    let (name, workspace) = (object::name(found), &locator.workspace);
    match Locator::of(found) {
        Some(Ok(said)) if said == *locator => Ownership::Owned,
        Some(_) => {
            Ownership::Taken(format!("namespace {name:?} in the cluster belongs to another namespace above"))
        }
        None if is_consented(found, workspace) => Ownership::Available,
        None if in_registering_workspace && name == DEFAULT => Ownership::Available,
        None if in_registering_workspace => Ownership::Taken(format!(
            "namespace {name:?} exists in the cluster and was not made by Atoll; adopt it or rename one of the two"
        )),
        None => Ownership::Taken(format!(
            "namespace {name:?} exists in the cluster and is not for this workspace; an administrator of the cluster allows it \
             with: kubectl label namespace {name} {}={workspace}",
            marks::WORKSPACE
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn namespace_is_used_only_for_its_locator() {
        let namespace = |name: &str, said: Option<&str>| {
            let mut found = json!({"metadata": {"name": name}});
            if let Some(said) = said {
                object::set_annotation(&mut found, marks::NAMESPACE, said);
            }
            found
        };
        let of = |control_plane: &str, workspace: &str, namespace: &str| Locator {
            control_plane: control_plane.into(),
            workspace: workspace.into(),
            namespace: namespace.into(),
        };
        let consented = |mut found: Value, workspace: &str| {
            found["metadata"]["labels"] = json!({ "atoll.dev/workspace": workspace });
            found
        };
        let ours = of("cp", "w", "shop").text();
        let plain = |name: &str| namespace(name, None);
        for (found, locator, of_home, of_others) in [
            (namespace("shop", Some(&ours)), of("cp", "w", "shop"), "ours", "ours"),
            (plain(DEFAULT), of("cp", "w", DEFAULT), "free", "taken"),
            (plain("shop"), of("cp", "w", "shop"), "taken", "taken"),
            (namespace("shop", Some(&ours)), of("cp", "v", "shop"), "taken", "taken"),
            (namespace("shop", Some(&ours)), of("other", "w", "shop"), "taken", "taken"),
            (namespace("shop", Some("nonsense")), of("cp", "w", "shop"), "taken", "taken"),
            (namespace(DEFAULT, Some("nonsense")), of("cp", "w", DEFAULT), "taken", "taken"),
            // An administrator of the cluster allows it for exactly one workspace.
            (consented(plain("shop"), "w"), of("cp", "w", "shop"), "free", "free"),
            (consented(plain(DEFAULT), "w"), of("cp", "w", DEFAULT), "free", "free"),
            (consented(plain("shop"), "v"), of("cp", "w", "shop"), "taken", "taken"),
            (consented(plain(DEFAULT), "v"), of("cp", "w", DEFAULT), "free", "taken"),
            (consented(namespace("shop", Some(&ours)), "v"), of("cp", "v", "shop"), "taken", "taken"),
        ] {
            for (in_registering_workspace, expected) in [(true, of_home), (false, of_others)] {
                let ownership = match ownership_of(&found, &locator, in_registering_workspace) {
                    Ownership::Owned => "ours",
                    Ownership::Available => "free",
                    Ownership::Taken(_) => "taken",
                };
                assert_eq!(ownership, expected, "{found} {locator:?} {in_registering_workspace}");
            }
        }
    }
}
