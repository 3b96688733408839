//! Secrets that ask for a token of a ServiceAccount get one, and go when the account does.

use std::sync::Arc;

use atoll_authn::service_account::{Subject, Tokens};
use atoll_client::{Client, WatchEvent};
use atoll_meta::{Status, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::Tree;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Secrets that are worked on together.
const AT_ONCE: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Secret {
        workspace: String,
        namespace: String,
        name: String,
    },
    /// An account that is gone.
    Account {
        workspace: String,
        namespace: String,
    },
}

pub async fn run(client: Client, tree: Arc<Tree>, tokens: Arc<Tokens>, authority: String) {
    let shared = Arc::new(Shared { client: client.clone(), tree, tokens, authority });
    let queue = Queue::start(AT_ONCE, move |target: Target| {
        let shared = shared.clone();
        async move { shared.handle(&target).await }
    });
    let selector = "fieldSelector=type%3Dkubernetes.io%2Fservice-account-token";
    let path = format!("/clusters/*/api/v1/secrets?watch=true&allowWatchBookmarks=true&{selector}");
    let secrets = watching::forever(&client, &path, "the tokens in Secrets", |event| {
        if let WatchEvent::Added(secret) | WatchEvent::Modified(secret) = event
            && let Some(workspace) = object::annotation(&secret, WORKSPACE)
        {
            let (namespace, name) = (object::namespace(&secret).into(), object::name(&secret).into());
            queue.add(Target::Secret { workspace: workspace.into(), namespace, name });
        }
    });
    let path = "/clusters/*/api/v1/serviceaccounts?watch=true&allowWatchBookmarks=true";
    let accounts = watching::forever(&client, path, "service accounts", |event| {
        if let WatchEvent::Deleted(account) = event
            && let Some(workspace) = object::annotation(&account, WORKSPACE)
        {
            let namespace = object::namespace(&account).into();
            queue.add(Target::Account { workspace: workspace.into(), namespace });
        }
    });
    tokio::join!(secrets, accounts);
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
    tokens: Arc<Tokens>,
    /// The certificate that clients of this server trust.
    authority: String,
}

impl Shared {
    async fn handle(&self, target: &Target) -> Outcome {
        let (Target::Secret { workspace: id, .. } | Target::Account { workspace: id, .. }) = target;
        // A workspace may be heard of after what is in it.
        let Some(workspace) = self.tree.path(id) else { return Outcome::Again };
        let outcome = match target {
            Target::Secret { namespace, name, .. } => self.fill(id, &workspace, namespace, name).await,
            Target::Account { namespace, .. } => self.review(id, &workspace, namespace).await,
        };
        match outcome {
            Ok(()) => Outcome::Done,
            Err(status) if status.reason() == "NotFound" => Outcome::Done,
            Err(status) if status.reason() == "Conflict" => Outcome::Again,
            Err(status) => {
                tracing::warn!(%status, workspace, "the token in a Secret could not be made; trying again");
                Outcome::Again
            }
        }
    }

    /// Looks at all of a namespace's.
    async fn review(&self, id: &str, workspace: &str, namespace: &str) -> Result<(), Status> {
        let path = format!(
            "/clusters/{workspace}/api/v1/namespaces/{namespace}/secrets?fieldSelector=type%3Dkubernetes.io%2Fservice-account-token"
        );
        let secrets = self.client.get(&path).await?;
        for secret in secrets["items"].as_array().into_iter().flatten() {
            self.fill(id, workspace, namespace, object::name(secret)).await?;
        }
        Ok(())
    }

    async fn fill(&self, id: &str, workspace: &str, namespace: &str, name: &str) -> Result<(), Status> {
        let below = format!("/clusters/{workspace}/api/v1/namespaces/{namespace}");
        let path = format!("{below}/secrets/{name}");
        let mut secret = self.client.get(&path).await?;
        if secret["type"] != TYPE || object::is_being_deleted(&secret) {
            return Ok(());
        }
        let wanted = object::annotation(&secret, ACCOUNT_NAME).unwrap_or_default().to_string();
        let wanted_uid = object::annotation(&secret, ACCOUNT_UID).unwrap_or_default().to_string();
        let account = match self.client.get(&format!("{below}/serviceaccounts/{wanted}")).await {
            Ok(account) if wanted_uid.is_empty() || object::uid(&account) == wanted_uid => account,
            Ok(_) => return self.client.delete(&path).await.map(drop),
            Err(status) if status.reason() == "NotFound" => {
                return self.client.delete(&path).await.map(drop);
            }
            Err(status) => return Err(status),
        };
        let uid = object::uid(&account).to_string();
        let data = |name: &str| secret["data"][name].as_str().unwrap_or_default();
        let authority = STANDARD.encode(&self.authority);
        let mut missing: Vec<(&str, String)> = Vec::new();
        if data("ca.crt") != authority {
            missing.push(("ca.crt", authority));
        }
        if data("namespace").is_empty() {
            missing.push(("namespace", STANDARD.encode(namespace)));
        }
        if data("token").is_empty() {
            let subject = Subject { workspace: id, namespace, name: &wanted, uid: &uid, bound: Vec::new() };
            let token = self.tokens.issue_for_secret(&subject, name);
            let token = token.map_err(|error| Status::internal_error(error.to_string()))?;
            missing.push(("token", STANDARD.encode(token)));
        }
        if missing.is_empty() {
            return Ok(());
        }
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        for (name, value) in missing {
            secret["data"][name] = Value::String(value);
        }
        object::set_annotation(&mut secret, ACCOUNT_NAME, &wanted);
        object::set_annotation(&mut secret, ACCOUNT_UID, &uid);
        self.client.update(&path, &secret).await.map(drop)
    }
}
