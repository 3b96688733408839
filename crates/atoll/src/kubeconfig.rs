//! Kubeconfig files: written for the administrator, read and changed by the commands.

mod exec;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use atoll_authn::authority::{Identity, write_private};
pub use atoll_client::kubeconfig::Context;
use atoll_client::kubeconfig::{CONTROL, Kubeconfig as Content, Problem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::advice::{Failure, closest_match, invocation, join_names};
use crate::command::Connection;

/// A server and its administrator, as entries of a kubeconfig.
pub struct Entry<'a> {
    /// Name of the context and of the cluster.
    pub name: &'a str,
    pub server: SocketAddr,
    pub control: Option<SocketAddr>,
    pub authority_pem: &'a str,
    pub identity: &'a Identity,
}

impl Entry<'_> {
    fn cluster(&self) -> Value {
        let mut cluster = json!({
            "server": format!("https://{}", self.server),
            "certificate-authority-data": STANDARD.encode(self.authority_pem),
        });
        if let Some(control) = self.control {
            let extension = json!({ "server": format!("https://{control}") });
            cluster["extensions"] = json!([{ "name": CONTROL, "extension": extension }]);
        }
        json!({ "name": self.name, "cluster": cluster })
    }
}

/// The name of a server's administrator in the kubeconfig.
fn admin_user(name: &str) -> String {
    format!("{name}-admin")
}

/// Renders a self-contained kubeconfig.
pub fn render(entries: &[Entry<'_>], current: &str) -> String {
    let users = entries
        .iter()
        .map(|entry| json!({ "name": admin_user(entry.name), "user": credentials(entry.identity) }));
    let contexts = entries.iter().map(|entry| {
        json!({ "name": entry.name, "context": { "cluster": entry.name, "user": admin_user(entry.name) } })
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": entries.iter().map(Entry::cluster).collect::<Vec<_>>(),
        "users": users.collect::<Vec<_>>(),
        "contexts": contexts.collect::<Vec<_>>(),
        "current-context": current,
    });
    // JSON is valid YAML; kubectl reads both.
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// The kubeconfig at `path` with a new certificate and key for a server's administrator, otherwise unchanged.
pub fn with_identity(path: &Path, name: &str, identity: &Identity) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let changed = Content::parse(&text).and_then(|mut content| {
        content.set_user(&admin_user(name), credentials(identity))?;
        Ok(content.text())
    });
    changed.map_err(|problem| problem.to_string())
}

fn credentials(identity: &Identity) -> Value {
    json!({
        "client-certificate-data": STANDARD.encode(&identity.certificate_pem),
        "client-key-data": STANDARD.encode(&identity.key_pem),
    })
}

/// Extension of a context: the previous workspace.
const PREVIOUS: &str = "atoll.dev/previous-workspace";

pub struct Kubeconfig {
    path: PathBuf,
    content: Content,
    context: String,
}

impl Kubeconfig {
    pub fn load(connection: &Connection) -> Result<Self, Failure> {
        let path = connection.kubeconfig.clone().map_or_else(default_path, Ok)?;
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::new(
                format!("no kubeconfig: {}: {error}", path.display()),
                format!(
                    "name one with --kubeconfig or $KUBECONFIG; {} start writes admin.kubeconfig into its data directory",
                    invocation()
                ),
            )
        })?;
        let content = Content::parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))?;
        let context = connection.context.clone().unwrap_or_else(|| content.current().to_string());
        Ok(Kubeconfig { path, content, context })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the selected context.
    pub fn context_name(&self) -> &str {
        &self.context
    }

    /// The names of all contexts.
    pub fn contexts(&self) -> Vec<&str> {
        self.content.contexts()
    }

    /// The failure for a selected context that does not exist.
    fn no_context(&self) -> Failure {
        let names = self.contexts();
        let what = match self.context.as_str() {
            "" => format!("{} has no current context", self.path.display()),
            name => format!("{} has no context {name:?}", self.path.display()),
        };
        let next = match closest_match(&self.context, names.iter().copied()) {
            Some(name) => format!("did you mean --context {name}?"),
            None if names.is_empty() => "it has no contexts; name another file with --kubeconfig".to_string(),
            None => format!("choose one with --context: it has {}", join_names(&names)),
        };
        Failure::new(what, next)
    }

    pub fn context(&self) -> Result<Context, Failure> {
        let base = self.path.parent().unwrap_or(Path::new("."));
        self.content.context(&self.context, Some(base)).map_err(|problem| self.failure(&problem))
    }

    /// The same, running the context's exec credential plugin if it has one. Kubeconfigs of managed clusters
    /// often need it.
    pub fn context_with_exec(&mut self) -> Result<Context, Failure> {
        if let Some(exec) = self.content.credential_plugin(&self.context) {
            let base = self.path.parent().unwrap_or(Path::new(".")).to_path_buf();
            let user = exec::credentials(&exec, &base)?;
            // Kept in memory only.
            self.content.set_user(&exec.user, user).map_err(|problem| self.failure(&problem))?;
        }
        self.context()
    }

    /// The workspace that the context pointed to before the current one.
    pub fn previous_workspace(&self) -> Option<&str> {
        self.content.extension(&self.context, PREVIOUS)?["workspace"].as_str()
    }

    /// Points the context at another address of the same server, and records the workspace that it pointed
    /// to.
    pub fn set_server(&mut self, server: &str, left: &str) -> Result<(), Failure> {
        let noted = serde_json::json!({ "workspace": left });
        let changed = self.content.set_extension(&self.context, PREVIOUS, noted);
        changed.map_err(|problem| self.failure(&problem))?;
        let changed = self.content.set_server(&self.context, server);
        changed.map_err(|problem| self.failure(&problem))?;
        Ok(write_private(&self.path, &self.content.text()).map_err(|error| error.to_string())?)
    }

    fn failure(&self, problem: &Problem) -> Failure {
        match problem {
            Problem::NoContext => self.no_context(),
            Problem::NoCluster(_) | Problem::NoUser(_) => {
                format!("{} has {problem}", self.path.display()).into()
            }
            Problem::ExecPlugin => Failure::new(
                format!("context {:?} gets its credentials from another program", self.context),
                "only certificates and tokens are supported here; choose a context with one of these",
            ),
            Problem::Form(_) | Problem::File(_) | Problem::Content(_) => problem.to_string().into(),
        }
    }
}

fn default_path() -> Result<PathBuf, String> {
    if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        let mut paths = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
        let first = paths.next();
        let existing = first.iter().cloned().chain(paths).find(|path| path.exists());
        // As in kubectl: if KUBECONFIG is set, ~/.kube/config is not used.
        if let Some(path) = existing.or(first) {
            return Ok(path);
        }
    }
    let home = std::env::var_os("HOME").ok_or("no home directory; name a kubeconfig with --kubeconfig")?;
    Ok(Path::new(&home).join(".kube").join("config"))
}
