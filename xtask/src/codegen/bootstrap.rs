//! Lists the objects that kube-apiserver creates in an empty cluster, by starting a real one. Descriptions
//! and fields that differ between runs are removed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value};

/// Resource names for kubectl, in the order of the output.
const RESOURCES: [&str; 8] = [
    "priorityclasses.scheduling.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// Returns one line per object: its resource, a space, its JSON.
pub fn print(root: &Path) -> Result<Vec<u8>, String> {
    let directory = std::env::temp_dir().join(format!("atoll-bootstrap-{}", std::process::id()));
    let server = Server::start(root, &directory)?;
    let kubectl = program(root, "kubectl")?;
    let mut lines = String::new();
    for resource in RESOURCES {
        let listed = Command::new(&kubectl)
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .args(["get", resource, "--all-namespaces", "--output=json"])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot run kubectl: {error}"))?;
        let mut list: Value =
            serde_json::from_slice(&listed.stdout).map_err(|error| format!("{resource}: {error}"))?;
        let objects =
            list["items"].as_array_mut().ok_or_else(|| format!("cannot list {resource}: no items"))?;
        objects.sort_by_key(|object| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"))
        });
        for object in objects {
            remove_variable_fields(object);
            lines.push_str(&format!("{resource} {object}\n"));
        }
    }
    drop(server);
    Ok(lines.into_bytes())
}

fn remove_variable_fields(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    for field in ["kind", "apiVersion", "description"] {
        fields.remove(field);
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            !matches!(name.as_str(), "uid" | "resourceVersion" | "creationTimestamp" | "managedFields")
        });
    }
    remove_condition_times(fields);
}

/// Removes the fields of conditions that differ between clusters.
fn remove_condition_times(fields: &mut Map<String, Value>) {
    let Some(conditions) = fields.get_mut("status").and_then(|status| status.get_mut("conditions")) else {
        return;
    };
    for condition in conditions.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.remove("lastTransitionTime");
        condition.remove("message");
    }
}

/// A running `upstream/serve`, stopped on drop.
struct Server<'a> {
    child: Child,
    directory: &'a Path,
}

impl<'a> Server<'a> {
    fn start(root: &Path, directory: &'a Path) -> Result<Self, String> {
        let mut child = Command::new(root.join("upstream").join("serve"))
            .arg(directory)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run upstream/serve: {error}"))?;
        let line = child.stdout.take().map(|output| BufReader::new(output).lines().next());
        match line {
            Some(Some(Ok(line))) if line.starts_with("ready") => Ok(Server { child, directory }),
            _ => {
                let _ = child.kill();
                Err("upstream/serve did not become ready".into())
            }
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // A killed script would leave its child processes running; on SIGTERM it stops them.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(self.directory);
    }
}

fn program(root: &Path, name: &str) -> Result<std::path::PathBuf, String> {
    let built = Command::new(root.join("upstream").join("build"))
        .arg(name)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run upstream/build: {error}"))?;
    let text = String::from_utf8_lossy(&built.stdout);
    let directory = text.lines().last().filter(|_| built.status.success());
    directory
        .map(|directory| Path::new(directory).join(name))
        .ok_or_else(|| format!("upstream/build failed to build {name}"))
}
