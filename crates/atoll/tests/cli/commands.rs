//! The exact output of `atoll workspace …`.

use std::path::Path;
use std::process::Command;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, atoll, fail, succeed};
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

fn workspace_command(kubeconfig: &Path, line: &str) -> Command {
    let mut command = atoll(&["workspace"]);
    command.args(line.split(' ')).env("KUBECONFIG", kubeconfig);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_can_be_created_entered_listed_and_deleted() {
    let server = Atoll::start();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::copy(server.kubeconfig(), &kubeconfig).unwrap();
    let mut transcript = String::new();
    let mut say = |line: &str| {
        let output = workspace_command(&kubeconfig, line).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        transcript.push_str(&format!("$ atoll workspace {line}\n"));
        transcript.push_str(&String::from_utf8_lossy(&output.stdout));
        transcript.push_str(&errors);
        if !output.status.success() {
            transcript.push_str(&format!("[{}]\n", output.status.code().unwrap_or(-1)));
        }
    };
    for line in [
        "tree",
        "create web",
        "create data --use",
        "create west",
        "create east --use",
        "create rack-1",
        "tree",
        "use ..",
        "tree",
        "use root",
        "tree",
        "use .",
        "use web",
        "use ..",
        "use ..",
        "use root:data:east",
        "use root:data:north",
        "use nowhere",
        "use root:data:eest",
        "use root:dta:east",
        "use east",
        "use rack",
        "use #",
        "tree",
        "list -o name",
        "ls -o name",
        "use root",
        "tree -o name",
        "use root",
        "create web",
        "create Not_A_Name",
        "create extra -o name",
        "delete extra",
        "delete nothing",
        "delete wbe",
        "delete ../namespaces",
        "delete data",
        "delete data --yes",
        "tree",
        "use root:data",
        "delete web --no-wait",
    ] {
        say(line);
    }
    // How far a deletion has progressed when its status is read varies.
    let lines = transcript.lines().filter(|line| !line.starts_with("waiting for ") && !line.is_empty());
    let transcript: String = lines.map(|line| format!("{line}\n")).collect();
    compare_with_golden_file(&transcript, include_str!("transcript.txt"), "transcript.txt");
    eventually("the workspace is gone", async || {
        server.admin().get("/apis/atoll.dev/v1alpha1/workspaces/web").await.status == 404
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_delete_waits_for_finalizers() {
    let server = Atoll::start();
    let kubeconfig = server.kubeconfig();
    succeed(&mut workspace_command(&kubeconfig, "create held"));
    let held = server.admin().workspace("root:held");
    let mut object = config_map_with("a", "1");
    object["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"]);
    held.post(CONFIG_MAPS, object).await.expect(201);
    let waiting = std::thread::spawn(move || succeed(&mut workspace_command(&kubeconfig, "delete held")));
    eventually("the object is being deleted", async || {
        held.get(&config_map("a")).await.expect(200)["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    assert!(!waiting.is_finished());
    held.merge(&config_map("a"), serde_json::json!({ "metadata": { "finalizers": null } })).await.expect(200);
    let printed = tokio::task::spawn_blocking(|| waiting.join().unwrap()).await.unwrap();
    assert_eq!(printed, "Workspace root:held was deleted.\n");
}

#[test]
fn errors_have_hints() {
    let mut server = Atoll::start();
    let other = Atoll::start();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own: Value = serde_saphyr::from_str(&std::fs::read_to_string(server.kubeconfig()).unwrap()).unwrap();
    let with = |name: &str, pointer: &str, value: Value| {
        let mut changed = own.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        file(name, &changed.to_string())
    };
    let (user, address) = ("/users/0/user", "/clusters/0/cluster/server");
    let cases = [
        (directory.path().join("missing"), "missing: No such file", "--kubeconfig or $KUBECONFIG"),
        (file("broken", "{"), "broken", ""),
        (file("empty", "{}"), "has no current context", "it has no contexts"),
        (with("unset", "/current-context", json!("")), "has no current context", "--context: it has atoll"),
        (
            with("wrong", address, json!(format!("https://{}", other.address))),
            "is not the server of this kubeconfig",
            "admin.kubeconfig",
        ),
        (with("stranger", user, json!({})), "forbidden", "kubectl auth can-i --list"),
        (with("token", user, json!({ "token": "no-such" })), "Unauthorized", "get a new kubeconfig"),
        (with("program", user, json!({ "exec": {} })), "from another program", "choose a context"),
        (
            with("path", address, json!(format!("https://{}/other", server.address))),
            "/other is not an Atoll workspace",
            "--context",
        ),
        (
            with("gone", address, json!(format!("https://{}/clusters/root:gone", server.address))),
            "\"root:gone\" not found",
            "root has no workspaces",
        ),
    ];
    for (kubeconfig, what, next) in cases {
        let errors = fail(&mut workspace_command(&kubeconfig, "list"));
        assert!(errors.starts_with("error: ") && errors.contains(what), "{}: {errors}", kubeconfig.display());
        let hint = errors.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_default();
        assert!(hint.contains(next), "{}: {errors}", kubeconfig.display());
        assert!(!errors.contains('\x1b'), "no colour without a terminal: {errors}");
    }
    let kubeconfig = server.kubeconfig();
    for (context, next) in [("atol", "did you mean --context atoll?"), ("other", "--context: it has atoll")] {
        let errors = fail(&mut workspace_command(&kubeconfig, &format!("tree --context {context}")));
        assert!(errors.contains(&format!("has no context {context:?}")) && errors.contains(next), "{errors}");
    }
    server.kill();
    let errors = fail(&mut workspace_command(&kubeconfig, "tree"));
    assert!(
        errors.contains("cannot reach https://") && errors.contains("\nhint: is the server running?"),
        "{errors}"
    );
    let errors = fail(workspace_command(&kubeconfig, "tree --color=always").env("NO_COLOR", "1"));
    assert!(errors.starts_with("\x1b[1;31merror:\x1b[0m "), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_can_be_printed_in_all_formats() {
    let server = Atoll::start();
    let kubeconfig = server.kubeconfig();
    let show = |line: &str| succeed(&mut workspace_command(&kubeconfig, line));
    assert_eq!(show("list"), "", "an empty list must print nothing");
    let created: Value = serde_json::from_str(&show("create web -o json")).unwrap();
    assert_eq!((&created["kind"], &created["metadata"]["name"]), (&json!("Workspace"), &json!("web")));
    show("create data --use");
    show("create east");
    show("use root");
    let id = created["status"]["id"].as_str().unwrap();

    let cells = |line: &str| -> Vec<Vec<String>> {
        show(line).lines().map(|line| line.split_whitespace().map(str::to_string).collect()).collect()
    };
    let (plain, wide) = (cells("list"), cells("list -o wide"));
    assert_eq!(plain[0], ["NAME", "PHASE", "AGE"]);
    assert_eq!(plain[2][..2], ["web", "Ready"]);
    assert_eq!(wide[0], ["NAME", "PHASE", "AGE", "ID", "GRAIN", "PATH"]);
    assert_eq!(wide[2][3..], [id, "<default>", "root:web"]);
    assert_eq!(cells("tree -o wide")[4], ["└──", "web", "Ready", "root:web", id]);

    // Both documents are equal, and equal to the server's response.
    let listed = server.admin().get("/apis/atoll.dev/v1alpha1/workspaces").await.expect(200);
    let from_json: Value = serde_json::from_str(&show("list -o json")).unwrap();
    let from_yaml: Value = serde_saphyr::from_str(&show("list --output yaml")).unwrap();
    assert_eq!((&from_json["items"], &from_yaml["items"]), (&listed["items"], &listed["items"]));
    let tree: Value = serde_json::from_str(&show("tree -o json")).unwrap();
    assert_eq!(tree["children"][0]["children"][0]["path"], "root:data:east");
    assert_eq!(serde_saphyr::from_str::<Value>(&show("tree -o yaml")).unwrap(), tree);

    let coloured = show("tree --color always");
    assert!(coloured.starts_with("\x1b[1mroot\x1b[0m\n"), "{coloured:?}");
    assert!(show("--help --color always").contains('\x1b'));
    assert!(!show("--help").contains('\x1b'));
}

#[test]
fn keys_can_be_printed_in_all_formats() {
    let server = Atoll::start();
    let keys = |line: &str| {
        let mut command = atoll(&["keys"]);
        command.args(line.split(' ')).env("ATOLL_DATA_DIR", &server.directory);
        command
    };
    let first = succeed(&mut keys("list -o name")).trim().to_string();
    succeed(&mut keys("rotate tokens"));
    let document: Value = serde_json::from_str(&succeed(&mut keys("list -o json"))).unwrap();
    assert_eq!(document["keys"][1], json!({ "id": first, "signs": false, "verifies": true }));
    assert_eq!(document["keys"][0]["signs"], true);
    assert_eq!(serde_saphyr::from_str::<Value>(&succeed(&mut keys("list -o yaml"))).unwrap(), document);
    assert!(succeed(&mut keys("list -o wide")).starts_with("ID "));
    let newest = document["keys"][0]["id"].as_str().unwrap();
    let errors = fail(&mut keys(&format!("retire {newest}")));
    assert!(errors.contains("hint: create a new signing key first: atoll keys rotate tokens"), "{errors}");
    let errors = fail(&mut keys(&format!("retire {}", &first[..20])));
    assert!(errors.contains(&format!("hint: did you mean {first}?")), "{errors}");
    let errors = fail(&mut keys("retire -verysecret"));
    assert!(errors.contains("-verysecret") && !errors.contains("unexpected argument"), "{errors}");
    let completed =
        succeed(atoll(&["__complete", "keys", "retire", ""]).env("ATOLL_DATA_DIR", &server.directory));
    assert_eq!(completed, format!("{first}\tverifies\n:4\n"));
    let errors = fail(&mut atoll(&["keys", "list", "--data-dir", "no-such"]));
    assert!(
        errors.contains("no-such is not a data directory")
            && errors.contains("hint: name the server's data directory"),
        "{errors}"
    );
}

/// The help is compared with a golden file, so that every change of it is reviewed.
#[test]
fn help_matches_the_golden_file() {
    let mut text = String::new();
    for line in [
        "workspace",
        "workspace create",
        "workspace use",
        "workspace current",
        "workspace list",
        "workspace tree",
        "workspace delete",
        "cluster",
        "cluster join",
        "cluster drain",
        "cluster remove",
        "place",
        "move",
        "adopt",
        "release",
        "orphans",
        "orphans prune",
        "pause",
        "resume",
        "snapshot",
        "snapshot save",
        "keys",
        "keys list",
        "version",
        "completion",
    ] {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        text.push_str(&format!("$ atoll {line} --help\n"));
        text.push_str(&succeed(command.arg("--help").env("COLUMNS", "100").env_remove("ATOLL_DATA_DIR")));
        text.push('\n');
    }
    let (expected, file) = (include_str!("help.txt"), "help.txt");
    compare_with_golden_file(&text, expected, file);
}

/// With ATOLL_UPDATE_SNAPSHOTS set, the golden file is overwritten instead.
fn compare_with_golden_file(found: &str, expected: &str, file: &str) {
    if std::env::var_os("ATOLL_UPDATE_SNAPSHOTS").is_some() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
        std::fs::write(directory.join(file), found).unwrap();
        return;
    }
    assert!(found == expected, "--- expected\n{expected}\n--- found\n{found}");
}
