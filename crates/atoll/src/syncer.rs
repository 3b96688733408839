//! `atoll syncer`: an agent that syncs one cluster.

mod agent_credential;
mod own_cluster;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_client::kubeconfig::{Kubeconfig as Content, Problem, replace_file};
use atoll_client::memory_limits::{self, Budget};
use atoll_informer::SystemClock;
use atoll_syncer::renewal::{self, Token, TokenStore};
use atoll_syncer::{Random, Settings};
use atoll_tunnel::{Agent, KeepAlive};
use tokio::task::JoinSet;

use self::own_cluster::OwnCluster;
use crate::command::{Connection, SyncerOptions};
use crate::kubeconfig::{Context, Kubeconfig};
use crate::process::{self, ShutdownSignal};

pub fn run(options: SyncerOptions) -> Result<(), String> {
    process::run(&options.log, sync(&options))
}

async fn sync(options: &SyncerOptions) -> Result<(), String> {
    let stop = ShutdownSignal::listen()?;
    match (&options.from_kubeconfig, &options.to_kubeconfig) {
        (Some(from), Some(to)) => sync_with_kubeconfigs(options, from, to, stop).await,
        _ => sync_own_cluster(options, stop).await,
    }
}

async fn sync_with_kubeconfigs(
    options: &SyncerOptions,
    from: &Path,
    to: &Path,
    stop: ShutdownSignal,
) -> Result<(), String> {
    let (above, below) = (ServerConnection::open(from)?, ServerConnection::open(to)?);
    let expires = Arc::new(AtomicI64::new(i64::MAX));
    // Both tokens are renewed while the syncer runs.
    let mut renewals = JoinSet::new();
    renewals.spawn(above.renew_token(Arc::default()));
    renewals.spawn(below.renew_token(Arc::clone(&expires)));
    run_syncer(options, above.transport, below.transport, Some(expires), stop.received()).await
}

/// Syncs the cluster in which this agent runs.
async fn sync_own_cluster(options: &SyncerOptions, stop: ShutdownSignal) -> Result<(), String> {
    let own = OwnCluster::open(&options.service_account)?;
    let stopped = stop.received();
    let mut stopped = std::pin::pin!(stopped);
    let below = own.client();
    let above = tokio::select! {
        above = agent_credential::obtain(&below, &options.name) => Arc::new(above),
        () = &mut stopped => return Ok(()),
    };
    let mut renewals = JoinSet::new();
    renewals.spawn(own.keep_token());
    let cluster = options.name.clone();
    renewals.spawn(agent_credential::keep_renewed(below, above.clone(), cluster, random()));
    run_syncer(options, above, own.transport, None, stopped).await
}

/// Syncs the cluster and keeps its tunnel open, until `stop`.
async fn run_syncer(
    options: &SyncerOptions,
    above: Arc<Https>,
    below: Arc<Https>,
    expires: Option<Arc<AtomicI64>>,
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let name = &options.name;
    println!("Syncing cluster {name}.");
    let mut settings = Settings::new(name, &instance()?, random());
    settings.interval = Duration::from_secs(options.heartbeat_interval.into());
    if let Some(expires) = expires {
        settings.expires = expires;
    }
    // The control plane can send requests to the cluster.
    let mut tunnel = JoinSet::new();
    tunnel.spawn(atoll_tunnel::run(Agent {
        cluster: name.clone(),
        above: above.clone(),
        below: below.clone(),
        keep_alive: KeepAlive::default(),
        random: random(),
    }));
    let cluster = Client::new(below).charged_to(Some(Budget::new(memory_limits::CLUSTER)));
    atoll_syncer::run(settings, Client::new(above), cluster, stop).await;
    Ok(())
}

/// A connection to a server, from a kubeconfig.
struct ServerConnection {
    path: PathBuf,
    transport: Arc<Https>,
}

impl ServerConnection {
    fn open(path: &Path) -> Result<ServerConnection, String> {
        let endpoint =
            Endpoint::of(context(path)?).map_err(|problem| format!("{}: {problem}", path.display()))?;
        let transport = Https::new(&endpoint).map_err(|problem| format!("{}: {problem}", path.display()))?;
        Ok(ServerConnection { path: path.to_path_buf(), transport: Arc::new(transport) })
    }

    fn client(&self) -> Client {
        Client::new(self.transport.clone())
    }

    /// Renews the token in memory and in the file.
    fn renew_token(&self, expires: Arc<AtomicI64>) -> impl Future<Output = ()> + Send + use<> {
        let (keeper, transport) = (Arc::new(KubeconfigFile(self.path.clone())), self.transport.clone());
        let adopt = move |token: &Token| {
            expires.store(token.expires(), Ordering::Relaxed);
            if let Err(problem) = transport.use_token(token.text()) {
                tracing::warn!("cannot use the renewed token: {problem}");
            }
        };
        renewal::keep_renewed(self.client(), keeper, Arc::new(SystemClock), random(), adopt)
    }
}

fn context(path: &Path) -> Result<Context, String> {
    let connection = Connection { kubeconfig: Some(path.to_path_buf()), context: None };
    Ok(Kubeconfig::load(&connection)?.context()?)
}

/// A kubeconfig file with a token.
struct KubeconfigFile(PathBuf);

impl TokenStore for KubeconfigFile {
    fn current(&self) -> Result<Token, String> {
        let token = context(&self.0)?.token.ok_or("the kubeconfig has no token")?;
        Token::read(&token).ok_or_else(|| {
            "the token in the kubeconfig is not a ServiceAccount token, or does not expire".into()
        })
    }

    fn replace(&self, old: &Token, new: &Token) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.0.display());
        // Replace the target of a symbolic link, not the link.
        let path = self.0.canonicalize().map_err(failed)?;
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        if self.current()?.text() != old.text() {
            return Err(format!("{}: the file was changed meanwhile", self.0.display()));
        }
        let unusable = |problem: Problem| format!("{}: {problem}", self.0.display());
        let mut content = Content::parse(&text).map_err(unusable)?;
        content.replace_token(old.text(), new.text()).map_err(unusable)?;
        replace_file(&path, &content.text()).map_err(failed)
    }
}

/// A random name for this syncer, which distinguishes two that run for the same cluster.
fn instance() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(format!("syncer-{}", &atoll_meta::id::uuid_v4(bytes)[..8]))
}

/// A random number generator of the operating system.
pub fn random() -> Random {
    Arc::new(|| {
        let mut bytes = [0; 8];
        // Without random numbers, intervals merely have no jitter.
        let _ = getrandom::fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use atoll_joining::credential::with_token;

    fn token(expires: i64) -> String {
        let claims = serde_json::json!({ "sub": "system:serviceaccount:a:b", "iat": 0, "exp": expires });
        format!("e30.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn only_the_token_in_the_file_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (path, link) = (place.path().join("kubeconfig"), place.path().join("link"));
        let text = |token: &str| with_token("east", "atoll-syncer", "https://east:6443", b"authority", token);
        std::fs::write(&path, text(&token(1000))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let file = KubeconfigFile(link.clone());
        let (old, new) = (file.current().unwrap(), Token::read(&token(2000)).unwrap());
        file.replace(&old, &new).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text(&token(2000)));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2, "nothing is left behind");
        // The file has changed since `old` was read.
        assert!(file.replace(&old, &new).is_err_and(|problem| problem.contains("was changed meanwhile")));
        assert_eq!(file.current().unwrap().expires(), 2000);
    }
}
