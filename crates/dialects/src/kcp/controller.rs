//! The controller of kcp clusters: it creates an Atoll Cluster for each kcp cluster and reflects its status.
//!
//! ```text
//!   Cluster, WorkloadCluster (workload.kcp.dev) ─► join: account below, Secret and Cluster above; the kubeconfig is deleted
//!   Cluster (atoll.dev) ─┬─► status of the kcp cluster: Ready, capacity
//!                        └─► without a kcp cluster: one that shows it, and disappears with it
//!   evictAfter is over ─► the cluster is cordoned and tainted, and placements without a scheduler are removed
//!   deleted ─► wait until nothing is placed there ─► delete what the join created ─► remove the finalizer
//! ```
//!
//! The kcp object is the desired state; the Atoll Cluster is created from it, and both are deleted together.

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{ApiScope, Cache, Key, Next, Queue, Resource, resources};
use atoll_joining::credential;
use atoll_meta::{Status, object};
use atoll_registry::dialect::sealing::LABEL;
use serde_json::{Value, json};

use super::shown::{self, SHOWS};
use super::status::{self, Readiness};
use super::{GROUP, KINDS, NAME, VERSION, evict, kubeconfig};
use crate::ControllerContext;

/// Annotation of an Atoll Cluster: the dialect's object it was created from.
pub(super) const MADE_FROM: &str = "atoll.dev/made-from";
/// Finalizer of kcp clusters, kept until everything created for them is deleted.
pub(super) const FINALIZER: &str = "atoll.dev/kcp";

const WORKERS: usize = 8;
/// Retry interval for a cluster that could not join or is still in use.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct KcpController {
    pub(super) context: ControllerContext,
    /// Cache of the stored kind.
    pub(super) kcp: Arc<Cache>,
    pub(super) clusters: Arc<Cache>,
}

/// The kind under which objects of both names are stored.
fn stored() -> Resource {
    let (plural, kind) = KINDS[0];
    Resource {
        group: GROUP.into(),
        version: VERSION.into(),
        plural: plural.into(),
        kind: kind.into(),
        namespaced: false,
    }
}

/// Runs the controller until it is dropped.
pub async fn run(context: ControllerContext) {
    let queue = Queue::new();
    let kcp = context.informers.of(&stored());
    let wakeup = queue.clone();
    kcp.listen(move |change| wakeup.add(change.key.clone()));
    let clusters = context.informers.of(&resources::CLUSTERS);
    let (wakeup, enabled) = (queue.clone(), context.enabled.clone());
    clusters.listen(move |change| {
        if enabled.is_used(NAME) {
            wakeup.add(change.key.clone());
        }
    });
    for cache in [&kcp, &clusters] {
        cache.synced().await;
    }
    let mut changes = context.enabled.subscribe();
    context.enabled.synced().await;
    let dialect = Arc::new(KcpController { context, kcp, clusters });
    let (controller, wakeup) = (dialect.clone(), queue.clone());
    // Objects may be seen before the dialect is known to be enabled.
    let enabling = async move {
        loop {
            for cache in [&controller.kcp, &controller.clusters] {
                cache.all().iter().for_each(|object| wakeup.add(Key::of(object)));
            }
            if changes.changed().await.is_err() {
                break;
            }
        }
    };
    let working = queue.work("clusters of kcp", WORKERS, move |key| {
        let dialect = dialect.clone();
        async move { dialect.sync(&key).await }
    });
    tokio::join!(working, enabling);
}

impl KcpController {
    pub(super) fn api(&self) -> &ApiScope {
        self.context.api()
    }

    async fn sync(&self, at: &Key) -> Result<Next, Status> {
        // A workspace that is not known yet is an error, and retried.
        self.api().root(&at.workspace)?;
        // The dialect was disabled: keep the object and do nothing.
        if !self.context.is_enabled(&at.workspace) {
            return Ok(Next::Done);
        }
        let is_leaving = self.context.enabled.is_leaving(self.api(), &at.workspace, NAME);
        let Some(found) = self.kcp.get(at) else {
            return if is_leaving { Ok(Next::Done) } else { self.show(at).await };
        };
        let subject = KcpCluster { resource: &self.kcp.resource, at: at.clone(), object: &found };
        let outcome = match object::is_being_deleted(&found) {
            _ if is_leaving && shown::is_shown(&found) => self.forget(&subject).await,
            true => self.finalize(&subject).await,
            false => self.reconcile(&subject).await,
        };
        match outcome {
            // Another writer was faster; its change is observed as well.
            Err(status) if matches!(status.reason(), "Conflict" | "NotFound" | "AlreadyExists") => {
                Ok(Next::Again)
            }
            outcome => outcome,
        }
    }

    /// Joins the cluster if it has a kubeconfig, and updates its status.
    async fn reconcile(&self, subject: &KcpCluster<'_>) -> Result<Next, Status> {
        if !object::finalizers(subject.object).any(|finalizer| finalizer == FINALIZER) {
            let mut finalizers: Vec<&str> = object::finalizers(subject.object).collect();
            finalizers.push(FINALIZER);
            let metadata = json!({
                "resourceVersion": object::resource_version(subject.object), "finalizers": finalizers,
            });
            self.api().patch(subject.resource, &subject.at, "", &json!({ "metadata": metadata })).await?;
            return Ok(Next::Done);
        }
        let secret = self.secret(subject).await?;
        let kubeconfig = secret.as_ref().and_then(credential::kubeconfig_from_secret);
        let mut cluster = self.atoll_cluster(subject).await?;
        let mut readiness = None;
        if self.hide(subject, cluster.as_ref()).await? {
            return Ok(Next::Done);
        }
        if let (None, Some(cluster)) = (&kubeconfig, &cluster)
            && self.adopt(subject, cluster).await?
        {
            return Ok(Next::Done);
        }
        if let Some(kubeconfig) = kubeconfig {
            match self.join(subject, &kubeconfig, cluster.as_ref()).await {
                Ok(joined) => {
                    self.delete_kubeconfig(subject, secret.as_ref(), &kubeconfig).await?;
                    cluster = Some(joined);
                }
                Err(problem) => readiness = Some(problem),
            }
        }
        let mut again = readiness.is_some().then_some(RETRY_INTERVAL);
        let made = cluster.filter(|cluster| subject.owns(cluster));
        if let Some(cluster) = &made {
            let left = evict::time_left(subject.object, self.context.clock.now().seconds);
            let is_over = left.is_some_and(|left| left.is_zero());
            self.sync_taint(subject, cluster, is_over).await?;
            self.sync_unschedulable(subject, cluster, is_over).await?;
            if let Some(left) = left {
                let next = self.evict(subject, cluster, left).await?;
                again = Some(again.map_or(next, |again| again.min(next)));
            }
        }
        let readiness = readiness.unwrap_or_else(|| Readiness::of(made.as_ref()));
        self.update_status(subject, made.as_ref(), &readiness).await?;
        Ok(again.map_or(Next::Done, Next::After))
    }

    /// The Atoll Cluster of the same name, read from the server.
    pub(super) async fn atoll_cluster(&self, subject: &KcpCluster<'_>) -> Result<Option<Value>, Status> {
        ignore_not_found(self.api().get(&self.clusters.resource, &subject.at).await)
    }

    /// The Secret with the kubeconfig, which may already be deleted from it.
    pub(super) async fn secret(&self, subject: &KcpCluster<'_>) -> Result<Option<Value>, Status> {
        let Some(name) = kubeconfig::FIELD.secret_name(subject.object) else { return Ok(None) };
        let found = ignore_not_found(self.api().get(&resources::SECRETS, &subject.system_key(name)).await)?;
        // Ignore any other Secret that the object may name.
        Ok(found.filter(|secret| secret["metadata"]["labels"][LABEL] == NAME))
    }

    /// Deletes a used kubeconfig from the Secret, and keeps only a digest to recognize it.
    async fn delete_kubeconfig(
        &self,
        subject: &KcpCluster<'_>,
        secret: Option<&Value>,
        used: &str,
    ) -> Result<(), Status> {
        let Some(secret) = secret else { return Ok(()) };
        let mut data = kubeconfig::digest(used)?;
        data[kubeconfig::KUBECONFIG] = Value::Null;
        let patch = json!({
            "metadata": { "resourceVersion": object::resource_version(secret) }, "data": data,
        });
        self.api()
            .patch(&resources::SECRETS, &subject.system_key(object::name(secret)), "", &patch)
            .await
            .map(|_| ())
    }

    /// Applies the kcp object's `unschedulable` and its expired `evictAfter` to the Atoll Cluster.
    async fn sync_unschedulable(
        &self,
        subject: &KcpCluster<'_>,
        cluster: &Value,
        is_over: bool,
    ) -> Result<(), Status> {
        let wanted = is_over || subject.object["spec"]["unschedulable"] == true;
        let Some(followed) = status::follow_unschedulable(cluster, wanted) else { return Ok(()) };
        self.api().patch(&self.clusters.resource, &subject.at, "", &followed).await.map(|_| ())
    }

    pub(super) async fn update_status(
        &self,
        subject: &KcpCluster<'_>,
        cluster: Option<&Value>,
        readiness: &Readiness,
    ) -> Result<(), Status> {
        let now = self.context.clock.now().to_time();
        let Some(status) = status::new_status(&subject.object["status"], cluster, readiness, &now) else {
            return Ok(());
        };
        let mut changed = subject.object.clone();
        changed["status"] = status;
        self.api().update_status(subject.resource, &changed).await.map(|_| ())
    }
}

/// The kcp object that is reconciled.
pub(super) struct KcpCluster<'a> {
    pub(super) resource: &'a Resource,
    pub(super) at: Key,
    pub(super) object: &'a Value,
}

impl KcpCluster<'_> {
    /// The value of the annotation `atoll.dev/made-from`.
    pub(super) fn origin(&self) -> String {
        format!("{GROUP}/{}/{}", self.resource.plural, object::uid(self.object))
    }

    /// Whether an Atoll Cluster was created from this object, or is shown by it.
    pub(super) fn owns(&self, cluster: &Value) -> bool {
        object::annotation(cluster, MADE_FROM) == Some(&self.origin())
            || object::annotation(self.object, SHOWS) == Some(object::uid(cluster))
    }

    /// The key of an object in Atoll's own namespace.
    pub(super) fn system_key(&self, name: &str) -> Key {
        Key::new(&self.at.workspace, atoll_fleet::marks::SYSTEM_NAMESPACE, name)
    }
}

/// Maps NotFound to `None`.
pub(super) fn ignore_not_found(found: Result<Value, Status>) -> Result<Option<Value>, Status> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(status) if status.reason() == "NotFound" => Ok(None),
        Err(status) => Err(status),
    }
}
