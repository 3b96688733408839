//! Kubeconfigs that are written for the administrator, and those that the commands use.

mod exec;

use std::net::SocketAddr;
use std::path::Path;

use atoll_authn::authority::Identity;
pub use atoll_client::kubeconfig::Context;
use atoll_client::kubeconfig::{
    CONTROL, Kubeconfig as Content, KubeconfigFiles, LoadError, Problem, Selection,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::advice::{Failure, closest_match, invocation, join_names};
use crate::command::Connection;
use crate::process::{quoted, quoted_path};

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

/// The kubeconfig files of the user, and the selected context.
pub struct Kubeconfig {
    files: KubeconfigFiles,
    context: String,
}

impl Kubeconfig {
    pub fn load(connection: &Connection) -> Result<Self, Failure> {
        let selection = Selection::from_environment(connection.kubeconfig.as_deref());
        let files = KubeconfigFiles::load(&selection).map_err(|error| match error {
            LoadError::NoneNamed | LoadError::Missing(_) => Failure::new(
                format!("no kubeconfig: {error}"),
                format!(
                    "name one with --kubeconfig or $KUBECONFIG; {} start writes admin.kubeconfig into its data directory",
                    invocation()
                ),
            ),
            LoadError::File { .. } | LoadError::Entry(_) => error.to_string().into(),
        })?;
        let context = connection.context.clone().unwrap_or_else(|| files.merged().current().to_string());
        Ok(Kubeconfig { files, context })
    }

    /// The command that runs kubectl with the same files and context.
    pub fn kubectl(&self) -> String {
        let paths: Vec<&Path> = self.files.paths().collect();
        let context = quoted(&self.context);
        match &paths[..] {
            [path] => format!("kubectl --kubeconfig {} --context {context}", quoted_path(path)),
            _ => format!("KUBECONFIG={} kubectl --context {context}", quoted(&self.shown(":"))),
        }
    }

    /// The paths of the files.
    fn shown(&self, separator: &str) -> String {
        let paths = self.files.paths().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>().join(separator)
    }

    /// The names of all contexts.
    pub fn contexts(&self) -> Vec<&str> {
        self.files.merged().contexts()
    }

    /// The failure for a selected context that does not exist.
    fn no_context(&self) -> Failure {
        let names = self.contexts();
        let what = match self.context.as_str() {
            "" => format!("{} has no current context", self.shown(", ")),
            name => format!("{} has no context {name:?}", self.shown(", ")),
        };
        let next = match closest_match(&self.context, names.iter().copied()) {
            Some(name) => format!("did you mean --context {name}?"),
            None if names.is_empty() => "it has no contexts; name another file with --kubeconfig".to_string(),
            None => format!("choose one with --context: it has {}", join_names(&names)),
        };
        Failure::new(what, next)
    }

    pub fn context(&self) -> Result<Context, Failure> {
        self.files.context(&self.context).map_err(|problem| self.failure(&problem))
    }

    /// The same, running the context's exec credential plugin if it has one. Kubeconfigs of managed clusters
    /// often need it.
    pub fn context_with_exec(&mut self) -> Result<Context, Failure> {
        if let Some(plugin) = self.files.merged().credential_plugin(&self.context) {
            let user = exec::credentials(&plugin)?;
            self.files.use_credentials(&plugin, user).map_err(|problem| self.failure(&problem))?;
        }
        self.context()
    }

    /// The workspace that the context pointed to before the current one.
    pub fn previous_workspace(&self) -> Option<&str> {
        self.files.merged().extension(&self.context, PREVIOUS)?["workspace"].as_str()
    }

    /// Points the context at another address of the same server, and records the workspace that it pointed
    /// to.
    pub fn set_server(&mut self, server: &str, left: &str) -> Result<(), Failure> {
        let changed = self
            .files
            .set_extension(&self.context, PREVIOUS, &json!({ "workspace": left }))
            .and_then(|()| self.files.set_server(&self.context, server));
        changed.map_err(|error| match error {
            LoadError::Entry(problem) => self.failure(&problem),
            error => error.to_string().into(),
        })
    }

    fn failure(&self, problem: &Problem) -> Failure {
        match problem {
            Problem::NoContext => self.no_context(),
            Problem::NoCluster(_) | Problem::NoUser(_) => {
                format!("{} has {problem}", self.shown(", ")).into()
            }
            Problem::ExecPlugin => Failure::new(
                format!("context {:?} gets its credentials from another program", self.context),
                "only certificates and tokens are supported here; choose a context with one of these",
            ),
            Problem::Form(_) | Problem::File(_) | Problem::Content(_) => problem.to_string().into(),
        }
    }
}
