//! Several kubeconfigs in KUBECONFIG, compared with kubectl.

use std::path::PathBuf;
use std::process::Command;

use atoll_client::kubeconfig::{Context, Kubeconfig, KubeconfigFiles, Selection};
use atoll_testkit::{Atoll, Kubectl, atoll, succeed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with kubeconfigs.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Files(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a program in another directory than that of the files. `names` are separated by colons.
    fn with(&self, names: &str, command: &mut Command) -> String {
        let paths = names.split(':').map(|name| self.path(name));
        let variable = std::env::join_paths(paths).unwrap();
        succeed(command.env("KUBECONFIG", variable).env("HOME", self.0.path()).current_dir("/"))
    }

    fn content(&self, name: &str) -> Value {
        serde_saphyr::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }
}

/// The administrator's kubeconfig in three parts, with a context that must not be used.
fn parts(server: &Atoll) -> Files {
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let pem = |holder: &Value, name: &str| {
        String::from_utf8(STANDARD.decode(holder[name].as_str().unwrap()).unwrap()).unwrap()
    };
    let first = json!({ "current-context": "", "contexts": config["contexts"] });
    let other = json!({ "cluster": "elsewhere", "user": "nobody" });
    let user_name = &config["users"][0]["name"];
    let paths = json!({ "client-certificate": "keys/me.crt", "client-key": "keys/me.key" });
    let second = json!({
        "current-context": "atoll",
        "contexts": [{ "name": "atoll", "context": other }],
        "users": [{ "name": user_name, "user": paths }],
    });
    let settings = json!({ "server": cluster["server"], "certificate-authority": "ca.crt" });
    let third = json!({
        "current-context": "other",
        "clusters": [{ "name": config["clusters"][0]["name"], "cluster": settings }],
    });
    Files::new(&[
        ("first", &first.to_string()),
        ("users/config", &second.to_string()),
        ("clusters/config", &third.to_string()),
        ("clusters/ca.crt", &pem(cluster, "certificate-authority-data")),
        ("users/keys/me.crt", &pem(user, "client-certificate-data")),
        ("users/keys/me.key", &pem(user, "client-key-data")),
    ])
}

const PARTS: &str = "first:missing:users/config:clusters/config";

#[test]
fn commands_read_and_change_the_file_that_kubectl_would() {
    let server = Atoll::start();
    let files = parts(&server);
    files.with(PARTS, &mut atoll(&["workspace", "create", "team"]));
    let printed = files.with(PARTS, &mut atoll(&["workspace", "use", "team"]));
    assert_eq!(printed, "The current workspace is now root:team.\n");

    let address = format!("https://{}/clusters/root:team", server.address);
    let settings = json!({ "server": address, "certificate-authority": "ca.crt" });
    assert_eq!(files.content("clusters/config")["clusters"][0]["cluster"], settings);
    let extension = &files.content("first")["contexts"][0]["context"]["extensions"][0];
    assert_eq!(extension["extension"]["workspace"], "root");
    assert_eq!(files.content("users/config"), parts(&server).content("users/config"));
    assert!(!files.path("missing").exists());

    let Some(kubectl) = Kubectl::new(&server.kubeconfig()) else { return };
    // kubectl uses the workspace, and would have changed the same file in the same way.
    let view = files.with(PARTS, &mut kubectl.command("config view --minify -o json"));
    let view: Value = serde_json::from_str(&view).unwrap();
    assert_eq!(view["clusters"][0]["cluster"], settings);
    let names = files.with(PARTS, &mut kubectl.command("get namespaces -o name"));
    assert!(names.contains("namespace/default"), "{names}");
    let changed = parts(&server);
    let line = format!("config set-cluster atoll --server={address}");
    changed.with(PARTS, &mut kubectl.command(&line));
    for name in ["first", "users/config", "clusters/config"] {
        let clusters = |files: &Files| files.content(name)["clusters"].clone();
        assert_eq!(clusters(&files), clusters(&changed), "{name}");
    }
    // kubectl can change what Atoll has written, and the reverse.
    files.with(PARTS, &mut kubectl.command("config set-context --current --namespace=web"));
    files.with(PARTS, &mut atoll(&["workspace", "use", "-"]));
    let view = files.with(PARTS, &mut kubectl.command("config view --minify -o json"));
    let view: Value = serde_json::from_str(&view).unwrap();
    assert_eq!(view["clusters"][0]["cluster"]["server"], format!("https://{}", server.address));
    assert_eq!(view["contexts"][0]["context"]["namespace"], "web");
}

/// Returns each context as kubectl sees it, with files inline.
fn contexts_of_kubectl(files: &Files, names: &str, kubectl: &Kubectl) -> Vec<(String, Option<Context>)> {
    let listed = files.with(names, &mut kubectl.command("config get-contexts -o name"));
    let contexts = listed.lines().map(|context| {
        let line = format!("config view --raw --flatten --minify --context {context} -o json");
        let paths = std::env::join_paths(names.split(':').map(|name| files.path(name))).unwrap();
        let output = kubectl.command(&line).env("KUBECONFIG", paths).current_dir("/").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let config = output.status.success().then(|| Kubeconfig::parse(&text).unwrap());
        (context.to_string(), config.and_then(|config| config.context(context, None).ok()))
    });
    contexts.collect()
}

#[test]
fn kubeconfigs_are_merged_as_by_kubectl() {
    let files = Files::new(&[
        (
            "a/config",
            "clusters: [{ name: c, cluster: { server: 'https://one', certificate-authority: ca.crt } }]
contexts: [{ name: x, context: { cluster: c, user: u } }]",
        ),
        (
            "b/config",
            "current-context: later
clusters: [{ name: c, cluster: { server: 'https://two' } }, { name: d, cluster: { server: 'https://three' } }]
users: [{ name: u, user: { token: second, client-certificate: ../me.crt, client-key: ../me.key } }]
contexts: [{ name: x, context: { cluster: d, user: u, namespace: web } }, { name: later, context: { cluster: d } }]",
        ),
        ("c/config", "current-context: x\nusers: [{ name: u, user: { token: third } }]"),
        ("empty", ""),
        ("a/ca.crt", "authority"),
        ("me.crt", "certificate"),
        ("me.key", "key"),
    ]);
    let Some(kubectl) = Kubectl::new(&files.path("a/config")) else { return };
    for names in [
        "a/config:b/config:c/config",
        "c/config:b/config:a/config",
        "b/config:a/config",
        "empty:b/config:missing",
        "a/config:c/config",
        "missing:a/config:a/config:b/config",
    ] {
        let paths: Vec<PathBuf> = names.split(':').map(|name| files.path(name)).collect();
        let variable = std::env::join_paths(&paths).unwrap();
        let loaded = KubeconfigFiles::load(&Selection::new(None, Some(&variable), None)).unwrap();
        let merged = loaded.merged();
        let mut own: Vec<(String, Option<Context>)> =
            merged.contexts().into_iter().map(|name| (name.to_string(), loaded.context(name).ok())).collect();
        own.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = contexts_of_kubectl(&files, names, &kubectl);
        assert!(own == expected, "{names}: {own:?} instead of {expected:?}");
        let view = files.with(names, &mut kubectl.command("config view -o json"));
        let view: Value = serde_json::from_str(&view).unwrap();
        assert_eq!(merged.current(), view["current-context"], "{names}");
    }
}
