//! Deletion of a kcp cluster: once nothing is placed on it, everything created for it is deleted.

use std::time::Duration;

use atoll_informer::{DeleteOptions, Key, Next, Resource, resources};
use atoll_joining::cleanup::{self, Leftover};
use atoll_joining::credential;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::controller::{FINALIZER, KcpCluster, KcpController, RETRY_INTERVAL, ignore_not_found};
use super::status::Readiness;
use crate::placed;

/// Timeout of the cleanup in the cluster. A lost cluster never responds.
const TIMEOUT: Duration = Duration::from_secs(20);

impl KcpController {
    pub(super) async fn finalize(&self, subject: &KcpCluster<'_>) -> Result<Next, Status> {
        if !object::finalizers(subject.object).any(|finalizer| finalizer == FINALIZER) {
            return Ok(Next::Done);
        }
        let cluster = self.atoll_cluster(subject).await?.filter(|cluster| subject.owns(cluster));
        if let Some(cluster) = &cluster {
            // Cordon the cluster, so that no new objects are placed on it meanwhile.
            if cluster["spec"]["unschedulable"] != true {
                let closed = json!({ "spec": { "unschedulable": true } });
                self.api().patch(&self.clusters.resource, &subject.at, "", &closed).await?;
            }
            let name = &subject.at.name;
            let placed = placed::list(self.api(), &subject.at).await?.len();
            if placed > 0 {
                let message = format!(
                    "it is being deleted, and {placed} objects are still placed on it; remove their labels, or remove the \
                     cluster with: atoll cluster remove {name}"
                );
                self.update_status(subject, Some(cluster), &Readiness::not_ready("StillInUse", message))
                    .await?;
                return Ok(Next::After(RETRY_INTERVAL));
            }
            self.clean(subject, cluster).await?;
            self.delete(&self.clusters.resource, &subject.at, object::uid(cluster)).await?;
        }
        if let Some(secret) = self.secret(subject).await? {
            let at = subject.system_key(object::name(&secret));
            self.delete(&resources::SECRETS, &at, object::uid(&secret)).await?;
        }
        let finalizers: Vec<&str> =
            object::finalizers(subject.object).filter(|finalizer| *finalizer != FINALIZER).collect();
        let now = ignore_not_found(self.api().get(subject.resource, &subject.at).await)?;
        let Some(now) = now.filter(|now| object::uid(now) == object::uid(subject.object)) else {
            return Ok(Next::Done);
        };
        let metadata = json!({ "resourceVersion": object::resource_version(&now), "finalizers": finalizers });
        self.api().patch(subject.resource, &subject.at, "", &json!({ "metadata": metadata })).await?;
        Ok(Next::Done)
    }

    /// Deletes the objects that the join created, as far as the cluster can be reached, and the credential.
    async fn clean(&self, subject: &KcpCluster<'_>, cluster: &Value) -> Result<(), Status> {
        let at = subject.system_key(&credential::secret_name(&subject.at.name));
        let secret = ignore_not_found(self.api().get(&resources::SECRETS, &at).await)?;
        let Some(secret) =
            secret.filter(|secret| secret["metadata"]["labels"][credential::CLUSTER] == *subject.at.name)
        else {
            return Ok(());
        };
        let cleaning = async {
            // A tenant can write the Secret.
            let api = cleanup::connect(Some(&secret))?.restricted(&self.tenant_addresses(subject));
            cleanup::clean(cluster, &api).await
        };
        let left = match tokio::time::timeout(TIMEOUT, cleaning).await {
            Ok(Ok(Leftover::Nothing)) => None,
            Ok(Ok(Leftover::Some(what))) => Some(what),
            Ok(Err(failure)) => Some(failure.message),
            Err(_) => Some("the cluster does not respond in time".into()),
        };
        if let Some(left) = left {
            let name = &*subject.at.name;
            tracing::warn!(
                cluster = name,
                "some objects that the join created are left in the cluster: {left}. {}",
                cleanup::manual_cleanup()
            );
        }
        self.delete(&resources::SECRETS, &at, object::uid(&secret)).await
    }

    async fn delete(&self, resource: &Resource, at: &Key, uid: &str) -> Result<(), Status> {
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        ignore_not_found(self.api().delete(resource, at, options).await).map(|_| ())
    }
}
