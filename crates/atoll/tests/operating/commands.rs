//! `atoll workspace …`, word for word.

use std::path::Path;
use std::process::Command;

use crate::support::process::{Atoll, atoll};
use crate::support::programs::{fail, succeed};
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually};

fn workspace(kubeconfig: &Path, line: &str) -> Command {
    let mut command = atoll(&["workspace"]);
    command.args(line.split(' ')).env("KUBECONFIG", kubeconfig);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_are_created_entered_shown_and_deleted() {
    let server = Atoll::start();
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = place.path().join("kubeconfig");
    std::fs::copy(server.admin_kubeconfig(), &kubeconfig).unwrap();
    let mut transcript = String::new();
    let mut say = |line: &str| {
        let output = workspace(&kubeconfig, line).output().unwrap();
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
        "tree",
        "use root",
        "create web",
        "create Not_A_Name",
        "delete nothing",
        "delete data",
        "tree",
        "use root:data",
        "delete web --no-wait",
    ] {
        say(line);
    }
    // How far a deletion has come when one looks at it is not fixed.
    let lines = transcript.lines().filter(|line| !line.starts_with("waiting for ") && !line.is_empty());
    let transcript: String = lines.map(|line| format!("{line}\n")).collect();
    let expected = include_str!("transcript.txt");
    if std::env::var_os("ATOLL_UPDATE_SNAPSHOTS").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operating/transcript.txt");
        std::fs::write(file, &transcript).unwrap();
        return;
    }
    assert!(transcript == expected, "--- expected\n{expected}\n--- found\n{transcript}");
    eventually("the workspace is gone", async || {
        server.admin().get("/apis/atoll.dev/v1alpha1/workspaces/web").await.status == 404
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_waits_for_those_who_hold_it_up() {
    let server = Atoll::start();
    let kubeconfig = server.admin_kubeconfig();
    succeed(&mut workspace(&kubeconfig, "create held"));
    let held = server.admin().workspace("root:held");
    let mut object = config_map_with("a", "1");
    object["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"]);
    held.post(CONFIG_MAPS, object).await.expect(201);
    let waiting = std::thread::spawn(move || succeed(&mut workspace(&kubeconfig, "delete held")));
    eventually("it is being deleted", async || {
        held.get(&config_map("a")).await.expect(200)["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    assert!(!waiting.is_finished());
    held.merge(&config_map("a"), serde_json::json!({ "metadata": { "finalizers": null } })).await.expect(200);
    let said = tokio::task::spawn_blocking(|| waiting.join().unwrap()).await.unwrap();
    assert_eq!(said, "Workspace root:held is gone.\n");
}

#[test]
fn problems_are_told_with_what_to_do() {
    let mut server = Atoll::start();
    let place = tempfile::tempdir().unwrap();
    let missing = place.path().join("missing");
    let errors = fail(atoll(&["workspace", "tree", "--kubeconfig"]).arg(&missing));
    assert!(errors.contains("missing") && errors.contains("--kubeconfig or $KUBECONFIG"), "{errors}");
    let kubeconfig = server.admin_kubeconfig();
    let errors = fail(atoll(&["workspace", "tree", "--context", "other", "--kubeconfig"]).arg(&kubeconfig));
    assert!(errors.contains("has no context \"other\""), "{errors}");
    server.kill();
    let errors = fail(&mut workspace(&kubeconfig, "tree"));
    assert!(
        errors.contains("cannot reach https://") && errors.contains("is the server running?"),
        "{errors}"
    );
}
