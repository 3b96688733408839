//! `atoll syncer`: one cluster, from two kubeconfigs and a name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use atoll_client::Client;
use atoll_client::https::{Endpoint, Https};
use atoll_client::kubeconfig::{Kubeconfig as Content, Problem};
use atoll_client::memory::{self, Budget};
use atoll_informer::SystemClock;
use atoll_syncer::renewal::{self, Keeper, Token};
use atoll_syncer::{Random, Settings};
use tokio::task::JoinSet;

use crate::command::{Connection, SyncerOptions};
use crate::kubeconfig::{Context, Kubeconfig};
use crate::process::{self, Stop};

pub fn run(options: SyncerOptions) -> Result<(), String> {
    process::run(&options.log, sync(&options))
}

async fn sync(options: &SyncerOptions) -> Result<(), String> {
    let name = &options.name;
    let (above, below) = (Way::open(&options.from_kubeconfig)?, Way::open(&options.to_kubeconfig)?);
    let stop = Stop::listen()?;
    println!("Syncing the cluster {name}.");
    let mut settings = Settings::new(name, &instance()?, random());
    settings.interval = Duration::from_secs(options.heartbeat_interval.into());
    // Both tokens are renewed for as long as it runs.
    let mut renewals = JoinSet::new();
    renewals.spawn(above.renewed(Arc::default()));
    renewals.spawn(below.renewed(settings.expires.clone()));
    let cluster = below.client().charged_to(Some(Budget::new(memory::CLUSTER)));
    atoll_syncer::run(settings, above.client(), cluster, stop.asked()).await;
    Ok(())
}

/// The way to a server, as a file says it.
struct Way {
    path: PathBuf,
    transport: Arc<Https>,
}

impl Way {
    fn open(path: &Path) -> Result<Way, String> {
        let endpoint =
            Endpoint::of(context(path)?).map_err(|problem| format!("{}: {problem}", path.display()))?;
        let transport = Https::new(&endpoint).map_err(|problem| format!("{}: {problem}", path.display()))?;
        Ok(Way { path: path.to_path_buf(), transport: Arc::new(transport) })
    }

    fn client(&self) -> Client {
        Client::new(self.transport.clone())
    }

    /// Keeps its token fresh, in memory and in the file.
    fn renewed(&self, expires: Arc<AtomicI64>) -> impl Future<Output = ()> + Send + use<> {
        let (keeper, transport) = (Arc::new(File(self.path.clone())), self.transport.clone());
        let adopt = move |token: &Token| {
            expires.store(token.expires(), Ordering::Relaxed);
            if let Err(problem) = transport.use_token(token.text()) {
                tracing::warn!("a token cannot be used: {problem}");
            }
        };
        renewal::keep(self.client(), keeper, Arc::new(SystemClock), random(), adopt)
    }
}

fn context(path: &Path) -> Result<Context, String> {
    let connection = Connection { kubeconfig: Some(path.to_path_buf()), context: None };
    Ok(Kubeconfig::load(&connection)?.context()?)
}

/// A kubeconfig with a token in it.
struct File(PathBuf);

impl Keeper for File {
    fn current(&self) -> Result<Token, String> {
        let token = context(&self.0)?.token.ok_or("it has no token")?;
        Token::read(&token)
            .ok_or_else(|| "its token is not one of a ServiceAccount, or does not expire".into())
    }

    fn replace(&self, old: &Token, new: &Token) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.0.display());
        // What a link leads to is replaced, not the link.
        let path = self.0.canonicalize().map_err(failed)?;
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        if self.current()?.text() != old.text() {
            return Err(format!("{}: somebody has changed it meanwhile", self.0.display()));
        }
        let unusable = |problem: Problem| format!("{}: {problem}", self.0.display());
        let mut content = Content::parse(&text).map_err(unusable)?;
        content.replace_token(old.text(), new.text()).map_err(unusable)?;
        write_alike(&path, &content.text()).map_err(failed)
    }
}

/// Replaces a file at once, with the permissions that it has.
fn write_alike(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    let draft = path.with_extension("draft");
    // One that was left behind may be open to more people.
    let _ = std::fs::remove_file(&draft);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode & 0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

/// Who this one is: two that run at once for the same cluster are told apart.
fn instance() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(format!("syncer-{}", &atoll_meta::id::uuid_v4(bytes)[..8]))
}

/// From the machine.
pub fn random() -> Random {
    Arc::new(|| {
        let mut bytes = [0; 8];
        // Without randomness pauses are merely all alike.
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
    use crate::kubeconfig::with_token;

    fn token(expires: i64) -> String {
        let claims = serde_json::json!({ "sub": "system:serviceaccount:a:b", "iat": 0, "exp": expires });
        format!("e30.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_is_replaced_in_its_file_and_nothing_else_changes() {
        let place = tempfile::tempdir().unwrap();
        let (path, link) = (place.path().join("kubeconfig"), place.path().join("link"));
        let text = |token: &str| with_token("east", "atoll-syncer", "https://east:6443", b"authority", token);
        std::fs::write(&path, text(&token(1000))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let file = File(link.clone());
        let (old, new) = (file.current().unwrap(), Token::read(&token(2000)).unwrap());
        file.replace(&old, &new).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text(&token(2000)));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2, "nothing is left behind");
        // Somebody was faster.
        assert!(file.replace(&old, &new).is_err_and(|problem| problem.contains("somebody has changed it")));
        assert_eq!(file.current().unwrap().expires(), 2000);
    }
}
