//! ServiceAccount token controller: fills Secrets of type `kubernetes.io/service-account-token`, and deletes
//! them with their account.

// upstream: pkg/controller/serviceaccount/tokens_controller.go

use std::sync::Arc;

use atoll_authn::service_account::{Subject, Tokens};
use atoll_informer::{
    ApiScope, DeleteOptions, Key, ListWatch, ListWatchEvent, Next, Queue, list_and_watch, resources,
};
use atoll_meta::{Status, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::context::Context;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Number of Secrets that are processed concurrently.
const WORKERS: usize = 8;
/// Workspace in tokens of a single API server.
const ROOT: &str = "root";

pub async fn run(context: Context) {
    let (Some(tokens), Some(root_ca)) = (context.signers.tokens.clone(), context.signers.root_ca.clone())
    else {
        tracing::info!(
            "service account token controller disabled: no --service-account-private-key-file or no --root-ca-file configured"
        );
        return;
    };
    let (api, queue) = (context.api(), Queue::new());
    let controller = Arc::new(Controller { api: api.clone(), tokens, root_ca: STANDARD.encode(&*root_ca) });
    let fields = format!("type={TYPE}");
    let list_watch = ListWatch::all(&resources::SECRETS).field_selector(&fields).metadata_only();
    let secrets = list_and_watch(api, list_watch, |event| {
        if let ListWatchEvent::Upserted(secret) = event {
            queue.add(Key::of(&secret));
        }
    });
    let accounts =
        list_and_watch(api, ListWatch::all(&resources::SERVICE_ACCOUNTS).metadata_only(), |event| {
            if let ListWatchEvent::Deleted(account) = event {
                // An empty name stands for all Secrets of the namespace.
                queue.add(Key::of(&account).sibling(""));
            }
        });
    let working = queue.work("service account token secrets", WORKERS, |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(secrets, accounts, working);
}

struct Controller {
    api: ApiScope,
    tokens: Arc<Tokens>,
    /// The CA certificates that clients of this server trust, base64 encoded.
    root_ca: String,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let outcome = match key.name.is_empty() {
            true => self.sync_namespace(key).await,
            false => self.sync_secret(key).await,
        };
        match outcome {
            Ok(()) => Ok(Next::Done),
            Err(status) if status.reason() == "NotFound" => Ok(Next::Done),
            Err(status) => Err(status),
        }
    }

    /// Processes all token Secrets of a namespace.
    async fn sync_namespace(&self, key: &Key) -> Result<(), Status> {
        let collection = self.api.collection(&resources::SECRETS, &key.workspace, &key.namespace)?;
        let path = format!("{collection}?fieldSelector=type%3Dkubernetes.io%2Fservice-account-token");
        let secrets = self.api.client().list_metadata(&path).await?;
        for secret in secrets["items"].as_array().into_iter().flatten() {
            match self.sync_secret(&key.sibling(object::name(secret))).await {
                Err(status) if status.reason() == "NotFound" => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    async fn sync_secret(&self, key: &Key) -> Result<(), Status> {
        let mut secret = self.api.get(&resources::SECRETS, key).await?;
        let wanted = object::annotation(&secret, ACCOUNT_NAME).unwrap_or_default().to_string();
        if secret["type"] != TYPE || wanted.is_empty() || object::is_being_deleted(&secret) {
            return Ok(());
        }
        let wanted_uid = object::annotation(&secret, ACCOUNT_UID).unwrap_or_default();
        let account = match self.api.get(&resources::SERVICE_ACCOUNTS, &key.sibling(&wanted)).await {
            Ok(account) if wanted_uid.is_empty() || object::uid(&account) == wanted_uid => account,
            Ok(_) => return self.delete(key, &secret).await,
            Err(status) if status.reason() == "NotFound" => return self.delete(key, &secret).await,
            Err(status) => return Err(status),
        };
        let uid = object::uid(&account);
        let missing = self.missing_fields(key, &secret, &wanted, uid)?;
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
        object::set_annotation(&mut secret, ACCOUNT_UID, uid);
        self.api.update(&resources::SECRETS, &secret).await.map(drop)
    }

    /// Returns the fields that a Secret lacks for an account.
    fn missing_fields(
        &self,
        key: &Key,
        secret: &Value,
        account: &str,
        uid: &str,
    ) -> Result<Vec<(&'static str, String)>, Status> {
        let data = |name: &str| secret["data"][name].as_str().unwrap_or_default();
        let mut missing = Vec::new();
        if data("ca.crt") != self.root_ca {
            missing.push(("ca.crt", self.root_ca.clone()));
        }
        if data("namespace").is_empty() {
            missing.push(("namespace", STANDARD.encode(&*key.namespace)));
        }
        if data("token").is_empty() {
            let workspace = if key.workspace.is_empty() { ROOT } else { &key.workspace };
            let subject =
                Subject { workspace, namespace: &key.namespace, name: account, uid, bound: Vec::new() };
            let token = self.tokens.issue_for_secret(&subject, &key.name);
            let token = token.map_err(|error| Status::internal_error(error.to_string()))?;
            missing.push(("token", STANDARD.encode(token)));
        }
        Ok(missing)
    }

    async fn delete(&self, key: &Key, secret: &Value) -> Result<(), Status> {
        let options = DeleteOptions { uid: Some(object::uid(secret)), ..DeleteOptions::default() };
        self.api.delete(&resources::SECRETS, key, options).await.map(drop)
    }
}
