//! Several files: what is read from which, and where changes are written.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A directory with kubeconfigs; their names are given relative to it.
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

    /// `names` are separated by colons, as in KUBECONFIG.
    fn load(&self, names: &str) -> Result<KubeconfigFiles, LoadError> {
        let names = names.split(':').map(|name| match name {
            "" => String::new(),
            name => self.path(name).display().to_string(),
        });
        let variable = names.collect::<Vec<_>>().join(":");
        KubeconfigFiles::load(&Selection::new(None, Some(OsStr::new(&variable)), None))
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn content(&self, name: &str) -> Value {
        serde_saphyr::from_str(&self.text(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn files_are_selected_as_by_kubectl() {
    let home = Some(Path::new("/users/me"));
    let precedence =
        |paths: &[&str]| Selection::Precedence(paths.iter().map(|path| PathBuf::from(*path)).collect());
    for (explicit, variable, home, expected) in [
        (Some("a"), Some("b:c"), home, Selection::Explicit("a".into())),
        (None, Some("b"), home, precedence(&["b"])),
        (None, Some("b:/c:b"), home, precedence(&["b", "/c"])),
        (None, Some(":b::"), home, precedence(&["b"])),
        // A variable with separators only is set.
        (None, Some(":"), home, precedence(&[])),
        (None, Some(""), home, precedence(&["/users/me/.kube/config"])),
        (None, None, home, precedence(&["/users/me/.kube/config"])),
        (None, None, None, precedence(&[])),
    ] {
        let found = Selection::new(explicit.map(Path::new), variable.map(OsStr::new), home);
        assert_eq!(found, expected, "{explicit:?} {variable:?}");
    }
}

#[test]
fn the_first_file_decides() {
    let cluster = |server: &str| format!("clusters: [{{ name: c, cluster: {{ server: '{server}' }} }}]\n");
    let user = "users: [{ name: u, user: { token: first } }]\n";
    let context = "contexts: [{ name: x, context: { cluster: c, user: u } }]\n";
    let one = format!("current-context: ''\n{}{context}", cluster("https://one"));
    let two = format!(
        "current-context: x\n{}{user}contexts: [{{ name: x, context: {{ cluster: c, namespace: web }} }}, {{ name: other, context: {{ cluster: c }} }}]\n",
        cluster("https://two")
    );
    let files =
        Files::new(&[("one", &one), ("two", &two), ("empty", ""), ("current", "current-context: other")]);
    for (names, current, contexts, server, token, namespace) in [
        ("one:two", "x", &["x", "other"][..], "https://one", Some("first"), None),
        // The entries of the second file are not combined with those of the first.
        ("two:one", "x", &["x", "other"][..], "https://two", None, Some("web")),
        ("missing:two", "x", &["x", "other"][..], "https://two", None, Some("web")),
        ("one:two:current", "x", &["x", "other"][..], "https://one", Some("first"), None),
        ("empty:current:one:missing:two", "other", &["x", "other"][..], "https://one", Some("first"), None),
    ] {
        let loaded = files.load(names).unwrap();
        assert_eq!(loaded.merged().current(), current, "{names}");
        assert_eq!(loaded.merged().contexts(), contexts, "{names}");
        let context = loaded.context("x").unwrap();
        assert_eq!(context.server, server, "{names}");
        assert_eq!((context.token.as_deref(), context.namespace.as_deref()), (token, namespace), "{names}");
    }
    assert_eq!(files.load("one").unwrap().context("x"), Err(Problem::NoUser("u".into())));
    assert_eq!(files.load("empty").unwrap().context(""), Err(Problem::NoContext));
}

#[test]
fn missing_and_broken_files_are_named() {
    let files = Files::new(&[("good", "{}"), ("broken", "a: ["), ("directory/file", "")]);
    let missing = files.load("no:neither").unwrap_err();
    assert_eq!(missing, LoadError::Missing(vec![files.path("no"), files.path("neither")]));
    assert!(missing.to_string().ends_with("neither: No such file or directory"), "{missing}");
    // An empty variable counts as not set, and there is no home directory here.
    assert_eq!(files.load("").unwrap_err(), LoadError::NoneNamed);
    assert_eq!(files.load(":").unwrap_err(), LoadError::NoneNamed);
    for names in ["good:broken", "broken:good", "good:directory"] {
        assert!(matches!(files.load(names), Err(LoadError::File { .. })), "{names}");
    }
    // A file that was named explicitly must exist.
    let explicit = Selection::Explicit(files.path("no"));
    assert_eq!(KubeconfigFiles::load(&explicit).unwrap_err(), LoadError::Missing(vec![files.path("no")]));
}

#[test]
fn paths_are_relative_to_the_file_that_has_the_entry() {
    let cluster = "clusters: [{ name: c, cluster: { server: 's', certificate-authority: ca.crt } }]";
    let user = "users: [{ name: u, user: { client-certificate: keys/u.crt, client-key: ../u.key, tokenFile: /token } },
        { name: program, user: { exec: { command: bin/login } } }, { name: path, user: { exec: { command: login } } }]";
    let contexts = "contexts: [{ name: x, context: { cluster: c, user: u } },
        { name: program, context: { cluster: c, user: program } }, { name: path, context: { cluster: c, user: path } }]";
    let files = Files::new(&[
        ("a/config", cluster),
        ("b/config", user),
        ("config", contexts),
        ("a/ca.crt", "authority"),
        ("b/keys/u.crt", "certificate"),
        ("u.key", "key"),
    ]);
    let loaded = files.load("a/config:b/config:config").unwrap();
    let merged = &loaded.merged().content;
    assert_eq!(merged["users"][0]["user"]["tokenFile"], "/token");
    let without = files.text("b/config").replace(", tokenFile: /token", "");
    std::fs::write(files.path("b/config"), without).unwrap();
    let context = files.load("a/config:b/config:config").unwrap().context("x").unwrap();
    assert_eq!(context.authority_pem.as_deref(), Some(&b"authority"[..]));
    assert_eq!(context.certificate_pem.as_deref(), Some(&b"certificate"[..]));
    assert_eq!(context.key_pem.as_deref(), Some(&b"key"[..]));
    let command = |name: &str| loaded.merged().credential_plugin(name).unwrap().command;
    assert_eq!(command("program"), files.path("b/bin/login").display().to_string());
    assert_eq!(command("path"), "login");
}

#[test]
fn changes_are_written_to_the_file_that_has_the_entry() {
    let clusters =
        "clusters: [{ name: c, cluster: { server: 'https://one', certificate-authority: ca.crt } }]\n";
    let contexts =
        "contexts: [{ name: x, context: { cluster: c } }, { name: other, context: { cluster: gone } }]\n";
    let files =
        Files::new(&[("first", ""), ("contexts", contexts), ("clusters", clusters), ("last", clusters)]);
    std::fs::set_permissions(files.path("clusters"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(files.path("clusters"), files.path("link")).unwrap();
    let mut loaded = files.load("first:contexts:link:last").unwrap();

    loaded.set_server("x", "https://two").unwrap();
    loaded.set_extension("x", "e", &json!({ "a": 1 })).unwrap();
    assert_eq!(loaded.context("other"), Err(Problem::NoCluster("gone".into())));
    assert_eq!(loaded.set_server("other", ""), Err(LoadError::Entry(Problem::NoCluster("gone".into()))));
    assert_eq!(loaded.set_server("z", ""), Err(LoadError::Entry(Problem::NoContext)));
    assert_eq!(loaded.set_extension("z", "e", &Value::Null), Err(LoadError::Entry(Problem::NoContext)));

    let expected =
        json!({ "name": "c", "cluster": { "server": "https://two", "certificate-authority": "ca.crt" } });
    assert_eq!(files.content("clusters"), json!({ "clusters": [expected] }), "the path stays relative");
    assert_eq!(files.content("contexts")["contexts"][0]["context"]["extensions"][0]["extension"]["a"], 1);
    assert_eq!((files.text("first").as_str(), files.text("last").as_str()), ("", clusters));
    assert_eq!(std::fs::metadata(files.path("clusters")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(files.path("link")).unwrap().is_symlink());
    assert_eq!(files.names(), ["clusters", "contexts", "first", "last", "link"], "nothing is left behind");
    // The change is visible without reading again.
    assert_eq!(loaded.merged().content["clusters"][0]["cluster"]["server"], "https://two");
    assert_eq!(loaded.merged().extension("x", "e"), Some(&json!({ "a": 1 })));
}

#[test]
fn changes_of_other_programs_are_kept() {
    let text = "current-context: x\nclusters: [{ name: c, cluster: { server: 's' } }]\ncontexts: [{ name: x, context: { cluster: c } }]\n";
    let files = Files::new(&[("config", text)]);
    let mut loaded = files.load("config").unwrap();
    std::fs::write(files.path("config"), text.replace("current-context: x", "current-context: other"))
        .unwrap();
    loaded.set_server("x", "t").unwrap();
    assert_eq!(files.content("config")["current-context"], "other");
    // kubectl has the lock.
    std::fs::write(files.path("config.lock"), "").unwrap();
    let refused = loaded.set_server("x", "u").unwrap_err();
    assert!(refused.to_string().contains("config.lock: another program"), "{refused}");
    assert_eq!(files.content("config")["clusters"][0]["cluster"]["server"], "t");
    assert_eq!(files.names(), ["config", "config.lock"], "the lock of another program is not removed");
}
