//! Workspaces with the kcp dialect: Clusters with an inline kubeconfig, and labels that place objects.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod enabling;
mod evicting;
mod fleet;
mod kubectl;
mod labels;
mod sealing;
mod server_annotations;
mod showing;
#[path = "../support/support.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const KCP: &str = "/apis/workload.kcp.dev/v1alpha1";
const CLUSTERS: &str = "/apis/workload.kcp.dev/v1alpha1/clusters";
const OWN: &str = "/apis/atoll.dev/v1alpha1/clusters";
const SECRETS: &str = "/api/v1/namespaces/atoll-system/secrets";

fn cluster(kind: &str, name: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "workload.kcp.dev/v1alpha1", "kind": kind, "metadata": { "name": name },
        "spec": { "kubeconfig": kubeconfig },
    })
}

/// Returns a kubeconfig of an unreachable server with this token.
fn kubeconfig(token: &str) -> String {
    static AUTHORITY: LazyLock<String> = LazyLock::new(|| {
        let authority = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
        STANDARD.encode(authority.cert.pem())
    });
    let authority = AUTHORITY.as_str();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters:\n- name: a\n  cluster: {{ server: 'https://127.0.0.1:9', certificate-authority-data: {authority} }}\n\
         users:\n- name: a\n  user: {{ token: {token} }}\n\
         contexts: [{{ name: a, context: {{ cluster: a, user: a }} }}]\n"
    )
}

/// Returns the files below a directory that contain one of these texts, plain, in base64 or as a JSON string.
fn files_containing(directory: &Path, texts: &[String]) -> Vec<PathBuf> {
    let mut forms: Vec<Vec<u8>> = Vec::new();
    for text in texts {
        let escaped = Value::from(text.as_str()).to_string();
        forms.extend([text.clone().into_bytes(), STANDARD.encode(text).into_bytes(), escaped.into_bytes()]);
    }
    let (mut found, mut open) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(content) = std::fs::read(&path) {
            let has = |form: &Vec<u8>| content.windows(form.len()).any(|window| window == form.as_slice());
            if forms.iter().any(has) {
                found.push(path);
            }
        }
    }
    found
}
