//! Binds a Pod to a node: its volumes first, then the Pod itself.

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go
// upstream: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Key, resources};
use atoll_meta::{Status, object};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{Context, status, with_timeout};
use crate::pod::Pod;
use crate::storage::Bindings;

/// Timeout of volume binding (`bindTimeoutSeconds`).
const VOLUMES: Duration = Duration::from_secs(600);

pub async fn bind(
    context: &Context,
    workspace: &Arc<str>,
    pod: &Pod,
    node: &Arc<str>,
    bindings: &Bindings,
    permit: OwnedSemaphorePermit,
) {
    let mut permit = Some(permit);
    if !bindings.is_empty() {
        let bound = volumes(context, workspace, pod, node, bindings, &mut permit).await;
        if let Err(message) = bound {
            context.shared.unbound(workspace, pod, bindings);
            let message = format!("running PreBind plugin \"VolumeBinding\": {message}");
            status::fail(context, workspace, pod, &message).await;
            return;
        }
    }
    if permit.is_none() {
        permit = context.permits.clone().acquire_owned().await.ok();
    }
    let key = Context::key(workspace, pod);
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": **pod.namespace(), "name": *pod.name, "uid": *pod.uid},
        "target": {"kind": "Node", "name": **node},
    });
    let posted =
        with_timeout(context.informers.api().post(&resources::PODS, &key, "binding", &binding)).await;
    drop(permit);
    match posted {
        Ok(_) => {
            context.shared.bound(workspace, pod);
            let message = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.name);
            context.events.normal(&key, &pod.uid, "Scheduled", "Binding", message);
        }
        Err(refusal) => {
            context.shared.unbound(workspace, pod, bindings);
            // A deleted Pod needs no node.
            if refusal.code() != 404 {
                let message = format!("binding rejected: {}", words(&refusal));
                status::fail(context, workspace, pod, &message).await;
            }
        }
    }
}

/// Binds or provisions the volumes of a Pod, and waits until they are bound.
async fn volumes(
    context: &Context,
    workspace: &Arc<str>,
    pod: &Pod,
    node: &Arc<str>,
    bindings: &Bindings,
    permit: &mut Option<OwnedSemaphorePermit>,
) -> Result<(), String> {
    let api = context.informers.api();
    for (claim, volume) in &bindings.static_bindings {
        let key = Key::new(workspace, pod.namespace(), claim);
        let claim = context.informers.of(&resources::PERSISTENT_VOLUME_CLAIMS).get(&key);
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim \"{}\" not found", key.name))?;
        let patch = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": *key.namespace, "name": *key.name,
                "uid": object::uid(&claim), "resourceVersion": object::resource_version(&claim),
            }},
        });
        let key = Key::new(workspace, "", volume);
        let patched = with_timeout(api.patch(&resources::PERSISTENT_VOLUMES, &key, "", &patch)).await;
        patched.map_err(|error| words(&error))?;
    }
    for claim in &bindings.provisions {
        let key = Key::new(workspace, pod.namespace(), claim);
        let patch = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": **node}}});
        let patched = with_timeout(api.patch(&resources::PERSISTENT_VOLUME_CLAIMS, &key, "", &patch)).await;
        let patched = patched.map_err(|error| words(&error))?;
        context.informers.of(&resources::PERSISTENT_VOLUME_CLAIMS).wrote(&patched);
    }
    // Release the permit while waiting.
    *permit = None;
    let claims: Vec<Box<str>> = bindings
        .static_bindings
        .iter()
        .map(|(claim, _)| claim)
        .chain(&bindings.provisions)
        .cloned()
        .collect();
    let waiting = async {
        loop {
            let changed = context.shared.claims.notified();
            tokio::pin!(changed);
            // Register before checking, so that no notification is missed.
            changed.as_mut().enable();
            if context.shared.claims_are_bound(workspace, pod, node, &claims)? {
                return Ok(());
            }
            changed.await;
        }
    };
    let bound = tokio::time::timeout(VOLUMES, waiting).await;
    bound.unwrap_or_else(|_| Err("binding volumes: context deadline exceeded".to_owned()))
}

fn words(status: &Status) -> String {
    status.message().to_owned()
}
