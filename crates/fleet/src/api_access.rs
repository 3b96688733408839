//! How Pods in clusters reach the API of their workspace: a volume with the token of their ServiceAccount, the
//! certificate authority and the namespace above, and environment variables with the address. Clients in Pods
//! look there, whatever language they are written in.
//!
//! ```text
//!   ServiceAccount above ─► token ─► access Secret ─┐
//!                                                   ├─► Pod template below
//!   advertised address ─► KUBERNETES_SERVICE_HOST ──┘
//! ```

mod adopted;

use std::net::{IpAddr, SocketAddr};

use atoll_meta::views::items;
use atoll_meta::{base64, object};
use serde_json::{Value, json};

pub use self::adopted::{has_adopted_template, with_adopted_template};
use crate::namespaces::{base32, hash};
use crate::references::POD_SPECS;
use crate::service_account;
use crate::view::{ObjectTarget, SyncResource};

/// Annotation of a Pod template: whose API its Pods use, `cluster` or `workspace`.
pub const ANNOTATION: &str = "atoll.dev/api";
/// Type of the Secrets.
pub const SECRET_TYPE: &str = "atoll.dev/service-account-token";
/// Annotation of such a Secret: the name of its ServiceAccount above.
pub const ACCOUNT: &str = "atoll.dev/service-account";

/// Where clients in Pods look for their credentials.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";
const PORT_HTTPS: &str = "KUBERNETES_SERVICE_PORT_HTTPS";
/// The lists of containers of a Pod.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// ConfigMap with the certificate authority of the cluster.
const ROOT_CA: &str = "kube-root-ca.crt";
/// Beginning of the names of Secrets and volumes.
const PREFIX: &str = "atoll-api-";

/// Kinds that create Pods, by API group.
const KINDS: [(&str, &[&str]); 3] = [
    ("", &["Pod", "ReplicationController"]),
    ("apps", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("batch", &["CronJob", "Job"]),
];

/// Whether Pods on other machines may be able to reach an address.
pub fn is_reachable(address: IpAddr) -> bool {
    let address = address.to_canonical();
    !address.is_loopback() && !address.is_unspecified()
}

/// A ServiceAccount above.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountRef {
    /// Workspace id.
    pub workspace: String,
    pub namespace: String,
    pub name: String,
}

impl AccountRef {
    /// Returns the name of the access Secret, and of the volume with it. It never changes, because it is part
    /// of Pod templates.
    pub fn secret_name(&self) -> String {
        format!("{PREFIX}{}", base32(hash(&[&self.workspace, &self.namespace, &self.name])))
    }

    /// Returns the target of the access Secret. There is no such object above.
    pub fn target(&self) -> ObjectTarget {
        let name = self.secret_name();
        ObjectTarget {
            resource: SyncResource {
                group: String::new(),
                version: "v1".into(),
                resource: "secrets".into(),
                kind: "Secret".into(),
                namespaced: true,
            },
            workspace: self.workspace.clone(),
            namespace: self.namespace.clone(),
            uid: name.clone(),
            name,
        }
    }

    /// Returns the access Secret. Without a token, Pods start nevertheless. `expires` is the time at which the
    /// token expires.
    pub fn secret(&self, token: Option<&str>, authority_pem: &str, expires: &str) -> Value {
        let mut data = json!({
            "ca.crt": base64::encode(authority_pem.as_bytes()),
            "namespace": base64::encode(self.namespace.as_bytes()),
        });
        if let Some(token) = token {
            data["token"] = base64::encode(token.as_bytes()).into();
        }
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": self.secret_name(), "namespace": self.namespace,
                "annotations": { ACCOUNT: self.name, crate::marks::EXPIRES: expires },
            },
            "type": SECRET_TYPE,
            "data": data,
        })
    }
}

/// Whether an object of a cluster is an access Secret, from its metadata.
pub fn is_access_secret(found: &Value) -> bool {
    is_reserved_name(object::name(found)) && object::annotation(found, ACCOUNT).is_some()
}

/// Whether a name is reserved for access Secrets.
pub fn is_reserved_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the value of the annotation on the Pod template of an object, if it is invalid.
pub fn invalid_choice(object: &Value) -> Option<&str> {
    choice(object).filter(|choice| !matches!(*choice, "cluster" | "workspace"))
}

fn choice(object: &Value) -> Option<&str> {
    let spec = pod_spec_path(object)?;
    let template = object.pointer(spec.strip_suffix("/spec")?)?;
    object::annotation(template, ANNOTATION)
}

/// Returns the name of the ServiceAccount of an object's Pods, unless they use the API of their cluster.
pub fn account(object: &Value) -> Option<&str> {
    pod_spec_path(object)?;
    if choice(object) == Some("cluster") {
        return None;
    }
    Some(service_account::account(object)?.name)
}

/// Returns the path of the Pod specification of an object that creates Pods.
fn pod_spec_path(object: &Value) -> Option<&'static str> {
    let group = object::split_api_version(object::api_version(object)).map_or("", |(group, _)| group);
    let kind = object::kind(object);
    KINDS.iter().find(|(of, kinds)| *of == group && kinds.contains(&kind))?;
    match kind {
        "Pod" => Some("/spec"),
        _ => POD_SPECS.iter().copied().find(|path| object.pointer(path).is_some_and(Value::is_object)),
    }
}

/// Lets the Pods of an object use the API of their workspace. `automounts` is whether the ServiceAccount has
/// its token mounted in Pods that do not say otherwise. Returns whether the object now refers to the access
/// Secret.
pub fn give_access(object: &mut Value, account: &AccountRef, automounts: bool, address: SocketAddr) -> bool {
    let Some(spec) = pod_spec_path(object).and_then(|path| object.pointer_mut(path)) else { return false };
    let name = account.secret_name();
    if items(&spec["volumes"]).iter().any(|volume| volume["name"] == *name) {
        return false;
    }
    // Volumes that a user has written for the token of this API.
    let mut volumes = Vec::new();
    for volume in list_mut(spec, "volumes") {
        if replace_sources(volume, &name) {
            volumes.extend(volume["name"].as_str().map(str::to_owned));
        }
    }
    if spec["automountServiceAccountToken"].as_bool().unwrap_or(automounts) {
        let mut is_mounted = false;
        for list in CONTAINERS {
            for container in list_mut(spec, list) {
                is_mounted |= mount(container, &name);
            }
        }
        if is_mounted {
            // Optional: Pods start although the token is missing, as when the object was released.
            let volume = json!({
                "name": name, "secret": { "secretName": name, "defaultMode": 0o644, "optional": true },
            });
            push(&mut spec["volumes"], volume);
            volumes.push(name);
        }
        // Otherwise the cluster would mount its own token.
        spec["automountServiceAccountToken"] = false.into();
    }
    for list in CONTAINERS {
        for container in list_mut(spec, list) {
            let uses = |mount: &Value| volumes.iter().any(|name| mount["name"] == **name);
            if items(&container["volumeMounts"]).iter().any(uses) {
                set_address(container, address);
            }
        }
    }
    !volumes.is_empty()
}

fn list_mut<'a>(spec: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(all) => all.push(item),
        none => *none = json!([item]),
    }
}

/// Mounts the volume in a container that has nothing at that path.
fn mount(container: &mut Value, volume: &str) -> bool {
    let is_there = |mount: &Value| {
        mount["mountPath"].as_str().is_some_and(|path| path.trim_end_matches('/') == MOUNT_PATH)
    };
    if items(&container["volumeMounts"]).iter().any(is_there) {
        return false;
    }
    let mount = json!({ "name": volume, "readOnly": true, "mountPath": MOUNT_PATH });
    push(&mut container["volumeMounts"], mount);
    true
}

/// Sets the address in the environment of a container, unless it has one of its own.
fn set_address(container: &mut Value, address: SocketAddr) {
    if items(&container["env"]).iter().any(|variable| variable["name"] == HOST || variable["name"] == PORT) {
        return;
    }
    let port = address.port().to_string();
    for (name, value) in [(HOST, address.ip().to_string()), (PORT, port.clone()), (PORT_HTTPS, port)] {
        if !items(&container["env"]).iter().any(|variable| variable["name"] == name) {
            push(&mut container["env"], json!({ "name": name, "value": value }));
        }
    }
}

/// Replaces the sources of a projected volume with a token for the API, as in Pods whose token is not mounted
/// by itself. Tokens for other audiences stay: they are for programs that trust the cluster.
fn replace_sources(volume: &mut Value, secret: &str) -> bool {
    let Some(sources) = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut) else {
        return false;
    };
    let is_token = |source: &Value| {
        let token = &source["serviceAccountToken"];
        token.is_object() && token["audience"].as_str().is_none_or(str::is_empty)
    };
    if !sources.iter().any(is_token) {
        return false;
    }
    let item = |key: &str, path: &Value| json!({ "secret": { "name": secret, "optional": true, "items": [{ "key": key, "path": path }] } });
    for source in sources {
        if is_token(source) {
            *source = item("token", &source["serviceAccountToken"]["path"]);
        } else if source["configMap"]["name"] == ROOT_CA {
            let path = source["configMap"]["items"][0]["path"].as_str().unwrap_or("ca.crt").into();
            *source = item("ca.crt", &path);
        } else if let [only] = items(&source["downwardAPI"]["items"])
            && only["fieldRef"]["fieldPath"] == "metadata.namespace"
        {
            *source = item("namespace", &only["path"]);
        }
    }
    true
}

#[cfg(test)]
mod tests;
