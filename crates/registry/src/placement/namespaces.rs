//! On which clusters there may be a namespace for one here. Noted on the Namespace as placements are, before a cluster hears of
//! anything that is in it: so it is known at its deletion, however long ago that was and whoever was away meanwhile.

use std::pin::Pin;

use atoll_fleet::Placement;
use atoll_meta::{Status, object};
use atoll_store::{Key, key};
use serde_json::Value;

use crate::Registry;
use crate::row::{Place, SharedRow};

const NAMESPACES: (&str, &str) = (key::CORE, "namespaces");

/// Whether a key is that of a Namespace.
pub fn is_namespace(parts: &key::Parts<'_>) -> bool {
    (parts.group, parts.resource) == NAMESPACES
}

impl Registry {
    /// Notes that something in a namespace is placed on the Cluster of this name and uid. Written once for each namespace and
    /// cluster.
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
        let place = Place { workspace, namespace: "", name: namespace };
        let change = |_: &Value, current: &Placement| Ok(current.with_contents_on(cluster, uid));
        self.place(&row, &place, None, false, &change).await.map(drop)
    }

    /// Takes a cluster that is no longer registered off everything that waits for it to let go, and off namespaces: no syncer
    /// will report that it has. What is placed there and not being deleted keeps its share, and its status says that there
    /// is no such cluster.
    pub(crate) fn forget_cluster<'a>(
        &'a self,
        cluster: &'a Value,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        // Boxed, for what is let go of may thereby be deleted.
        Box::pin(self.let_go_of_all(object::name(cluster), object::uid(cluster)))
    }

    async fn let_go_of_all(&self, cluster: &str, uid: &str) {
        for (key, share_uid) in self.placements.on(cluster) {
            let Some(parts) = key.parts() else { continue };
            let is_meant = match &*share_uid {
                "" => self.home_of_cluster(parts.workspace, cluster).is_none(),
                known => known == uid,
            };
            if !is_meant {
                continue;
            }
            let is_noted = is_namespace(&parts);
            let row = match is_noted {
                true => self.namespaces().map(Some),
                false => self.placeable(&key).map(|found| found.map(|(row, _)| row)),
            };
            let place = Place { workspace: parts.workspace, namespace: parts.namespace, name: parts.name };
            let change = |existing: &Value, current: &Placement| {
                let is_gone = is_noted || object::is_being_deleted(existing);
                Ok(current.let_go(cluster, &share_uid, is_gone))
            };
            let written = match row {
                Ok(Some(row)) => self.place(&row, &place, None, false, &change).await.map(drop),
                Ok(None) => Ok(()),
                Err(status) => Err(status),
            };
            if let Err(status) =
                written.or_else(|status| if status.code() == 404 { Ok(()) } else { Err(status) })
            {
                tracing::warn!(%status, object = %key, cluster, "the object still waits for a cluster that was removed; delete it again");
            }
        }
    }

    /// The same for one object that is about to be deleted, should that have been missed.
    pub(crate) fn forget_missing_clusters(&self, workspace: &str, object: &mut Value) {
        let current = Placement::of(object);
        let is_missing = |(name, uid): &(&str, &str)| self.cluster(workspace, name, uid).is_none();
        let missing: Vec<(&str, &str)> = current.spots().filter(is_missing).collect();
        if missing.is_empty() {
            return;
        }
        tracing::info!(
            name = object::name(object),
            namespace = object::namespace(object),
            ?missing,
            "clusters that are no longer registered are not waited for"
        );
        let rest = missing.iter().fold(current.clone(), |rest, (name, uid)| rest.let_go(name, uid, true));
        super::set(object, rest.text().map(Value::String));
    }

    fn namespaces(&self) -> Result<SharedRow, Status> {
        self.catalog.stored("", "namespaces").cloned().ok_or_else(Status::not_found_generic)
    }
}
