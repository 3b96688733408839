//! Volumes, claims and classes of attributes that are to go are let go once nothing uses them.

use std::sync::Arc;

use atoll_client::{Client, PatchType, WatchEvent};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::Tree;

/// Objects that are looked at together.
const AT_ONCE: usize = 16;

/// A kind that is protected by a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Volume,
    Claim,
    Attributes,
}

const KINDS: [Kind; 3] = [Kind::Volume, Kind::Claim, Kind::Attributes];

impl Kind {
    /// Where they are, what they are called, and their finalizer.
    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Volume => ("/api/v1", "persistentvolumes", "kubernetes.io/pv-protection"),
            Kind::Claim => ("/api/v1", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
            Kind::Attributes => {
                ("/apis/storage.k8s.io/v1", "volumeattributesclasses", "kubernetes.io/vac-protection")
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    kind: Kind,
    workspace: String,
    namespace: String,
    name: String,
}

/// Looks after those kinds that are `chosen`.
pub async fn run(client: Client, tree: Arc<Tree>, chosen: [bool; 3]) {
    // Not every profile has volumes.
    if let Err(status) = client.get("/api/v1/persistentvolumes?limit=1").await
        && status.reason() == "NotFound"
    {
        return;
    }
    let shared = Arc::new(Shared { client: client.clone(), tree });
    let queue = Queue::start(AT_ONCE, move |target: Target| {
        let shared = shared.clone();
        async move { shared.release(&target).await }
    });
    let watch = |kind: Kind| {
        let (client, queue) = (&client, &queue);
        async move {
            let (base, resource, _) = kind.facts();
            let path = format!("/clusters/*{base}/{resource}?watch=true&allowWatchBookmarks=true");
            watching::forever(client, &path, resource, |event| {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                    && is_waiting(kind, &object)
                    && let Some(workspace) = object::annotation(&object, WORKSPACE)
                {
                    queue.add(Target {
                        kind,
                        workspace: workspace.into(),
                        namespace: object::namespace(&object).into(),
                        name: object::name(&object).into(),
                    });
                }
            })
            .await;
        }
    };
    let [volumes, claims, attributes] = std::array::from_fn(|position| {
        let (kind, is_chosen) = (KINDS[position], chosen[position]);
        crate::on(is_chosen, watch(kind))
    });
    tokio::join!(volumes, claims, attributes);
}

/// Whether the object is to go and only kept from it.
fn is_waiting(kind: Kind, object: &Value) -> bool {
    let (_, _, finalizer) = kind.facts();
    object::is_being_deleted(object) && object::finalizers(object).any(|own| own == finalizer)
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
}

impl Shared {
    async fn release(&self, target: &Target) -> Outcome {
        // A workspace may be heard of after what is in it.
        let Some(workspace) = self.tree.path(&target.workspace) else { return Outcome::Again };
        match self.try_release(target, &workspace).await {
            Ok(outcome) => outcome,
            Err(status) if status.reason() == "NotFound" => Outcome::Done,
            Err(status) if status.reason() == "Conflict" => Outcome::Again,
            Err(status) => {
                tracing::warn!(%status, workspace, name = target.name, "what protects a volume could not be removed; trying again");
                Outcome::Again
            }
        }
    }

    async fn try_release(&self, target: &Target, workspace: &str) -> Result<Outcome, Status> {
        let (base, resource, finalizer) = target.kind.facts();
        let place = match target.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let path = format!("/clusters/{workspace}{base}{place}/{resource}/{}", target.name);
        let object = self.client.get(&path).await?;
        if !is_waiting(target.kind, &object) {
            return Ok(Outcome::Done);
        }
        if self.is_used(target, workspace, &object).await? {
            return Ok(Outcome::Again);
        }
        let kept: Vec<&str> = object::finalizers(&object).filter(|own| *own != finalizer).collect();
        let patch = json!({ "metadata": {
            "resourceVersion": object::resource_version(&object),
            "finalizers": if kept.is_empty() { Value::Null } else { json!(kept) },
        }});
        self.client.patch(&path, PatchType::Merge, &patch).await.map(|_| Outcome::Done)
    }

    async fn is_used(&self, target: &Target, workspace: &str, object: &Value) -> Result<bool, Status> {
        let base = format!("/clusters/{workspace}/api/v1");
        match target.kind {
            Kind::Volume => Ok(object["status"]["phase"] == "Bound"),
            Kind::Claim => {
                let path = format!("{base}/namespaces/{}/pods", target.namespace);
                Ok(items(&self.client.get(&path).await?).any(|pod| uses_claim(pod, &target.name)))
            }
            Kind::Attributes => {
                for resource in ["persistentvolumeclaims", "persistentvolumes"] {
                    let list = self.client.get(&format!("{base}/{resource}")).await?;
                    if items(&list).any(|user| uses_attributes(user, &target.name)) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// A Pod that has no Node yet will not start with a claim that is to go.
fn uses_claim(pod: &Value, claim: &str) -> bool {
    let runs = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    runs && volumes.any(|volume| match volume.get("ephemeral") {
        Some(_) => {
            let own = volume["name"].as_str().unwrap_or_default();
            claim.strip_prefix(object::name(pod)).and_then(|rest| rest.strip_prefix('-')) == Some(own)
        }
        None => volume["persistentVolumeClaim"]["claimName"] == claim,
    })
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
