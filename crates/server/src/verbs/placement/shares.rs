//! The clusters that a Placement names.

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_meta::{FieldError, FieldPath, names, object};
use atoll_registry::Row;
use atoll_registry::placement::RegisteredCluster;
use serde_json::Value;

use super::numbers;
use crate::Server;
use crate::chain::Call;

/// Maximum number of clusters of an object.
pub const MAX_SHARES: usize = 2000;

pub struct Shares {
    pub all: Vec<Share>,
    /// Clusters that the object was not on before.
    pub new: Vec<RegisteredCluster>,
}

/// Resolves the clusters that a Placement names, or returns all errors.
pub fn read(
    server: &Server,
    row: &Row,
    call: &Call,
    wanted: &Value,
    (existing, current): (&Value, &Placement),
) -> Result<Shares, Vec<FieldError>> {
    let path = FieldPath::new("spec").child("clusters");
    let mut errors = Vec::new();
    let mut shares = Shares { all: Vec::new(), new: Vec::new() };
    let given = match &wanted["spec"]["clusters"] {
        Value::Null => &[][..],
        Value::Array(given) => given,
        other => return Err(vec![FieldError::invalid(&path, other.clone(), "must be a list")]),
    };
    // They are compared with each other.
    if given.len() > MAX_SHARES {
        return Err(vec![FieldError::too_many(&path, given.len(), MAX_SHARES)]);
    }
    let workspace = call.workspace.id().unwrap_or_default();
    for (index, share) in given.iter().enumerate() {
        let path = path.index(index);
        let name = share["name"].as_str().unwrap_or_default();
        let mut uid = share["uid"].as_str().unwrap_or_default().to_string();
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else if let Some(wrong) = names::name_is_dns_label(name, false).first() {
            errors.push(FieldError::invalid(&path.child("name"), name, wrong.clone()));
        } else if shares.all.iter().any(|other| other.name == name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        } else {
            match resolve(server, row, workspace, name, &uid, current) {
                ResolvedCluster::Kept(known) => uid = known,
                ResolvedCluster::New(registered) => {
                    match server.registry.refusal_reason(workspace, &registered) {
                        Some(reason) => errors.push(FieldError::forbidden(&path.child("name"), reason)),
                        None => {
                            uid = object::uid(&registered.cluster).to_string();
                            shares.new.push(registered);
                        }
                    }
                }
                ResolvedCluster::Unknown if uid.is_empty() => {
                    errors.push(FieldError::not_found(&path.child("name"), name));
                }
                ResolvedCluster::Unknown => {
                    errors.push(FieldError::not_found(&path.child("uid"), uid.as_str()))
                }
            }
        }
        shares.all.push(Share { uid, ..numbers::read(share, name, &path, &mut errors) });
    }
    let duplicate = &wanted["spec"]["duplicate"];
    if !duplicate.is_null() && !duplicate.is_boolean() {
        let path = FieldPath::new("spec").child("duplicate");
        errors.push(FieldError::invalid(&path, duplicate.clone(), "must be true or false"));
    }
    let is_free = *duplicate == true || wanted["spec"]["force"] == true;
    numbers::check(row, (existing, current), &shares.all, is_free, &mut errors);
    if errors.is_empty() { Ok(shares) } else { Err(errors) }
}

/// The resolution of a name in a Placement.
enum ResolvedCluster {
    /// A cluster that the object is already on, with its UID if known. It need not exist or accept new
    /// shares.
    Kept(String),
    New(RegisteredCluster),
    Unknown,
}

/// Resolves a name. A cluster serves its registering workspace and the descendants. Cluster-scoped objects
/// can only be placed from the registering workspace.
fn resolve(
    server: &Server,
    row: &Row,
    workspace: &str,
    name: &str,
    uid: &str,
    current: &Placement,
) -> ResolvedCluster {
    let in_reach = |uid: &str| {
        let found = server.registry.cluster(workspace, name, uid);
        found.filter(|found| row.namespaced || found.workspace == workspace)
    };
    if let Some(share) = current.share_of(name, uid) {
        // Without a UID in the placement, the nearest cluster of that name is meant.
        let meant = in_reach(if share.uid.is_empty() { uid } else { &share.uid });
        match (meant, in_reach("")) {
            (Some(registered), _) => {
                return ResolvedCluster::Kept(object::uid(&registered.cluster).to_string());
            }
            // The previous cluster is gone, and another one has its name.
            (None, Some(nearest)) if uid.is_empty() && !share.uid.is_empty() => {
                return ResolvedCluster::New(nearest);
            }
            (None, _) => return ResolvedCluster::Kept(share.uid.clone()),
        }
    }
    in_reach(uid).map_or(ResolvedCluster::Unknown, ResolvedCluster::New)
}
