//! Every namespace has a ServiceAccount `default` and knows, in a ConfigMap, whom to trust as this API. What is missing or
//! changed is put right.

use std::sync::Arc;

use atoll_client::{Client, WatchEvent};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::Tree;

const ACCOUNT: &str = "default";
const TRUST: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "The certificate authority of the API that Pods of this namespace talk to.";
/// Namespaces that are looked after together.
const AT_ONCE: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    workspace: String,
    namespace: String,
}

/// What of it is provided here.
#[derive(Clone, Copy)]
pub struct Provided {
    pub account: bool,
    pub trust: bool,
}

pub async fn run(client: Client, tree: Arc<Tree>, authority: String, provided: Provided) {
    if !provided.account && !provided.trust {
        return;
    }
    let shared = Arc::new(Shared { client: client.clone(), tree, authority, provided });
    let queue = Queue::start(AT_ONCE, move |target: Target| {
        let shared = shared.clone();
        async move { shared.provide(&target).await }
    });
    let path = |resource: &str, selector: &str| {
        format!("/clusters/*/api/v1/{resource}?watch=true&allowWatchBookmarks=true&fieldSelector={selector}")
    };
    let add = |object: &Value, namespace: &str| {
        if let Some(workspace) = object::annotation(object, WORKSPACE) {
            queue.add(Target { workspace: workspace.into(), namespace: namespace.into() });
        }
    };
    let namespaces = path("namespaces", "status.phase%3DActive");
    let namespaces = watching::forever(&client, &namespaces, "namespaces", |event| {
        if let WatchEvent::Added(namespace) = event {
            add(&namespace, object::name(&namespace));
        }
    });
    let accounts = path("serviceaccounts", &format!("metadata.name%3D{ACCOUNT}"));
    let accounts = watching::forever(&client, &accounts, "service accounts", |event| {
        if let WatchEvent::Deleted(account) = event {
            add(&account, object::namespace(&account));
        }
    });
    let trust = path("configmaps", &format!("metadata.name%3D{TRUST}"));
    let trust = watching::forever(&client, &trust, "the certificates of namespaces", |event| {
        if let WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) = event {
            add(&map, object::namespace(&map));
        }
    });
    tokio::join!(namespaces, accounts, trust);
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
    authority: String,
    provided: Provided,
}

impl Shared {
    async fn provide(&self, target: &Target) -> Outcome {
        // A workspace may be heard of after what is in it.
        let Some(workspace) = self.tree.path(&target.workspace) else { return Outcome::Again };
        let namespace = format!("/clusters/{workspace}/api/v1/namespaces/{}", target.namespace);
        let provided = match self.account(&namespace).await {
            Ok(()) => self.trust(&namespace).await,
            failed => failed,
        };
        match provided {
            Ok(()) => Outcome::Done,
            // It is on its way out, or gone.
            Err(status) if matches!(status.reason(), "NotFound" | "Forbidden") => Outcome::Done,
            Err(status) => {
                tracing::warn!(%status, workspace, namespace = target.namespace, "a namespace lacks what it should have; trying again");
                Outcome::Again
            }
        }
    }

    async fn account(&self, namespace: &str) -> Result<(), Status> {
        if !self.provided.account {
            return Ok(());
        }
        let path = format!("{namespace}/serviceaccounts");
        match self.client.get(&format!("{path}/{ACCOUNT}")).await {
            Err(status) if status.reason() == "NotFound" => {
                made(self.client.create(&path, &json!({ "metadata": { "name": ACCOUNT } })).await)
            }
            outcome => outcome.map(drop),
        }
    }

    async fn trust(&self, namespace: &str) -> Result<(), Status> {
        if !self.provided.trust {
            return Ok(());
        }
        let path = format!("{namespace}/configmaps");
        let data = json!({ "ca.crt": self.authority });
        match self.client.get(&format!("{path}/{TRUST}")).await {
            Ok(map) if map["data"] == data => Ok(()),
            Ok(mut map) => {
                map["data"] = data;
                object::set_annotation(&mut map, "kubernetes.io/description", DESCRIPTION);
                self.client.update(&format!("{path}/{TRUST}"), &map).await.map(drop)
            }
            Err(status) if status.reason() == "NotFound" => {
                let annotations = json!({ "kubernetes.io/description": DESCRIPTION });
                let metadata = json!({ "name": TRUST, "annotations": annotations });
                made(self.client.create(&path, &json!({ "metadata": metadata, "data": data })).await)
            }
            Err(status) => Err(status),
        }
    }
}

/// That somebody else was faster is as good.
fn made(outcome: Result<Value, Status>) -> Result<(), Status> {
    match outcome {
        Err(status) if status.reason() == "AlreadyExists" => Ok(()),
        outcome => outcome.map(drop),
    }
}
