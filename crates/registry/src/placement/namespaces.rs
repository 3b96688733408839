//! The clusters on which a namespace may exist. They are recorded on the Namespace like a placement before
//! the syncer of a cluster learns of any object in it, so that they are known when the Namespace is deleted,
//! however late that is.

use std::pin::Pin;

use atoll_fleet::Placement;
use atoll_meta::{Status, object};
use atoll_store::{Key, key};
use serde_json::Value;

use crate::row::{ObjectRef, SharedRow};
use crate::{NoAdmission, Registry};

const NAMESPACES: (&str, &str) = (key::CORE, "namespaces");

/// Whether a key is the key of a Namespace.
pub fn is_namespace(parts: &key::Parts<'_>) -> bool {
    (parts.group, parts.resource) == NAMESPACES
}

impl Registry {
    /// Records that an object in a namespace is placed on the Cluster of this name and uid. Written once for
    /// each namespace and cluster.
    pub async fn place_namespace(
        &self,
        workspace: &str,
        namespace: &str,
        cluster: &str,
        uid: &str,
    ) -> Result<(), Status> {
        if self.placements.is_on(cluster, uid, &Key::object("", "namespaces", workspace, "", namespace)) {
            return Ok(());
        }
        let row = self.namespaces()?;
        let object_ref = ObjectRef { workspace, namespace: "", name: namespace };
        let change = |_: &Value, current: &Placement| Ok(current.with_contents_on(cluster, uid));
        self.place(&row, &object_ref, None, false, &NoAdmission, &change).await.map(drop)
    }

    /// Removes an unregistered cluster from all objects that are leaving it, and from namespaces, because no
    /// syncer will confirm the deletion. Placed objects that are not being deleted keep their share, and
    /// their status says that the cluster does not exist.
    pub(crate) fn remove_unregistered_cluster<'a>(
        &'a self,
        cluster: &'a Value,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        // Boxed because of recursion: removing the cluster may delete the object.
        Box::pin(self.remove_from_leaving_objects(object::name(cluster), object::uid(cluster)))
    }

    async fn remove_from_leaving_objects(&self, cluster: &str, uid: &str) {
        for (key, share_uid) in self.placements.on(cluster) {
            let Some(parts) = key.parts() else { continue };
            let is_meant = match &*share_uid {
                "" => self.registering_workspace_of(parts.workspace, cluster).is_none(),
                known => known == uid,
            };
            if !is_meant {
                continue;
            }
            let is_noted = is_namespace(&parts);
            let row = match is_noted {
                true => self.namespaces().map(Some),
                false => self.placeable_object(&key).map(|found| found.map(|(row, _)| row)),
            };
            let object_ref =
                ObjectRef { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
            let change = |existing: &Value, current: &Placement| {
                let is_gone = is_noted || object::is_being_deleted(existing);
                Ok(current.confirm_removed(cluster, &share_uid, is_gone))
            };
            let written = match row {
                Ok(Some(row)) => {
                    self.place(&row, &object_ref, None, false, &NoAdmission, &change).await.map(drop)
                }
                Ok(None) => Ok(()),
                Err(status) => Err(status),
            };
            if let Err(status) =
                written.or_else(|status| if status.code() == 404 { Ok(()) } else { Err(status) })
            {
                tracing::warn!(%status, object = %key, cluster, "cannot remove an unregistered cluster from the placement of an object; delete the object again");
            }
        }
    }

    /// Removes unregistered clusters from one object that is about to be deleted, in case that was missed.
    pub(crate) fn remove_missing_clusters(&self, workspace: &str, object: &mut Value) {
        let current = Placement::of(object);
        let is_missing = |(name, uid): &(&str, &str)| self.cluster(workspace, name, uid).is_none();
        let missing: Vec<(&str, &str)> = current.cluster_refs().filter(is_missing).collect();
        if missing.is_empty() {
            return;
        }
        tracing::info!(
            name = object::name(object),
            namespace = object::namespace(object),
            ?missing,
            "deleting an object without waiting for clusters that are no longer registered"
        );
        let rest =
            missing.iter().fold(current.clone(), |rest, (name, uid)| rest.confirm_removed(name, uid, true));
        super::set(object, rest.text().map(Value::String));
    }

    fn namespaces(&self) -> Result<SharedRow, Status> {
        self.catalog.stored("", "namespaces").cloned().ok_or_else(Status::not_found_generic)
    }
}
