//! Runs a syncer for each Cluster with the mode `push` in this process, with the credentials in the Cluster's
//! Secret. The syncers share a limit on concurrent requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_client::connected_clusters::{ConnectedCluster, ConnectedClusters, LiveConnection};
use atoll_client::dialing::TenantAddresses;
use atoll_client::https::{Endpoint, Https};
use atoll_client::kubeconfig::{Kubeconfig, Problem};
use atoll_client::memory_limits::{Budget, Budgets};
use atoll_fleet::cluster::{ClusterView, SecretReference};
use atoll_fleet::marks;
use atoll_informer::{
    Cache, Clock, Informers, Key, ListWatch, ListWatchEvent, Next, Queue, encoded, list_and_watch, resources,
};
use atoll_meta::{Status, object, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::connections::renewal::{RenewalTime, Token};
use crate::guard::{self, NotReady};
use crate::settings::{Access, Random, Settings};

/// Concurrent requests to all clusters together.
const TOTAL_CONCURRENCY: usize = 256;
const AT_ONCE: usize = 16;
/// Interval of checks whether credentials have changed or must be renewed.
const LOOK: Duration = Duration::from_secs(60);
/// Pause after a failed renewal of a token.
const RETRY: Duration = Duration::from_secs(300);
/// Instance name of the syncers of this process: only one process has the data of a control plane.
const INSTANCE: &str = "push";

/// Configuration of the push syncers.
pub struct Push {
    /// Informers of all workspaces.
    pub informers: Arc<Informers>,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    /// Interval of heartbeats.
    pub interval: Duration,
    /// Memory budgets of the clusters.
    pub budgets: Arc<Budgets>,
    /// Where the connections to the clusters are announced.
    pub connected: Arc<ConnectedClusters>,
    /// Id of the root workspace: clusters of other workspaces have address restrictions.
    pub root: String,
    /// Addresses that clusters of other workspaces may have.
    pub tenants: Arc<TenantAddresses>,
}

/// Runs until it is dropped.
pub async fn push(setup: Push) {
    let clusters = setup.informers.of(&resources::CLUSTERS);
    let queue = Queue::new();
    let waking = queue.clone();
    clusters.listen(move |change| waking.add(change.key.clone()));
    clusters.synced().await;
    let api = setup.informers.api().clone();
    let syncers = Arc::new(PushSyncers {
        setup,
        clusters,
        budget: Arc::new(Semaphore::new(TOTAL_CONCURRENCY)),
        running: Mutex::default(),
    });
    let list_watch = ListWatch::all(&resources::SECRETS).label_selector(marks::CLUSTER).metadata_only();
    let secrets = list_and_watch(&api, list_watch, |event| {
        if let ListWatchEvent::Upserted(secret) | ListWatchEvent::Deleted(secret) = event
            && let Some(name) = object::label(&secret, marks::CLUSTER)
        {
            queue.add(Key::of(&secret).in_workspace(name));
        }
    });
    let work = queue.work("clusters to sync", AT_ONCE, move |key| {
        let syncers = syncers.clone();
        async move { syncers.sync(&key).await }
    });
    tokio::join!(secrets, work);
}

struct PushSyncers {
    setup: Push,
    clusters: Arc<Cache>,
    budget: Arc<Semaphore>,
    running: Mutex<HashMap<Key, RunningSyncer>>,
}

/// A running syncer.
struct RunningSyncer {
    config: SyncerConfig,
    access: ClusterAccess,
    _connection: LiveConnection,
    /// Stops the syncer when dropped.
    _stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Configuration of a running syncer. If it changes, the syncer is replaced.
#[derive(Clone, PartialEq, Eq)]
struct SyncerConfig {
    uid: String,
    path: String,
    access: Access,
    /// Endpoint without the token, which may change at any time.
    endpoint: Endpoint,
    has_token: bool,
}

/// Access to a cluster, with a token that is renewed while it is used.
#[derive(Clone)]
struct ClusterAccess {
    transport: Arc<Https>,
    budget: Arc<Budget>,
    expires: Arc<AtomicI64>,
    /// Token that was last read from the Secret.
    text: Option<String>,
    token: Option<(Token, RenewalTime)>,
}

impl ClusterAccess {
    fn new(transport: Https, budget: Arc<Budget>) -> ClusterAccess {
        let expires = Arc::new(AtomicI64::new(i64::MAX));
        ClusterAccess { transport: Arc::new(transport), budget, expires, text: None, token: None }
    }

    fn client(&self) -> Client {
        Client::new(self.transport.clone()).charged_to(Some(self.budget.clone()))
    }

    /// Uses the credentials of the Secret.
    fn read(&mut self, found: &Credentials, setup: &Push) {
        if self.text == found.endpoint.token
            && self.token.as_ref().map(|(token, _)| token) == found.token.as_ref()
        {
            return;
        }
        let now = setup.clock.now().seconds;
        let due =
            found.token.clone().map(|token| (token.clone(), RenewalTime::of(&token, now, &setup.random)));
        self.adopt(found.endpoint.token.clone(), due);
    }

    fn adopt(&mut self, text: Option<String>, token: Option<(Token, RenewalTime)>) {
        // An unusable token is rejected when it is read.
        if let Some(text) = &text
            && let Err(problem) = self.transport.use_token(text)
        {
            tracing::warn!("cannot use a token: {problem}");
        }
        let expires = token.as_ref().map_or(i64::MAX, |(token, _)| token.expires());
        self.expires.store(expires, Ordering::Relaxed);
        (self.text, self.token) = (text, token);
    }
}

/// Credentials in a Secret.
struct Credentials {
    secret: Key,
    /// Resource version of the Secret.
    revision: String,
    kubeconfig: String,
    endpoint: Endpoint,
    /// The token, if it can be renewed.
    token: Option<Token>,
}

impl PushSyncers {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let desired = self.clusters.get(key).filter(|cluster| ClusterView::of(cluster).mode() == "push");
        let Some(cluster) = desired else {
            self.stop(key).await;
            return Ok(Next::Done);
        };
        let api = self.setup.informers.api();
        let path = api.root(&key.workspace)?;
        let above = api.client().below(&path);
        let found = match self.credentials(key, &cluster).await? {
            Ok(found) => found,
            Err(problem) => return self.report_unusable(key, &above, &problem).await,
        };
        let view = ClusterView::of(&cluster);
        let access = if view.is_observed() { Access::Observe } else { Access::Manage };
        let has_token = found.endpoint.token.is_some();
        let endpoint = Endpoint { token: None, ..found.endpoint.clone() };
        let config =
            SyncerConfig { uid: object::uid(&cluster).to_string(), path, access, endpoint, has_token };
        if self.update_running(key, &config, &found) {
            return Ok(self.renew(key, found).await);
        }
        self.stop(key).await;
        let ancestry = api.ancestry(&key.workspace);
        // The last ancestor is root; the one before is the top-level workspace.
        let top = ancestry.iter().rev().nth(1).map(|(id, _)| id.as_str());
        let budget = self.setup.budgets.open(&key.workspace, &key.name, top);
        let mut cluster_access = match Https::new(&found.endpoint) {
            Ok(transport) if *key.workspace == self.setup.root => ClusterAccess::new(transport, budget),
            Ok(transport) => ClusterAccess::new(transport.for_tenant(self.setup.tenants.clone()), budget),
            Err(problem) => {
                let problem = NotReady::new("CredentialsBroken", &key.name, &problem);
                return self.report_unusable(key, &above, &problem).await;
            }
        };
        cluster_access.read(&found, &self.setup);
        let below = cluster_access.client();
        let mut settings = Settings::new(&key.name, INSTANCE, self.setup.random.clone());
        settings.identity = view.id().map(str::to_string);
        settings.workspace = key.workspace.to_string();
        settings.access = access;
        settings.interval = self.setup.interval;
        settings.budget = Some(self.budget.clone());
        settings.clock = self.setup.clock.clone();
        settings.expires = cluster_access.expires.clone();
        let connected =
            ConnectedCluster { api: cluster_access.transport.clone(), budget: cluster_access.budget.clone() };
        let connection = self.setup.connected.connect(&config.uid, connected);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(crate::run(settings, above, below, async move {
            // No value is ever sent.
            let _ = stopped.await;
        }));
        let syncer =
            RunningSyncer { config, access: cluster_access, _connection: connection, _stop: stop, task };
        self.running().insert(key.clone(), syncer);
        Ok(Next::After(LOOK))
    }

    /// Whether the running syncer can continue; if so, it uses the token of the Secret.
    fn update_running(&self, key: &Key, config: &SyncerConfig, found: &Credentials) -> bool {
        let mut running = self.running();
        let Some(running) = running.get_mut(key) else { return false };
        if running.config != *config || running.task.is_finished() {
            return false;
        }
        running.access.read(found, &self.setup);
        true
    }

    /// Renews the token of a cluster if it is due, and returns when to check again.
    async fn renew(&self, key: &Key, found: Credentials) -> Next {
        let now = || self.setup.clock.now().seconds;
        let access = self.running().get(key).map(|running| running.access.clone());
        let Some((client, (token, due))) = access.and_then(|access| Some((access.client(), access.token?)))
        else {
            return Next::After(LOOK);
        };
        let left = due.left(now());
        if !left.is_zero() {
            return Next::After(left.min(LOOK));
        }
        let renewed = async {
            let renewed = token.renew(&client).await?;
            self.store_token(&found, &token, &renewed).await?;
            Ok::<Token, Status>(renewed)
        };
        match renewed.await {
            Ok(renewed) => {
                tracing::info!(cluster = %key.name, expires = time::format(renewed.expires()), "renewed the token of the cluster");
                let due = RenewalTime::fresh(&renewed, now(), &self.setup.random);
                if let Some(running) = self.running().get_mut(key) {
                    running.access.adopt(Some(renewed.text().to_string()), Some((renewed, due)));
                }
                Next::After(LOOK)
            }
            // The Secret was changed by another writer: use its new token.
            Err(status) if matches!(status.reason(), "Conflict" | "NotFound") => Next::Again,
            Err(status) => {
                let expires = time::format(token.expires());
                tracing::warn!(cluster = %key.name, expires, %status, "cannot renew the token of the cluster; retrying");
                Next::After(RETRY)
            }
        }
    }

    /// Stores a new token in the Secret, unless the Secret has changed meanwhile.
    async fn store_token(&self, found: &Credentials, old: &Token, new: &Token) -> Result<(), Status> {
        let unusable = |problem: Problem| Status::internal_error(problem.to_string());
        let mut kubeconfig = Kubeconfig::parse(&found.kubeconfig).map_err(unusable)?;
        kubeconfig.replace_token(old.text(), new.text()).map_err(unusable)?;
        let patch = json!({
            "metadata": {
                "resourceVersion": found.revision,
                "annotations": { marks::EXPIRES: time::format(new.expires()) },
            },
            "data": { "kubeconfig": STANDARD.encode(kubeconfig.text()) },
        });
        let api = self.setup.informers.api();
        api.patch(&resources::SECRETS, &found.secret, "", &patch).await.map(drop)
    }

    /// Reports a cluster whose credentials cannot be used, as often as a syncer would send heartbeats.
    async fn report_unusable(&self, key: &Key, above: &Client, problem: &NotReady) -> Result<Next, Status> {
        self.stop(key).await;
        let interval = self.setup.interval;
        let report = json!({ "heartbeat": {
            "reason": problem.reason, "message": problem.message,
            "syncer": { "instance": INSTANCE, "version": env!("CARGO_PKG_VERSION") },
            "leaseDurationSeconds": guard::duration(interval).as_secs(),
        } });
        above.create(&format!("/services/sync/{}", encoded(&key.name)), &report).await?;
        Ok(Next::After(interval))
    }

    /// Stops a syncer and waits for it, so that there are never two for a cluster.
    async fn stop(&self, key: &Key) {
        let running = self.running().remove(key);
        if let Some(RunningSyncer { _stop: stop, task, .. }) = running {
            drop(stop);
            let _ = task.await;
        }
    }

    /// Reads the endpoint and credentials of a cluster, or returns why they cannot be used.
    async fn credentials(&self, key: &Key, cluster: &Value) -> Result<Result<Credentials, NotReady>, Status> {
        let missing = |detail: &str| NotReady::new("CredentialsMissing", &key.name, detail);
        let Some(SecretReference { namespace, name }) = ClusterView::of(cluster).credentials() else {
            return Ok(Err(missing("spec.credentials.secret is not set")));
        };
        let at = Key::new(&key.workspace, namespace, name);
        let found = match self.setup.informers.api().get(&resources::SECRETS, &at).await {
            Err(status) if status.reason() == "NotFound" => {
                return Ok(Err(missing(&format!("there is no Secret {namespace}/{name}"))));
            }
            found => found?,
        };
        // Without the label, a user who may register clusters but not read Secrets could use any Secret.
        if found["metadata"]["labels"][marks::CLUSTER] != *key.name {
            let detail = format!("Secret {namespace}/{name} has no label {}={}", marks::CLUSTER, key.name);
            return Ok(Err(missing(&detail)));
        }
        let read = read(&found).map_err(|problem| {
            let detail = format!("Secret {namespace}/{name}: {problem}");
            NotReady::new("CredentialsBroken", &key.name, &detail)
        });
        Ok(read.map(|(endpoint, kubeconfig)| {
            let token = endpoint.token.as_deref().and_then(Token::read);
            let token = token.map(|token| token.until(object::annotation(&found, marks::EXPIRES)));
            let revision = object::resource_version(&found).to_string();
            Credentials { secret: at, revision, kubeconfig, endpoint, token }
        }))
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Key, RunningSyncer>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PushSyncers {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        for running in running.values() {
            running.task.abort();
        }
    }
}

fn read(secret: &Value) -> Result<(Endpoint, String), String> {
    let encoded = secret["data"]["kubeconfig"].as_str().ok_or("it has no key kubeconfig")?;
    let bytes = STANDARD.decode(encoded).map_err(|_| "it is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not text")?;
    let config = Kubeconfig::parse(&text).map_err(|problem| problem.to_string())?;
    let context = config.context(config.current(), None).map_err(|problem| problem.to_string())?;
    Ok((Endpoint::of(context)?, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_hold_kubeconfigs() {
        let secret = |text: &str| json!({ "data": { "kubeconfig": STANDARD.encode(text) } });
        let good = "
current-context: a
clusters: [{ name: a, cluster: { server: 'https://a:6443', certificate-authority-data: Y2E= } }]
users: [{ name: a, user: { token: t } }]
contexts: [{ name: a, context: { cluster: a, user: a } }]
";
        let (endpoint, text) = read(&secret(good)).expect("a kubeconfig");
        assert_eq!((endpoint.server.as_str(), text.as_str()), ("https://a:6443", good));
        for (secret, expected) in [
            (json!({}), "it has no key kubeconfig"),
            (json!({ "data": { "kubeconfig": "?" } }), "it is not base64"),
            (secret("[]"), "it is not a kubeconfig"),
            (secret("{}"), "no such context"),
            (
                secret(&good.replace("token: t", "tokenFile: /etc/passwd")),
                "tokenFile names a file; put its content inline",
            ),
            (
                secret(&good.replace("certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true")),
                "it skips TLS verification; give it certificate-authority-data instead",
            ),
        ] {
            assert_eq!(read(&secret).err().as_deref(), Some(expected));
        }
    }
}
