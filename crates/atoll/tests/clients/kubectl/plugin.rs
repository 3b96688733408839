//! `kubectl atoll …`, run by kubectl itself.

use std::path::Path;
use std::process::Command;

use atoll_testkit::{Atoll, Kubectl, fail, succeed};

/// Returns kubectl with the plugin on its PATH.
fn with_plugin(kubectl: &Kubectl, words: &[&str]) -> Command {
    let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-atoll"));
    let mut command = kubectl.program();
    command.env("PATH", plugin.parent().unwrap()).args(words);
    command
}

/// Returns the completions that kubectl prints for a shell.
fn completions(kubectl: &Kubectl, words: &[&str]) -> String {
    let mut command = with_plugin(kubectl, &["__complete"]);
    succeed(command.env("ATOLL_COMPLETION_TIMEOUT", "60").args(words))
}

#[test]
fn kubectl_runs_and_completes_the_plugin() {
    let server = Atoll::start();
    let Some(kubectl) = Kubectl::new(&server.kubeconfig()) else { return };
    let printed = succeed(&mut with_plugin(&kubectl, &["atoll", "workspace", "create", "team"]));
    assert_eq!(printed, "Workspace root:team is ready. Enter it with: kubectl atoll workspace use team\n");
    assert_eq!(kubectl.run("get workspaces -o name"), "workspace.atoll.dev/team\n");
    assert_eq!(
        succeed(&mut with_plugin(&kubectl, &["atoll", "workspace", "list", "-o", "name"])),
        kubectl.run("get workspaces -o name")
    );
    // The table has the same headings.
    let headings = |text: String| text.lines().next().unwrap_or_default().to_string();
    assert_eq!(
        headings(succeed(&mut with_plugin(&kubectl, &["atoll", "workspace", "list"]))),
        headings(kubectl.run("get workspaces"))
    );
    let errors = fail(&mut with_plugin(&kubectl, &["atoll", "workspace", "use", "taem"]));
    assert!(errors.contains("hint: did you mean root:team?"), "{errors}");

    assert!(completions(&kubectl, &["ato"]).starts_with("atoll\t"));
    let completed = completions(&kubectl, &["atoll", "workspace", "use", "t"]);
    assert!(completed.starts_with("team\tin root\n:4\n"), "{completed}");
    let completed = completions(&kubectl, &["atoll", "workspace", "list", "--output="]);
    assert!(completed.starts_with("wide\njson\nyaml\nname\n:4\n"), "{completed}");
}
