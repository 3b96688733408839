//! Kubeconfigs: the content of one, and the files of a user, which are merged.

// upstream: staging/src/k8s.io/client-go/tools/clientcmd/api/v1/types.go

mod files;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub use files::{KubeconfigFiles, LoadError, Selection, replace_file};

/// Name of the extension with the control address of a simulated cluster, which network faults do not affect.
pub const CONTROL: &str = "atoll.dev/control";

/// The lists of a kubeconfig. The entries of each have different names.
const ENTRIES: [&str; 3] = ["clusters", "users", "contexts"];

/// The parsed content of a kubeconfig file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubeconfig {
    content: Value,
}

/// The server and credentials of a context.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Context {
    pub server: String,
    /// Control address of a simulated cluster, which network faults do not affect.
    pub control: Option<String>,
    pub authority_pem: Option<Vec<u8>>,
    pub insecure: bool,
    pub certificate_pem: Option<Vec<u8>>,
    pub key_pem: Option<Vec<u8>>,
    pub token: Option<String>,
    /// Default namespace.
    pub namespace: Option<String>,
}

/// An exec credential plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialPlugin {
    /// The kubeconfig user that it provides credentials for.
    pub user: String,
    /// API version of the ExecCredential that it prints.
    pub api_version: String,
    pub command: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

/// Omits keys and tokens, so that they do not get into logs.
impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Error in a kubeconfig. No variant contains a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not YAML, or not a map.
    Form(String),
    NoContext,
    NoCluster(String),
    NoUser(String),
    /// Credentials come from an exec plugin or auth provider.
    ExecPlugin,
    /// Credentials are in a file, and files may not be read.
    File(&'static str),
    /// Invalid content of a field, or of a file that it names.
    Content(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Form(problem) | Problem::Content(problem) => out.write_str(problem),
            Problem::NoContext => out.write_str("no such context"),
            Problem::NoCluster(name) => write!(out, "no cluster {name:?}"),
            Problem::NoUser(name) => write!(out, "no user {name:?}"),
            Problem::ExecPlugin => out.write_str("credentials come from an exec plugin or auth provider"),
            Problem::File(what) => write!(out, "{what} names a file; put its content inline"),
        }
    }
}

impl std::error::Error for Problem {}

impl Kubeconfig {
    pub fn parse(text: &str) -> Result<Kubeconfig, Problem> {
        // A parser error may quote a key.
        let content: Value = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location().map(|place| format!(" at line {}", place.line()));
            Problem::Form(format!("it is not YAML{}", place.unwrap_or_default()))
        })?;
        if !content.is_object() {
            return Err(Problem::Form("it is not a kubeconfig".into()));
        }
        // kubectl refuses such a file as well.
        for list in ENTRIES {
            let mut seen = HashSet::new();
            let names = entries(&content[list]).map(|entry| entry["name"].as_str().unwrap_or_default());
            for name in names {
                if !seen.insert(name) {
                    return Err(Problem::Form(format!("it has two {list} with the name {name:?}")));
                }
            }
        }
        Ok(Kubeconfig { content })
    }

    /// Returns the YAML, as kubectl writes it.
    pub fn text(&self) -> String {
        // Fall back to JSON, which is valid YAML.
        serde_saphyr::to_string(&self.content).unwrap_or_else(|_| self.content.to_string())
    }

    /// Returns the name of the current context.
    pub fn current(&self) -> &str {
        self.content["current-context"].as_str().unwrap_or_default()
    }

    /// Returns the names of all contexts.
    pub fn contexts(&self) -> Vec<&str> {
        entries(&self.content["contexts"]).filter_map(|entry| entry["name"].as_str()).collect()
    }

    /// Returns a context. File names are relative to `base`; without `base`, file names are an error.
    pub fn context(&self, name: &str, base: Option<&Path>) -> Result<Context, Problem> {
        let context = &named(&self.content["contexts"], name).ok_or(Problem::NoContext)?["context"];
        let cluster = context["cluster"].as_str().unwrap_or_default();
        let cluster = named(&self.content["clusters"], cluster)
            .map(|entry| &entry["cluster"])
            .filter(|settings| settings.is_object())
            .ok_or_else(|| Problem::NoCluster(cluster.to_string()))?;
        let user = match context["user"].as_str().filter(|name| !name.is_empty()) {
            None => &Value::Null,
            Some(name) => named(&self.content["users"], name)
                .map(|entry| &entry["user"])
                .ok_or_else(|| Problem::NoUser(name.to_string()))?,
        };
        if user["exec"].is_object() || user["auth-provider"].is_object() {
            return Err(Problem::ExecPlugin);
        }
        Ok(Context {
            server: cluster["server"].as_str().unwrap_or_default().to_string(),
            control: named(&cluster["extensions"], CONTROL)
                .and_then(|entry| entry["extension"]["server"].as_str())
                .map(str::to_string),
            authority_pem: data(cluster, ["certificate-authority", "certificate-authority-data"], base)?,
            insecure: cluster["insecure-skip-tls-verify"].as_bool().unwrap_or(false),
            certificate_pem: data(user, ["client-certificate", "client-certificate-data"], base)?,
            key_pem: data(user, ["client-key", "client-key-data"], base)?,
            token: token(user, base)?,
            namespace: context["namespace"].as_str().filter(|name| !name.is_empty()).map(str::to_string),
        })
    }

    /// Returns the exec credential plugin of a context, if it has one.
    pub fn credential_plugin(&self, context: &str) -> Option<CredentialPlugin> {
        let context = &named(&self.content["contexts"], context)?["context"];
        let exec = &named(&self.content["users"], context["user"].as_str()?)?["user"]["exec"];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        Some(CredentialPlugin {
            user: text(&context["user"]),
            api_version: text(&exec["apiVersion"]),
            command: exec["command"].as_str().filter(|command| !command.is_empty())?.to_string(),
            arguments: list(&exec["args"]).iter().map(text).collect(),
            environment: list(&exec["env"])
                .iter()
                .map(|it| (text(&it["name"]), text(&it["value"])))
                .collect(),
        })
    }

    /// Returns the name of the cluster of a context.
    pub fn cluster_name(&self, context: &str) -> Result<&str, Problem> {
        let entry = named(&self.content["contexts"], context).ok_or(Problem::NoContext)?;
        Ok(entry["context"]["cluster"].as_str().unwrap_or_default())
    }

    /// Changes the address of a cluster's server.
    pub fn set_server(&mut self, cluster: &str, server: &str) -> Result<(), Problem> {
        match named_mut(&mut self.content["clusters"], cluster).map(|entry| &mut entry["cluster"]) {
            Some(Value::Object(settings)) => settings.insert("server".into(), server.into()),
            _ => return Err(Problem::NoCluster(cluster.to_string())),
        };
        Ok(())
    }

    /// Replaces a token. The new one is only ever set as a value of the document, never spliced into its
    /// text.
    pub fn replace_token(&mut self, old: &str, new: &str) -> Result<(), Problem> {
        if !is_token(new) {
            return Err(Problem::Content("the new token is not a JWT".into()));
        }
        let scope = self.content["users"].as_array_mut().into_iter().flatten();
        let tokens = scope.filter_map(|entry| entry.get_mut("user")?.get_mut("token"));
        let mut is_there = false;
        for token in tokens.filter(|token| **token == *old) {
            *token = new.into();
            is_there = true;
        }
        match is_there {
            true => Ok(()),
            false => Err(Problem::Content("no user has the token that is to be replaced".into())),
        }
    }

    /// Returns an extension of a context.
    pub fn extension(&self, context: &str, name: &str) -> Option<&Value> {
        let entry = named(&self.content["contexts"], context)?;
        named(&entry["context"]["extensions"], name).map(|found| &found["extension"])
    }

    /// Sets an extension of a context, replacing one with the same name.
    pub fn set_extension(&mut self, context: &str, name: &str, extension: Value) -> Result<(), Problem> {
        let entry = named_mut(&mut self.content["contexts"], context).ok_or(Problem::NoContext)?;
        let Some(settings) = entry["context"].as_object_mut() else { return Err(Problem::NoContext) };
        let mut kept = match settings.remove("extensions") {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        kept.retain(|one| one["name"] != name);
        kept.push(serde_json::json!({ "name": name, "extension": extension }));
        settings.insert("extensions".into(), kept.into());
        Ok(())
    }

    /// Replaces the credentials of a user.
    pub fn set_user(&mut self, user: &str, credentials: Value) -> Result<(), Problem> {
        match named_mut(&mut self.content["users"], user) {
            Some(Value::Object(entry)) => entry.insert("user".into(), credentials),
            _ => return Err(Problem::NoUser(user.to_string())),
        };
        Ok(())
    }
}

/// Longest accepted token. ServiceAccount tokens have one or two thousand characters.
const LONGEST_TOKEN: usize = 16 << 10;

/// Whether a text can be a ServiceAccount token: three parts of JWT characters. A token from a server is
/// written to files and headers, so nothing else is accepted.
pub fn is_token(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
    };
    text.len() <= LONGEST_TOKEN && text.split('.').count() == 3 && text.split('.').all(is_part)
}

fn token(user: &Value, base: Option<&Path>) -> Result<Option<String>, Problem> {
    let Some(file) = user["tokenFile"].as_str() else {
        return Ok(user["token"].as_str().map(str::to_string));
    };
    let content = read("tokenFile", file, base)?;
    Ok(Some(String::from_utf8_lossy(&content).trim().to_string()))
}

/// Returns the inline data, or the content of the named file.
fn data(
    holder: &Value,
    [file, inline]: [&'static str; 2],
    base: Option<&Path>,
) -> Result<Option<Vec<u8>>, Problem> {
    if let Some(text) = holder[inline].as_str() {
        return STANDARD
            .decode(text)
            .map(Some)
            .map_err(|error| Problem::Content(format!("{inline}: {error}")));
    }
    holder[file].as_str().map(|path| read(file, path, base)).transpose()
}

fn read(what: &'static str, file: &str, base: Option<&Path>) -> Result<Vec<u8>, Problem> {
    let path = base.ok_or(Problem::File(what))?.join(file);
    std::fs::read(&path).map_err(|error| Problem::Content(format!("{}: {error}", path.display())))
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry["name"] == name)
}

fn named_mut<'a>(list: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    list.as_array_mut()?.iter_mut().find(|entry| entry["name"] == name)
}

#[cfg(test)]
mod tests;
