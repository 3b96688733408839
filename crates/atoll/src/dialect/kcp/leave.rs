//! Deletion of a kcp cluster: once nothing is placed on it, everything created for it is deleted.

use std::time::Duration;

use atoll_informer::{DeleteOptions, Key, Next, Resource, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::status::Finding;
use super::{AGAIN, Dialect, FINALIZER, Subject, absent};
use crate::cluster::credential;
use crate::cluster::remove::below::{self, Leftover, Way};

/// Timeout of the cleanup in the cluster. A lost cluster never answers.
const PATIENCE: Duration = Duration::from_secs(20);

impl Dialect {
    pub(super) async fn leave(&self, subject: &Subject<'_>) -> Result<Next, Status> {
        if !object::finalizers(subject.object).any(|finalizer| finalizer == FINALIZER) {
            return Ok(Next::Done);
        }
        let cluster = self.own_cluster(subject).await?.filter(|cluster| subject.made(cluster));
        if let Some(cluster) = &cluster {
            // Cordon the cluster, so that no new objects are placed on it meanwhile.
            if cluster["spec"]["unschedulable"] != true {
                let closed = json!({ "spec": { "unschedulable": true } });
                self.world().patch(&self.own.resource, &subject.at, "", &closed).await?;
            }
            let (workspace, name) = (&subject.at.workspace, &subject.at.name);
            let placed = self.setup.registry.count_placed(workspace, name);
            if placed > 0 {
                let message = format!(
                    "it is being deleted, and {placed} objects are still placed on it; remove their labels, or remove the \
                     cluster with: atoll cluster remove {name}"
                );
                self.show(subject, Some(cluster), &Finding::not_ready("StillInUse", message)).await?;
                return Ok(Next::After(AGAIN));
            }
            self.clean(subject, cluster).await?;
            self.delete(&self.own.resource, &subject.at, object::uid(cluster)).await?;
        }
        if let Some(secret) = self.secret(subject).await? {
            let at = subject.system(object::name(&secret));
            self.delete(&resources::SECRETS, &at, object::uid(&secret)).await?;
        }
        let finalizers: Vec<&str> =
            object::finalizers(subject.object).filter(|finalizer| *finalizer != FINALIZER).collect();
        let now = absent(self.world().get(subject.resource, &subject.at).await)?;
        let Some(now) = now.filter(|now| object::uid(now) == object::uid(subject.object)) else {
            return Ok(Next::Done);
        };
        let metadata = json!({ "resourceVersion": object::resource_version(&now), "finalizers": finalizers });
        self.world().patch(subject.resource, &subject.at, "", &json!({ "metadata": metadata })).await?;
        Ok(Next::Done)
    }

    /// Deletes the objects that the join created, as far as the cluster can be reached, and the credential.
    async fn clean(&self, subject: &Subject<'_>, cluster: &Value) -> Result<(), Status> {
        let at = subject.system(&credential::secret_name(&subject.at.name));
        let secret = absent(self.world().get(&resources::SECRETS, &at).await)?;
        let Some(secret) =
            secret.filter(|secret| secret["metadata"]["labels"][credential::CLUSTER] == *subject.at.name)
        else {
            return Ok(());
        };
        let cleaning = below::clean(cluster, Way { secret: Some(&secret), admin: &None });
        let left = match tokio::time::timeout(PATIENCE, cleaning).await {
            Ok(Ok(Leftover::Nothing)) => None,
            Ok(Ok(Leftover::Some(what))) => Some(what),
            Ok(Err(failure)) => Some(failure.what),
            Err(_) => Some("the cluster does not respond in time".into()),
        };
        if let Some(left) = left {
            let name = &*subject.at.name;
            tracing::warn!(
                cluster = name,
                "some objects that the join created are left in the cluster: {left}. {}",
                below::by_hand()
            );
        }
        self.delete(&resources::SECRETS, &at, object::uid(&secret)).await
    }

    async fn delete(&self, resource: &Resource, at: &Key, uid: &str) -> Result<(), Status> {
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        absent(self.world().delete(resource, at, options).await).map(|_| ())
    }
}
