//! Protection of PersistentVolumes, volume claims and VolumeAttributesClasses: removes the finalizer of
//! deleted objects when they are unused.

// upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go
// upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go
// upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go

use std::sync::Arc;

use atoll_informer::{
    ApiScope, Key, ListWatch, ListWatchEvent, Next, Queue, Resource, list_and_watch, resources,
};
use atoll_meta::views::PodView;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::context::Context;

/// Number of objects that are processed concurrently.
const WORKERS: usize = 16;

/// A kind that is protected by a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtectedKind {
    Volume,
    Claim,
    Attributes,
}

impl ProtectedKind {
    fn resource(self) -> &'static Resource {
        match self {
            ProtectedKind::Volume => &resources::PERSISTENT_VOLUMES,
            ProtectedKind::Claim => &resources::PERSISTENT_VOLUME_CLAIMS,
            ProtectedKind::Attributes => &resources::VOLUME_ATTRIBUTES_CLASSES,
        }
    }

    fn finalizer(self) -> &'static str {
        match self {
            ProtectedKind::Volume => "kubernetes.io/pv-protection",
            ProtectedKind::Claim => "kubernetes.io/pvc-protection",
            ProtectedKind::Attributes => "kubernetes.io/vac-protection",
        }
    }
}

pub async fn run_volumes(context: Context) {
    run(context, ProtectedKind::Volume).await;
}

pub async fn run_claims(context: Context) {
    run(context, ProtectedKind::Claim).await;
}

pub async fn run_attributes(context: Context) {
    run(context, ProtectedKind::Attributes).await;
}

async fn run(context: Context, kind: ProtectedKind) {
    let (api, queue) = (context.api(), Queue::new());
    let controller = Arc::new(Controller { api: api.clone(), kind });
    let following = list_and_watch(api, ListWatch::all(kind.resource()).metadata_only(), |event| {
        if let ListWatchEvent::Upserted(object) = event
            && (is_deletion_candidate(kind, &object) || lacks_finalizer(kind, &object))
        {
            queue.add(Key::of(&object));
        }
    });
    let working = queue.work("storage protection", WORKERS, |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(following, working);
}

/// Whether the object is being deleted and has the finalizer.
fn is_deletion_candidate(kind: ProtectedKind, object: &Value) -> bool {
    object::is_being_deleted(object) && object::finalizers(object).any(|own| own == kind.finalizer())
}

/// Whether the object lacks the finalizer. Atoll, like most API servers, adds it on creation.
fn lacks_finalizer(kind: ProtectedKind, object: &Value) -> bool {
    !object::is_being_deleted(object) && object::finalizers(object).all(|own| own != kind.finalizer())
}

struct Controller {
    api: ApiScope,
    kind: ProtectedKind,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        match self.protect(key).await {
            Err(status) if status.reason() == "NotFound" => Ok(Next::Done),
            outcome => outcome,
        }
    }

    async fn protect(&self, key: &Key) -> Result<Next, Status> {
        let object = self.api.get(self.kind.resource(), key).await?;
        let finalizer = self.kind.finalizer();
        let mut finalizers: Vec<&str> = object::finalizers(&object).filter(|own| *own != finalizer).collect();
        if lacks_finalizer(self.kind, &object) {
            finalizers.push(finalizer);
        } else if !is_deletion_candidate(self.kind, &object) {
            return Ok(Next::Done);
        } else if self.is_used(key, &object).await? {
            return Ok(Next::Again);
        }
        let patch = json!({ "metadata": {
            "resourceVersion": object::resource_version(&object),
            "finalizers": if finalizers.is_empty() { Value::Null } else { json!(finalizers) },
        }});
        self.api.patch(self.kind.resource(), key, "", &patch).await.map(|_| Next::Done)
    }

    async fn is_used(&self, key: &Key, object: &Value) -> Result<bool, Status> {
        let (workspace, name) = (&key.workspace, &*key.name);
        match self.kind {
            ProtectedKind::Volume => Ok(object["status"]["phase"] == "Bound"),
            ProtectedKind::Claim => {
                let pods = self.api.list(&resources::PODS, workspace, &key.namespace, false).await?;
                Ok(pods.iter().any(|pod| uses_claim(pod, name)))
            }
            ProtectedKind::Attributes => {
                for resource in [&resources::PERSISTENT_VOLUME_CLAIMS, &resources::PERSISTENT_VOLUMES] {
                    let users = self.api.list(resource, workspace, "", false).await?;
                    if users.iter().any(|user| uses_attributes(user, name)) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// A pod without a node does not count, because it will not be scheduled with a claim that is being deleted.
fn uses_claim(pod: &Value, claim: &str) -> bool {
    let pod = PodView::of(pod);
    pod.node_name().is_some() && pod.claim_names().any(|name| name == claim)
}

fn uses_attributes(user: &Value, class: &str) -> bool {
    let status = &user["status"];
    [
        &user["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ]
    .into_iter()
    .any(|name| name == class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_used_by_pods_that_have_a_node() {
        let pod = |node: &str, volume: Value| {
            let spec = json!({ "nodeName": node, "volumes": [volume] });
            json!({ "metadata": { "name": "p" }, "spec": spec })
        };
        let named = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "c" } });
        let own = json!({ "name": "v", "ephemeral": {} });
        let cases = [
            (pod("n", named.clone()), "c", true),
            (pod("", named.clone()), "c", false),
            (pod("n", named), "d", false),
            (pod("n", own.clone()), "p-v", true),
            (pod("n", own), "c", false),
        ];
        for (pod, claim, expected) in cases {
            assert_eq!(uses_claim(&pod, claim), expected, "{pod} {claim}");
        }
    }
}
