//! PersistentVolume controller: binds volume claims to volumes, and releases volumes when their claims are
//! deleted.
//!
//! ```text
//!   PersistentVolumeClaims, StorageClasses ─► queue of claims ──► claims ──► bind, class, provisioner, phase
//!                                                  ▲  │              ▲
//!                                                  │  ▼              └── matching: volume for a claim
//!   PersistentVolumes ──────────────────────► queue of volumes ─► volumes ─► phase, release, unbind
//! ```
//!
//! Provisioners create and delete volumes; this controller only requests that by annotations on claims.
//!
//! A volume has no namespace. Where only some workloads have their pods created here, a volume is managed
//! once one of their claims could use it. Other volumes are left to the clusters where they are placed.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go
// upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go

mod claims;
mod matching;
mod scope;
mod volumes;

use std::sync::Arc;

use atoll_informer::{Cache, DeleteOptions, Key, Next, Queue, Recorder, Resource, resources};
use atoll_meta::views::PodView;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::context::{Context, WorkloadScope};
use crate::shared::pods;
use claims::{BIND_COMPLETED, BOUND_BY_CONTROLLER, ClaimEvent, Observed};
use volumes::Reclaim;

/// Number of claims or volumes that are processed concurrently.
const WORKERS: usize = 4;
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

pub async fn run(context: Context) {
    let claims = context.informers.of(&resources::PERSISTENT_VOLUME_CLAIMS);
    let pods = context.informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        volumes: context.informers.of(&resources::PERSISTENT_VOLUMES),
        classes: context.informers.of(&resources::STORAGE_CLASSES),
        unbound: claims.index(unbound),
        by_claim: pods.index(by_claim),
        claims,
        pods,
        claim_queue: Queue::new(),
        volume_queue: Queue::new(),
        recorder: context.events.recorder("persistentvolume-controller"),
        context,
    });
    for cache in [&controller.volumes, &controller.claims, &controller.classes, &controller.pods] {
        cache.synced().await;
    }
    controller.listen();
    let on_claims = {
        let working = controller.clone();
        controller.claim_queue.work("claims", WORKERS, move |key| {
            let controller = working.clone();
            async move { controller.sync_claim(&key).await }
        })
    };
    let on_volumes = {
        let working = controller.clone();
        controller.volume_queue.work("volumes", WORKERS, move |key| {
            let controller = working.clone();
            async move { controller.sync_volume(&key).await }
        })
    };
    // Waiting claims are synced periodically, because pods that need them come and go without an event for
    // the claim.
    let periodic_syncs = async {
        loop {
            tokio::time::sleep(controller.context.settings.volume_sync_period).await;
            for claim in controller.claims.all().iter().filter(|claim| !unbound(claim).is_empty()) {
                controller.claim_queue.add(Key::of(claim));
            }
        }
    };
    tokio::join!(on_claims, on_volumes, periodic_syncs);
}

/// Index of claims without a volume, by workspace.
fn unbound(claim: &Value) -> Vec<String> {
    match object::annotation(claim, BIND_COMPLETED) {
        None => vec![Key::of(claim).workspace.to_string()],
        Some(_) => Vec::new(),
    }
}

/// Index of pods by the claims that they use.
fn by_claim(pod: &Value) -> Vec<String> {
    claims_of(pod).iter().map(Key::to_string).collect()
}

fn claims_of(pod: &Value) -> Vec<Key> {
    let key = Key::of(pod);
    PodView::of(pod).claim_names().map(|claim| key.sibling(&claim)).collect()
}

struct Controller {
    volumes: Arc<Cache>,
    claims: Arc<Cache>,
    classes: Arc<Cache>,
    pods: Arc<Cache>,
    unbound: usize,
    by_claim: usize,
    claim_queue: Queue,
    volume_queue: Queue,
    recorder: Recorder,
    context: Context,
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let on_claim = self.clone();
        self.claims.listen(move |change| {
            on_claim.claim_queue.add(change.key.clone());
            if let Some(volume) = change.object()["spec"]["volumeName"].as_str() {
                on_claim.volume_queue.add(change.key.in_workspace(volume));
            }
        });
        let on_volume = self.clone();
        self.volumes.listen(move |change| {
            on_volume.volume_queue.add(change.key.clone());
            let volume = change.object();
            match claim_key(&change.key, volume) {
                Some(claim) => on_volume.claim_queue.add(claim),
                // A pending claim may be waiting for this volume.
                None => on_volume.enqueue_unbound_claims(&change.key.workspace),
            }
        });
        let on_class = self.clone();
        self.classes.listen(move |change| on_class.enqueue_unbound_claims(&change.key.workspace));
        if self.context.workloads == WorkloadScope::PodGrain {
            let on_pod = self.clone();
            self.pods.listen(move |change| {
                if change.old.is_none() {
                    claims_of(change.object()).into_iter().for_each(|claim| on_pod.claim_queue.add(claim));
                }
            });
        }
    }

    fn enqueue_unbound_claims(&self, workspace: &str) {
        for claim in self.claims.by_index(self.unbound, workspace) {
            self.claim_queue.add(Key::of(&claim));
        }
    }

    async fn sync_claim(&self, key: &Key) -> Result<Next, Status> {
        let Some(claim) = self.claims.get(key).filter(|claim| self.manages_claim(claim)) else {
            return Ok(Next::Done);
        };
        if !unbound(&claim).is_empty() {
            self.enqueue_unmanaged_volumes(&key.workspace);
        }
        let waiting = self.pods.by_index(self.by_claim, &key.to_string());
        let waiting =
            waiting.iter().filter(|pod| !pods::is_terminal(pod) && PodView::of(pod).node_name().is_none());
        let waiting: Vec<String> = waiting.map(|pod| object::name(pod).to_string()).collect();
        let observed = Observed {
            claim: &claim,
            volumes: &self.volumes.list(&key.workspace, ""),
            classes: &self.classes.list(&key.workspace, ""),
            pods: &waiting,
        };
        match claims::decide(&observed).map_err(Status::plain_internal)? {
            claims::ClaimDecision::Bind(volume) => self.bind(&volume, claim).await?,
            claims::ClaimDecision::Pending(event) => {
                if let Some(event) = event {
                    self.record(&claim, event);
                }
                self.write_claim_status(claims::with_status(&claim, "Pending", None)).await?;
            }
            claims::ClaimDecision::AssignClass(class) => {
                let mut updated = claim.as_ref().clone();
                updated["spec"]["storageClassName"] = class.into();
                self.write(&self.claims, &updated).await?;
            }
            claims::ClaimDecision::Provision(provisioner) => self.provision(claim, &provisioner).await?,
            claims::ClaimDecision::Lost(event) => {
                if claim["status"]["phase"] != "Lost" {
                    self.write_claim_status(claims::with_status(&claim, "Lost", None)).await?;
                    self.record(&claim, event);
                }
            }
            claims::ClaimDecision::RecordOnly(event) => self.record(&claim, event),
            claims::ClaimDecision::Inconsistent(event, problem) => {
                self.record(&claim, event);
                return Err(Status::plain_internal(problem));
            }
        }
        Ok(Next::Done)
    }

    /// Binds the volume first: after a partial failure, the next sync can continue from there.
    async fn bind(&self, volume: &Arc<Value>, claim: Arc<Value>) -> Result<(), Status> {
        let mut volume = volume.clone();
        if let Some(bound) = volumes::bound_to(&volume, &claim) {
            volume = self.write(&self.volumes, &bound).await?;
        }
        volume = self.write_phase(volume, "Bound", "").await?;
        let mut claim = claim;
        let mut updated = claim.as_ref().clone();
        if updated["spec"]["volumeName"] != object::name(&volume) {
            updated["spec"]["volumeName"] = object::name(&volume).into();
            if object::annotation(&claim, BOUND_BY_CONTROLLER).is_none() {
                object::set_annotation(&mut updated, BOUND_BY_CONTROLLER, "yes");
            }
        }
        if object::annotation(&claim, BIND_COMPLETED).is_none() {
            object::set_annotation(&mut updated, BIND_COMPLETED, "yes");
        }
        if updated != *claim {
            claim = self.write(&self.claims, &updated).await?;
        }
        self.write_claim_status(claims::with_status(&claim, "Bound", Some(&volume))).await
    }

    async fn provision(&self, mut claim: Arc<Value>, provisioner: &str) -> Result<(), Status> {
        if object::annotation(&claim, PROVISIONER) != Some(provisioner) {
            let mut updated = claim.as_ref().clone();
            object::set_annotation(&mut updated, BETA_PROVISIONER, provisioner);
            object::set_annotation(&mut updated, PROVISIONER, provisioner);
            claim = self.write(&self.claims, &updated).await?;
        }
        let kind = &resources::PERSISTENT_VOLUME_CLAIMS;
        self.recorder.normal(kind, &claim, "ExternalProvisioning", claims::provisioning(provisioner));
        Ok(())
    }

    async fn sync_volume(&self, key: &Key) -> Result<Next, Status> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Next::Done) };
        let claim = self.claim_of(key, &volume).await?;
        if !self.manages_volume(&volume, claim.as_deref()) {
            return Ok(Next::Done);
        }
        match volumes::decide(&volume, claim.as_ref()) {
            volumes::VolumeDecision::Available => drop(self.write_phase(volume, "Available", "").await?),
            volumes::VolumeDecision::Bound => drop(self.write_phase(volume, "Bound", "").await?),
            volumes::VolumeDecision::EnqueueClaim => {
                if let Some(claim) = claim {
                    self.claim_queue.add(Key::of(&claim));
                }
            }
            volumes::VolumeDecision::Mismatch(claim) => {
                let (volumes, claims) =
                    (&resources::PERSISTENT_VOLUMES, &resources::PERSISTENT_VOLUME_CLAIMS);
                let message = format!(
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{}\" due to incompatible volumeMode.",
                    object::name(&claim)
                );
                self.recorder.warning(volumes, &volume, "VolumeMismatch", message);
                let message = format!(
                    "Cannot bind PersistentVolume \"{}\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
                    key.name
                );
                self.recorder.warning(claims, &claim, "VolumeMismatch", message);
            }
            volumes::VolumeDecision::Released => self.release(key, volume).await?,
            volumes::VolumeDecision::Unbind => {
                let free = self.write(&self.volumes, &volumes::unbound(&volume)).await?;
                self.write_phase(free, "Available", "").await?;
            }
        }
        Ok(Next::Done)
    }

    async fn release(&self, key: &Key, mut volume: Arc<Value>) -> Result<(), Status> {
        let kind = &resources::PERSISTENT_VOLUMES;
        // A failed volume stays failed.
        if volume["status"]["phase"] != "Failed" {
            volume = self.write_phase(volume, "Released", "").await?;
        }
        match volumes::reclaim(&volume) {
            Reclaim::Nothing => {}
            Reclaim::Delete => {
                let uid = object::uid(&volume);
                let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
                match self.context.api().delete(kind, key, options).await {
                    Ok(_) => self.volumes.deleting(key, uid),
                    Err(status) if status.reason() == "NotFound" => {}
                    Err(status) => return Err(status),
                }
            }
            Reclaim::Failed(reason, message) => {
                if volume["status"]["phase"] != "Failed" {
                    volume = self.write_phase(volume, "Failed", &message).await?;
                    self.recorder.warning(kind, &volume, reason, message);
                }
            }
        }
        Ok(())
    }

    /// Returns the claim that a volume refers to. Reads it from the API before a volume is released.
    async fn claim_of(&self, key: &Key, volume: &Value) -> Result<Option<Arc<Value>>, Status> {
        let Some(place) = claim_key(key, volume) else { return Ok(None) };
        let uid = volume["spec"]["claimRef"]["uid"].as_str().unwrap_or_default();
        let found = self.claims.get(&place);
        let is_it = found.as_ref().is_some_and(|claim| object::uid(claim) == uid);
        let is_settled = matches!(volume["status"]["phase"].as_str(), Some("Released" | "Failed"));
        if is_it || uid.is_empty() || (found.is_none() && is_settled) {
            return Ok(found);
        }
        match self.context.api().get(&resources::PERSISTENT_VOLUME_CLAIMS, &place).await {
            Ok(claim) => Ok(Some(Arc::new(claim))),
            Err(status) if status.reason() == "NotFound" => Ok(None),
            Err(status) => Err(status),
        }
    }

    fn record(&self, claim: &Value, event: ClaimEvent) {
        let kind = &resources::PERSISTENT_VOLUME_CLAIMS;
        match event.warning {
            true => self.recorder.warning(kind, claim, event.reason, event.message),
            false => self.recorder.normal(kind, claim, event.reason, event.message),
        }
    }

    async fn write(&self, cache: &Cache, object: &Value) -> Result<Arc<Value>, Status> {
        let written = self.context.api().update(&cache.resource, object).await?;
        cache.wrote(&written);
        Ok(Arc::new(written))
    }

    async fn write_status(&self, cache: &Cache, object: &Value) -> Result<Arc<Value>, Status> {
        let resource: &Resource = &cache.resource;
        let written = self.context.api().update_status(resource, object).await?;
        cache.wrote(&written);
        Ok(Arc::new(written))
    }

    async fn write_phase(
        &self,
        volume: Arc<Value>,
        phase: &str,
        message: &str,
    ) -> Result<Arc<Value>, Status> {
        match volumes::with_phase(&volume, phase, message) {
            None => Ok(volume),
            Some(updated) => self.write_status(&self.volumes, &updated).await,
        }
    }

    async fn write_claim_status(&self, updated: Option<Value>) -> Result<(), Status> {
        if let Some(updated) = updated {
            self.write_status(&self.claims, &updated).await?;
        }
        Ok(())
    }
}

/// Returns the key of the claim that a volume refers to.
fn claim_key(volume_key: &Key, volume: &Value) -> Option<Key> {
    let reference = &volume["spec"]["claimRef"];
    let (namespace, name) = (reference["namespace"].as_str()?, reference["name"].as_str()?);
    Some(Key::new(&volume_key.workspace, namespace, name))
}
