//! Syncs all clusters that are to be synced from here, in one process: for each Cluster with the mode `push`, a syncer with
//! the credentials that its Secret holds. They share what they may do at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_client::kubeconfig::Kubeconfig;
use atoll_informer::{Cache, Clock, Informers, Key, Next, Queue, Resource, resources};
use atoll_meta::{Status, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::settings::{Access, Random, Settings};

/// Requests to all clusters together that are under way at once.
const TOGETHER: usize = 256;
const AT_ONCE: usize = 16;
/// How soon credentials that were missing are looked for again.
const AGAIN: Duration = Duration::from_secs(5);
/// Who a syncer of this process is: only one process has a control plane's data.
const INSTANCE: &str = "push";

/// What is needed for that.
pub struct Push {
    /// Of all workspaces.
    pub informers: Arc<Informers>,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    /// Between heartbeats.
    pub interval: Duration,
}

/// Runs until it is dropped.
pub async fn push(setup: Push) {
    let clusters = setup.informers.of(&clusters());
    let queue = Queue::new();
    let waking = queue.clone();
    clusters.listen(move |change| waking.add(change.key.clone()));
    clusters.synced().await;
    let fleet = Arc::new(Fleet {
        setup,
        clusters,
        budget: Arc::new(Semaphore::new(TOGETHER)),
        running: Mutex::default(),
    });
    queue
        .work("clusters to sync", AT_ONCE, move |key| {
            let fleet = fleet.clone();
            async move { fleet.sync(&key).await }
        })
        .await;
}

fn clusters() -> Resource {
    Resource {
        group: "atoll.dev".into(),
        version: "v1alpha1".into(),
        plural: "clusters".into(),
        kind: "Cluster".into(),
        namespaced: false,
    }
}

struct Fleet {
    setup: Push,
    clusters: Arc<Cache>,
    budget: Arc<Semaphore>,
    running: Mutex<HashMap<Key, Running>>,
}

/// A syncer at work.
struct Running {
    terms: Terms,
    /// Dropped, it ends.
    _stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// What it works by. If that changes, another one takes its place.
#[derive(Clone, PartialEq, Eq)]
struct Terms {
    uid: String,
    path: String,
    access: Access,
    kubeconfig: String,
}

impl Fleet {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let wanted = self.clusters.get(key).filter(|cluster| cluster["spec"]["mode"] == "push");
        let Some(cluster) = wanted else {
            self.end(key).await;
            return Ok(Next::Done);
        };
        let world = self.setup.informers.world();
        let path = world.root(&key.workspace)?;
        let above = world.client().below(&path);
        let (endpoint, kubeconfig) = match self.credentials(key, &cluster).await? {
            Ok(found) => found,
            Err(problem) => {
                self.end(key).await;
                let reason = json!({ "heartbeat": { "reason": "CredentialsMissing", "message": problem } });
                // Said once: the same again would wake us at once.
                if cluster["status"]["problem"]["message"] != problem {
                    above.create(&format!("/services/sync/{}", key.name), &reason).await?;
                }
                return Ok(Next::After(AGAIN));
            }
        };
        let access = match cluster["spec"]["access"].as_str() {
            Some("observe") => Access::Observe,
            _ => Access::Manage,
        };
        let terms = Terms { uid: object::uid(&cluster).to_string(), path, access, kubeconfig };
        if self
            .running()
            .get(key)
            .is_some_and(|running| running.terms == terms && !running.task.is_finished())
        {
            return Ok(Next::Done);
        }
        self.end(key).await;
        let below = match Https::new(&endpoint) {
            Ok(transport) => Client::new(Arc::new(transport)),
            Err(problem) => {
                tracing::warn!(cluster = %key.name, "its credentials cannot be used: {problem}");
                return Ok(Next::After(AGAIN));
            }
        };
        let mut settings = Settings::new(&key.name, INSTANCE, self.setup.random.clone());
        settings.identity = cluster["status"]["id"].as_str().filter(|id| !id.is_empty()).map(str::to_string);
        settings.workspace = key.workspace.to_string();
        settings.access = access;
        settings.interval = self.setup.interval;
        settings.budget = Some(self.budget.clone());
        settings.clock = self.setup.clock.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(crate::run(settings, above, below, async move {
            // Nothing is ever sent.
            let _ = stopped.await;
        }));
        self.running().insert(key.clone(), Running { terms, _stop: stop, task });
        Ok(Next::Done)
    }

    /// Ends a syncer, and returns when it has ended: there are never two for a cluster.
    async fn end(&self, key: &Key) {
        let running = self.running().remove(key);
        if let Some(Running { _stop: stop, task, .. }) = running {
            drop(stop);
            let _ = task.await;
        }
    }

    /// Where the cluster is and who we are there, or what is wrong with that.
    async fn credentials(
        &self,
        key: &Key,
        cluster: &Value,
    ) -> Result<Result<(Endpoint, String), String>, Status> {
        let secret = &cluster["spec"]["credentials"]["secret"];
        let (Some(namespace), Some(name)) = (secret["namespace"].as_str(), secret["name"].as_str()) else {
            return Ok(Err("spec.credentials.secret does not name a Secret; use: atoll cluster join".into()));
        };
        let at = Key::new(&key.workspace, namespace, name);
        let found = match self.setup.informers.world().get(&resources::SECRETS, &at).await {
            Err(status) if status.reason() == "NotFound" => {
                return Ok(Err(format!(
                    "the Secret {namespace}/{name} is not there; use: atoll cluster join"
                )));
            }
            found => found?,
        };
        Ok(read(&found).map_err(|problem| {
            format!(
                "the Secret {namespace}/{name} has no usable kubeconfig: {problem}; use: atoll cluster join"
            )
        }))
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Key, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Fleet {
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
                "tokenFile names a file; put what is in there inline",
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
