//! Service account controller and root CA certificate publisher: every namespace has the ServiceAccount
//! `default` and the ConfigMap `kube-root-ca.crt`. Both are restored after changes.

use std::sync::Arc;

use atoll_informer::{Key, Look, Next, Queue, Resource, Sight, World, follow, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::context::Context;

const ACCOUNT: &str = "default";
const TRUST: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "The certificate authority of the API that Pods of this namespace talk to.";
/// Number of namespaces that are reconciled concurrently.
const AT_ONCE: usize = 16;

/// Creates the ServiceAccount `default` in every namespace.
pub async fn run_accounts(context: Context) {
    run(context, Belonging { resource: &resources::SERVICE_ACCOUNTS, name: ACCOUNT, content: None }).await;
}

/// Publishes the root CA certificates to every namespace, if they are configured.
pub async fn run_trust(context: Context) {
    let Some(trusted) = context.signers.trusted.clone() else {
        tracing::info!("root CA publisher disabled: no --root-ca-file configured");
        return;
    };
    let content = Some(json!({ "ca.crt": &*trusted }));
    run(context, Belonging { resource: &resources::CONFIG_MAPS, name: TRUST, content }).await;
}

/// An object that every namespace has.
struct Belonging {
    resource: &'static Resource,
    name: &'static str,
    /// The required data. `None` if the content does not matter.
    content: Option<Value>,
}

async fn run(context: Context, belonging: Belonging) {
    let (world, queue, belonging) = (context.world(), Queue::new(), Arc::new(belonging));
    let look = Look::everywhere(&resources::NAMESPACES).selecting("status.phase=Active").metadata();
    let namespaces = follow(world, look, |sight| {
        if let Sight::There(namespace) = sight {
            queue.add(Key::of(&namespace));
        }
    });
    // The queue holds namespaces, because each has only one such object.
    let add = |object: &Value| {
        let key = Key::of(object);
        queue.add(key.in_workspace(&key.namespace));
    };
    let fields = format!("metadata.name={}", belonging.name);
    let look = Look::everywhere(belonging.resource).selecting(&fields);
    let belongings = follow(world, look, |sight| match sight {
        Sight::There(object) if belonging.differs(&object) => add(&object),
        Sight::Gone(object) => add(&object),
        Sight::There(_) | Sight::All(..) => {}
    });
    let working = queue.work("namespace objects", AT_ONCE, |key| {
        let (world, belonging) = (world.clone(), belonging.clone());
        async move { belonging.provide(&world, &key).await }
    });
    tokio::join!(namespaces, belongings, working);
}

impl Belonging {
    fn differs(&self, object: &Value) -> bool {
        self.content.as_ref().is_some_and(|content| object["data"] != *content)
    }

    async fn provide(&self, world: &World, namespace: &Key) -> Result<Next, Status> {
        match self.try_provide(world, namespace).await {
            Ok(()) => Ok(Next::Done),
            Err(status) if status.reason() == "AlreadyExists" => Ok(Next::Done),
            // The namespace is being deleted, or is gone.
            Err(status) if matches!(status.reason(), "NotFound" | "Forbidden") => Ok(Next::Done),
            Err(status) => Err(status),
        }
    }

    async fn try_provide(&self, world: &World, namespace: &Key) -> Result<(), Status> {
        let key = Key::new(&namespace.workspace, &namespace.name, self.name);
        match world.get(self.resource, &key).await {
            Ok(mut object) if self.differs(&object) => {
                object["data"] = self.content.clone().unwrap_or_default();
                object::set_annotation(&mut object, "kubernetes.io/description", DESCRIPTION);
                world.update(self.resource, &object).await.map(drop)
            }
            Ok(_) => Ok(()),
            Err(status) if status.reason() == "NotFound" => {
                world.create(self.resource, &key.workspace, &key.namespace, &self.made()).await.map(drop)
            }
            Err(status) => Err(status),
        }
    }

    fn made(&self) -> Value {
        let mut object = json!({ "metadata": { "name": self.name } });
        object::set_type(&mut object, &self.resource.api_version(), &self.resource.kind);
        if let Some(content) = &self.content {
            object["data"] = content.clone();
            object::set_annotation(&mut object, "kubernetes.io/description", DESCRIPTION);
        }
        object
    }
}
