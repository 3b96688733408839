//! Simulated storage provisioner: creates a volume when a claim waits for this provisioner and, if the class
//! requires it, has a selected node. Deletes released volumes if the reclaim policy is Delete.

mod volume;

use std::sync::Arc;

use atoll_informer::{Cache, Clock, DeleteOptions, Events, Informers, Key, Next, Queue, Recorder, resources};
use atoll_meta::{Status, object};
use serde_json::json;

pub use self::volume::PROVISIONER;
use self::volume::{SELECTED_NODE, VolumeRequest};

/// Number of claims that are processed concurrently.
const WORKERS: usize = 16;

struct Provisioner {
    informers: Arc<Informers>,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    classes: Arc<Cache>,
    nodes: Arc<Cache>,
    recorder: Recorder,
}

/// Creates and deletes volumes for as long as it is polled.
pub async fn run(informers: Arc<Informers>, clock: Arc<dyn Clock>) {
    let events = Events::new(informers.api().clone(), clock);
    let provisioner = Arc::new(Provisioner {
        claims: informers.of(&resources::PERSISTENT_VOLUME_CLAIMS),
        volumes: informers.of(&resources::PERSISTENT_VOLUMES),
        classes: informers.of(&resources::STORAGE_CLASSES),
        nodes: informers.of(&resources::NODES),
        recorder: events.recorder(PROVISIONER),
        informers,
    });
    for cache in [&provisioner.claims, &provisioner.volumes, &provisioner.classes, &provisioner.nodes] {
        cache.synced().await;
    }
    // One queue suffices, because volumes have no namespace.
    let queue = Queue::new();
    for cache in [&provisioner.claims, &provisioner.volumes] {
        let adding = queue.clone();
        cache.listen(move |change| adding.add(change.key.clone()));
    }
    let (classes, adding) = (provisioner.clone(), queue.clone());
    provisioner.classes.listen(move |_| {
        for claim in classes.claims.all() {
            adding.add(Key::of(&claim));
        }
    });
    queue
        .work("simulated storage", WORKERS, |key| {
            let provisioner = provisioner.clone();
            async move {
                match key.namespace.is_empty() {
                    true => provisioner.sync_volume(&key).await,
                    false => provisioner.sync_claim(&key).await,
                }
            }
        })
        .await;
}

impl Provisioner {
    async fn sync_claim(&self, key: &Key) -> Result<Next, Status> {
        let Some(claim) = self.claims.get(key) else { return Ok(Next::Done) };
        let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
        let class = self.classes.get(&Key::new("", "", class));
        let (kind, api) = (&resources::PERSISTENT_VOLUME_CLAIMS, self.informers.api());
        let (class, node) = match volume::request_of(&claim, class.as_deref()) {
            VolumeRequest::Nothing => return Ok(Next::Done),
            VolumeRequest::InAnyZone(class) => (class, None),
            VolumeRequest::ForNode(class, node) => match self.nodes.get(&Key::new("", "", node)) {
                Some(node) => (class, Some(node)),
                // The selected node does not exist: let the scheduler select another one.
                None => {
                    let patch = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
                    self.claims.wrote(&api.patch(kind, key, "", &patch).await?);
                    return Ok(Next::Done);
                }
            },
        };
        let made = volume::new_volume(&claim, class, node.as_deref());
        let name = object::name(&made);
        if self.volumes.get(&Key::new("", "", name)).is_some() {
            return Ok(Next::Done);
        }
        let message = format!(
            "External provisioner is provisioning volume for claim \"{}/{}\"",
            key.namespace, key.name
        );
        self.recorder.normal(kind, &claim, "Provisioning", message);
        match api.create(&resources::PERSISTENT_VOLUMES, "", "", &made).await {
            Ok(written) => self.volumes.wrote(&written),
            Err(status) if status.reason() == "AlreadyExists" => return Ok(Next::Done),
            Err(status) => {
                let message = format!(
                    "failed to provision volume with StorageClass \"{}\": {}",
                    object::name(class),
                    status.message()
                );
                self.recorder.warning(kind, &claim, "ProvisioningFailed", message);
                return Err(status);
            }
        }
        let message = format!("Successfully provisioned volume {name}");
        self.recorder.normal(kind, &claim, "ProvisioningSucceeded", message);
        Ok(Next::Done)
    }

    async fn sync_volume(&self, key: &Key) -> Result<Next, Status> {
        let Some(found) = self.volumes.get(key).filter(|found| volume::is_deletable(found)) else {
            return Ok(Next::Done);
        };
        let uid = object::uid(&found);
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        match self.informers.api().delete(&resources::PERSISTENT_VOLUMES, key, options).await {
            Err(status) if !matches!(status.reason(), "NotFound" | "Conflict") => Err(status),
            _ => Ok(Next::Done),
        }
    }
}
