//! Kubeconfig files: written for the admin, read and switched for the commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use atoll_authn::authority::{Identity, write_private};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::advice::{Failure, enumerate, invocation, nearest};
use crate::command::Connection;

/// Name of the extension that says where the administrator of a simulated cluster reaches it, whatever it suffers.
const CONTROL: &str = "atoll.dev/control";

/// A server and its administrator.
pub struct Entry<'a> {
    /// What the context is called, and the cluster.
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

/// What the administrator of a server is called.
fn admin(name: &str) -> String {
    format!("{name}-admin")
}

/// A kubeconfig with everything inline.
pub fn text(entries: &[Entry<'_>], current: &str) -> String {
    let users =
        entries.iter().map(|entry| json!({ "name": admin(entry.name), "user": credentials(entry.identity) }));
    let contexts = entries.iter().map(|entry| {
        json!({ "name": entry.name, "context": { "cluster": entry.name, "user": admin(entry.name) } })
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": entries.iter().map(Entry::cluster).collect::<Vec<_>>(),
        "users": users.collect::<Vec<_>>(),
        "contexts": contexts.collect::<Vec<_>>(),
        "current-context": current,
    });
    // JSON is YAML; kubectl reads both.
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// The kubeconfig at `path` with another certificate and key for a server's administrator, and all else as it is.
pub fn with_identity(path: &Path, name: &str, identity: &Identity) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut content: Value = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
    let users = content["users"].as_array_mut().into_iter().flatten();
    let admin = admin(name);
    let user = users.into_iter().find(|user| user["name"] == admin).ok_or("it has no administrator")?;
    user["user"] = credentials(identity);
    serde_saphyr::to_string(&content).map_err(|error| error.to_string())
}

fn credentials(identity: &Identity) -> Value {
    json!({
        "client-certificate-data": STANDARD.encode(&identity.certificate_pem),
        "client-key-data": STANDARD.encode(&identity.key_pem),
    })
}

/// What a context says: where the server is and who we are there.
pub struct Context {
    pub server: String,
    /// Where the administrator of a simulated cluster reaches it, whatever it suffers.
    pub control: Option<String>,
    pub authority_pem: Option<Vec<u8>>,
    pub insecure: bool,
    pub certificate_pem: Option<Vec<u8>>,
    pub key_pem: Option<Vec<u8>>,
    pub token: Option<String>,
}

pub struct Kubeconfig {
    path: PathBuf,
    content: Value,
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
        let content: Value =
            serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let current = content["current-context"].as_str().unwrap_or_default();
        let context = connection.context.clone().unwrap_or_else(|| current.to_string());
        Ok(Kubeconfig { path, content, context })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the context is called that is used.
    pub fn context_name(&self) -> &str {
        &self.context
    }

    /// The names of all contexts.
    pub fn contexts(&self) -> Vec<&str> {
        let entries = self.content["contexts"].as_array().into_iter().flatten();
        entries.filter_map(|entry| entry["name"].as_str()).collect()
    }

    /// The chosen context is not there.
    fn no_context(&self) -> Failure {
        let names = self.contexts();
        let what = match self.context.as_str() {
            "" => format!("{} has no current context", self.path.display()),
            name => format!("{} has no context {name:?}", self.path.display()),
        };
        let next = match nearest(&self.context, names.iter().copied()) {
            Some(name) => format!("did you mean --context {name}?"),
            None if names.is_empty() => {
                "it has no contexts at all; name another file with --kubeconfig".to_string()
            }
            None => format!("choose one with --context: it has {}", enumerate(&names)),
        };
        Failure::new(what, next)
    }

    pub fn context(&self) -> Result<Context, Failure> {
        let entry = named(&self.content["contexts"], &self.context).ok_or_else(|| self.no_context())?;
        let context = &entry["context"];
        let cluster = self.cluster(context)?;
        let user = context["user"].as_str().and_then(|name| named(&self.content["users"], name));
        let user = user.map_or(&Value::Null, |user| &user["user"]);
        let base = self.path.parent().unwrap_or(Path::new("."));
        if user["exec"].is_object() || user["auth-provider"].is_object() {
            return Err(Failure::new(
                format!("context {:?} gets its credentials from another program", self.context),
                "only certificates and tokens can be used here; choose a context with these",
            ));
        }
        Ok(Context {
            server: cluster["server"].as_str().unwrap_or_default().to_string(),
            control: named(&cluster["extensions"], CONTROL)
                .and_then(|entry| entry["extension"]["server"].as_str())
                .map(str::to_string),
            authority_pem: data(cluster, "certificate-authority", base)?,
            insecure: cluster["insecure-skip-tls-verify"].as_bool().unwrap_or(false),
            certificate_pem: data(user, "client-certificate", base)?,
            key_pem: data(user, "client-key", base)?,
            token: token(user, base)?,
        })
    }

    /// Points the context at another address of the same server.
    pub fn set_server(&mut self, server: &str) -> Result<(), String> {
        let context =
            named(&self.content["contexts"], &self.context).map(|entry| entry["context"]["cluster"].clone());
        let cluster = context.and_then(|name| name.as_str().map(str::to_string)).unwrap_or_default();
        let clusters = self.content["clusters"].as_array_mut();
        let entry = clusters.into_iter().flatten().find(|entry| entry["name"] == cluster.as_str());
        let entry = entry.ok_or_else(|| format!("{} has no cluster {cluster:?}", self.path.display()))?;
        entry["cluster"]["server"] = server.into();
        let text = serde_saphyr::to_string(&self.content).map_err(|error| error.to_string())?;
        write_private(&self.path, &text).map_err(|error| error.to_string())
    }

    fn cluster(&self, context: &Value) -> Result<&Value, String> {
        let name = context["cluster"].as_str().unwrap_or_default();
        let entry = named(&self.content["clusters"], name);
        entry
            .map(|entry| &entry["cluster"])
            .ok_or_else(|| format!("{} has no cluster {name:?}", self.path.display()))
    }
}

fn token(user: &Value, base: &Path) -> Result<Option<String>, String> {
    let Some(file) = user["tokenFile"].as_str() else {
        return Ok(user["token"].as_str().map(str::to_string));
    };
    let path = base.join(file);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some(text.trim().to_string()))
}

fn default_path() -> Result<PathBuf, String> {
    if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        let mut paths = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
        let first = paths.next();
        let existing = first.iter().cloned().chain(paths).find(|path| path.exists());
        // As for kubectl: whoever sets it does not mean the one at home.
        if let Some(path) = existing.or(first) {
            return Ok(path);
        }
    }
    let home = std::env::var_os("HOME").ok_or("no home directory; name a kubeconfig with --kubeconfig")?;
    Ok(Path::new(&home).join(".kube").join("config"))
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry["name"] == name)
}

/// `NAME-data` inline, or the file that `NAME` names.
fn data(holder: &Value, name: &str, base: &Path) -> Result<Option<Vec<u8>>, String> {
    if let Some(inline) = holder[format!("{name}-data")].as_str() {
        return STANDARD.decode(inline).map(Some).map_err(|error| format!("{name}-data: {error}"));
    }
    let Some(file) = holder[name].as_str() else { return Ok(None) };
    let path = base.join(file);
    std::fs::read(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}
