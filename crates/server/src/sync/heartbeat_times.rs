//! The time of the last heartbeat of clusters, for tables. It comes from their Leases, because the status is
//! updated less often.

use std::sync::Arc;

use atoll_fleet::marks::{self, SYSTEM_NAMESPACE};
use atoll_meta::json;
use atoll_registry::{Listing, Row};
use atoll_store::Key;
use atoll_watch::{Object, Snapshot};
use bytes::Bytes;

use crate::chain::Call;
use crate::negotiate::Form;

/// Whether a response shows them.
pub fn are_shown(row: &Row, call: &Call) -> bool {
    row.strategy.has_heartbeats && matches!(call.output.form, Form::Table(..))
}

/// Sets the renew times of the Leases in a list of clusters.
pub fn set_heartbeat_times(listing: &mut Listing, snapshot: &Snapshot) {
    let shown: Vec<Arc<Object>> =
        listing.objects.iter().map(|object| with_renewed_status(object, snapshot)).collect();
    listing.objects = shown.into();
}

fn with_renewed_status(cluster: &Arc<Object>, snapshot: &Snapshot) -> Arc<Object> {
    match with_heartbeat_time(&cluster.json(), cluster.workspace(), cluster.name(), snapshot) {
        Some(json) => {
            Arc::new(Object::complete(cluster.key.clone(), cluster.revision, json, cluster.facts.clone()))
        }
        None => cluster.clone(),
    }
}

/// Returns the JSON of a cluster with the renew time of its Lease, if it has one.
pub fn with_heartbeat_time(
    cluster: &[u8],
    workspace: &str,
    name: &str,
    snapshot: &Snapshot,
) -> Option<Bytes> {
    let key =
        Key::object("coordination.k8s.io", "leases", workspace, SYSTEM_NAMESPACE, &marks::heartbeat(name));
    let lease = super::parse(&snapshot.get(&key)?.json()).ok()?;
    let mut cluster = super::parse(cluster).ok()?;
    let uid = atoll_meta::object::uid(&cluster).to_string();
    if !atoll_meta::object::owner_references(&lease).any(|owner| owner.uid == uid) {
        return None;
    }
    cluster["status"]["syncer"]["lastHeartbeatTime"] = lease["spec"]["renewTime"].as_str()?.into();
    Some(Bytes::from(json::to_vec(&cluster)))
}
