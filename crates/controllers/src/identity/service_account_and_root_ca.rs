//! Service account controller and root CA certificate publisher: every namespace has the ServiceAccount
//! `default` and the ConfigMap `kube-root-ca.crt`. Both are restored after changes.

// upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go
// upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go

use std::sync::Arc;

use atoll_informer::{
    ApiScope, Key, ListWatch, ListWatchEvent, Next, Queue, Resource, list_and_watch, resources,
};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::context::Context;

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "The certificate authority of the API that Pods of this namespace talk to.";
/// Number of namespaces that are reconciled concurrently.
const WORKERS: usize = 16;

/// Creates the ServiceAccount `default` in every namespace.
pub async fn run_service_accounts(context: Context) {
    run(context, NamespaceObject { resource: &resources::SERVICE_ACCOUNTS, name: ACCOUNT, content: None })
        .await;
}

/// Publishes the root CA certificates to every namespace, if they are configured.
pub async fn run_root_ca(context: Context) {
    let Some(root_ca) = context.signers.root_ca.clone() else {
        tracing::info!("root CA publisher disabled: no --root-ca-file configured");
        return;
    };
    let content = Some(json!({ "ca.crt": &*root_ca }));
    run(context, NamespaceObject { resource: &resources::CONFIG_MAPS, name: ROOT_CA, content }).await;
}

/// An object that every namespace has.
struct NamespaceObject {
    resource: &'static Resource,
    name: &'static str,
    /// The required data. `None` if the content does not matter.
    content: Option<Value>,
}

async fn run(context: Context, wanted: NamespaceObject) {
    let (api, queue, wanted) = (context.api(), Queue::new(), Arc::new(wanted));
    let list_watch =
        ListWatch::all(&resources::NAMESPACES).field_selector("status.phase=Active").metadata_only();
    let namespaces = list_and_watch(api, list_watch, |event| {
        if let ListWatchEvent::Upserted(namespace) = event {
            queue.add(Key::of(&namespace));
        }
    });
    // The queue holds namespaces, because each has only one such object.
    let add = |object: &Value| {
        let key = Key::of(object);
        queue.add(key.in_workspace(&key.namespace));
    };
    let fields = format!("metadata.name={}", wanted.name);
    let list_watch = ListWatch::all(wanted.resource).field_selector(&fields);
    let objects = list_and_watch(api, list_watch, |event| match event {
        ListWatchEvent::Upserted(object) if wanted.differs(&object) => add(&object),
        ListWatchEvent::Deleted(object) => add(&object),
        ListWatchEvent::Upserted(_) | ListWatchEvent::Listed(..) => {}
    });
    let working = queue.work("namespace objects", WORKERS, |key| {
        let (api, wanted) = (api.clone(), wanted.clone());
        async move { wanted.sync(&api, &key).await }
    });
    tokio::join!(namespaces, objects, working);
}

impl NamespaceObject {
    fn differs(&self, object: &Value) -> bool {
        self.content.as_ref().is_some_and(|content| object["data"] != *content)
    }

    async fn sync(&self, api: &ApiScope, namespace: &Key) -> Result<Next, Status> {
        match self.create_or_update(api, namespace).await {
            Ok(()) => Ok(Next::Done),
            Err(status) if status.reason() == "AlreadyExists" => Ok(Next::Done),
            // The namespace is being deleted, or is gone.
            Err(status) if matches!(status.reason(), "NotFound" | "Forbidden") => Ok(Next::Done),
            Err(status) => Err(status),
        }
    }

    async fn create_or_update(&self, api: &ApiScope, namespace: &Key) -> Result<(), Status> {
        let key = Key::new(&namespace.workspace, &namespace.name, self.name);
        match api.get(self.resource, &key).await {
            Ok(mut object) if self.differs(&object) => {
                object["data"] = self.content.clone().unwrap_or_default();
                object::set_annotation(&mut object, "kubernetes.io/description", DESCRIPTION);
                api.update(self.resource, &object).await.map(drop)
            }
            Ok(_) => Ok(()),
            Err(status) if status.reason() == "NotFound" => {
                api.create(self.resource, &key.workspace, &key.namespace, &self.new_object()).await.map(drop)
            }
            Err(status) => Err(status),
        }
    }

    fn new_object(&self) -> Value {
        let mut object = json!({ "metadata": { "name": self.name } });
        object::set_type(&mut object, &self.resource.api_version(), &self.resource.kind);
        if let Some(content) = &self.content {
            object["data"] = content.clone();
            object::set_annotation(&mut object, "kubernetes.io/description", DESCRIPTION);
        }
        object
    }
}
