//! Clusters that joined by other means, such as `atoll cluster join`: each shows as a kcp cluster too.

use atoll_informer::{DeleteOptions, Key, Next};
use atoll_meta::{Status, object};
use atoll_registry::dialect::DialectWrite;
use serde_json::{Value, json};

use super::controller::{FINALIZER, KcpCluster, KcpController, ignore_not_found};
use super::{GROUP, KINDS, VERSION, kubeconfig};

/// Annotation of a kcp cluster: the uid of the Atoll Cluster that it shows. Only the server writes it.
pub const SHOWS: &str = "atoll.dev/shows-cluster";

/// Whether a kcp object shows a cluster that did not join with it.
pub fn is_shown(object: &Value) -> bool {
    object::annotation(object, SHOWS).is_some()
}

/// Refuses a kubeconfig for a cluster that has joined without it: its account and mode are not those of kcp.
pub fn validate(write: &DialectWrite<'_>, new: &Value) -> Result<(), Status> {
    let is_kcp = write.row.group == GROUP && KINDS.iter().any(|(plural, _)| write.row.resource == *plural);
    if !is_kcp || !is_shown(new) || kubeconfig::FIELD.secret_name(new).is_none() {
        return Ok(());
    }
    let name = object::name(new);
    let message = format!(
        "cluster {name} has joined without this kubeconfig; leave spec.kubeconfig empty, or remove the cluster first with: \
         atoll cluster remove {name}"
    );
    Err(Status::forbidden(GROUP, &write.row.resource, name, &message))
}

/// The kcp object of an Atoll Cluster.
fn shown(cluster: &Value) -> Value {
    let mut metadata = json!({
        "name": object::name(cluster), "annotations": { SHOWS: object::uid(cluster) },
    });
    if let Some(labels) = cluster["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    let (_, kind) = KINDS[0];
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": metadata,
        "spec": { "unschedulable": cluster["spec"]["unschedulable"] == true },
    })
}

impl KcpController {
    /// Creates the kcp object of an Atoll Cluster that has none.
    pub(super) async fn show(&self, at: &Key) -> Result<Next, Status> {
        if self.clusters.get(at).is_none() {
            return Ok(Next::Done);
        }
        // A cluster that was deleted with its kcp object may still be in the cache.
        let found = ignore_not_found(self.api().get(&self.clusters.resource, at).await)?;
        let Some(cluster) = found.filter(|found| !object::is_being_deleted(found)) else {
            return Ok(Next::Done);
        };
        match self.api().create(&self.kcp.resource, &at.workspace, "", &shown(&cluster)).await {
            Err(status) if status.reason() == "AlreadyExists" => Ok(Next::Done),
            created => created.map(|_| Next::Done),
        }
    }

    /// Lets a kcp object without a cluster of its own show the Atoll Cluster of its name. Returns whether the
    /// object is written, so that its change follows.
    pub(super) async fn adopt(&self, subject: &KcpCluster<'_>, cluster: &Value) -> Result<bool, Status> {
        if subject.owns(cluster) || object::is_being_deleted(cluster) {
            return Ok(false);
        }
        let metadata = json!({
            "resourceVersion": object::resource_version(subject.object),
            "annotations": { SHOWS: object::uid(cluster) },
        });
        self.api().patch(subject.resource, &subject.at, "", &json!({ "metadata": metadata })).await?;
        Ok(true)
    }

    /// Deletes a kcp object and leaves the cluster that it shows: the dialect is being disabled.
    pub(super) async fn forget(&self, subject: &KcpCluster<'_>) -> Result<Next, Status> {
        let (object, at) = (subject.object, &subject.at);
        let finalizers: Vec<&str> =
            object::finalizers(object).filter(|finalizer| *finalizer != FINALIZER).collect();
        if finalizers.len() < object::finalizers(object).count() {
            let metadata = json!({
                "resourceVersion": object::resource_version(object), "finalizers": finalizers,
            });
            self.api().patch(subject.resource, at, "", &json!({ "metadata": metadata })).await?;
        }
        let options = DeleteOptions { uid: Some(object::uid(object)), ..DeleteOptions::default() };
        ignore_not_found(self.api().delete(subject.resource, at, options).await)?;
        Ok(Next::Done)
    }

    /// Deletes a kcp object whose cluster has been removed. Returns whether it was.
    pub(super) async fn hide(
        &self,
        subject: &KcpCluster<'_>,
        cluster: Option<&Value>,
    ) -> Result<bool, Status> {
        if !is_shown(subject.object) || cluster.is_some() {
            return Ok(false);
        }
        let options = DeleteOptions { uid: Some(object::uid(subject.object)), ..DeleteOptions::default() };
        ignore_not_found(self.api().delete(subject.resource, &subject.at, options).await)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atoll_cluster_shows_with_its_labels() {
        let labels = json!({ "region": "eu" });
        let cluster = json!({
            "metadata": { "name": "east", "uid": "1", "labels": labels }, "spec": { "unschedulable": true },
        });
        let object = shown(&cluster);
        assert_eq!((&object["kind"], &object["metadata"]["labels"]), (&json!("Cluster"), &labels));
        assert_eq!(object["spec"], json!({ "unschedulable": true }));
        assert!(is_shown(&object) && !is_shown(&cluster));
        let plain = shown(&json!({ "metadata": { "name": "east", "uid": "1" } }));
        assert_eq!(plain["spec"], json!({ "unschedulable": false }));
        assert!(plain["metadata"].get("labels").is_none());
    }
}
