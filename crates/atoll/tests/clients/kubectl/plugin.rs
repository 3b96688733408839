//! `kubectl atoll …`, run by kubectl itself.

use std::path::Path;
use std::process::Command;

use super::Kubectl;
use crate::support::process::Atoll;
use crate::support::programs::{fail, succeed};

impl Kubectl {
    /// Returns kubectl with the plugin on its PATH.
    fn with_plugin(&self, words: &[&str]) -> Command {
        let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-atoll"));
        let mut command = self.command("atoll");
        command.env("PATH", plugin.parent().unwrap());
        command.args(words);
        command
    }

    /// Returns the completions that kubectl prints for a shell.
    fn completions(&self, words: &[&str]) -> String {
        let mut command = Command::new(self.directory.join("kubectl"));
        let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-atoll"));
        command.env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        command.env("PATH", plugin.parent().unwrap()).env("ATOLL_COMPLETION_TIMEOUT", "60");
        command.arg("__complete").args(words);
        succeed(&mut command)
    }
}

#[test]
fn kubectl_runs_and_completes_the_plugin() {
    let server = Atoll::start();
    let Some(kubectl) = Kubectl::of(&server) else { return };
    let printed = succeed(&mut kubectl.with_plugin(&["workspace", "create", "team"]));
    assert_eq!(printed, "Workspace root:team is ready. Enter it with: kubectl atoll workspace use team\n");
    assert_eq!(kubectl.run("get workspaces -o name"), "workspace.atoll.dev/team\n");
    assert_eq!(
        succeed(&mut kubectl.with_plugin(&["workspace", "list", "-o", "name"])),
        kubectl.run("get workspaces -o name")
    );
    // The table has the same headings.
    let headings = |text: String| text.lines().next().unwrap_or_default().to_string();
    assert_eq!(
        headings(succeed(&mut kubectl.with_plugin(&["workspace", "list"]))),
        headings(kubectl.run("get workspaces"))
    );
    let errors = fail(&mut kubectl.with_plugin(&["workspace", "use", "taem"]));
    assert!(errors.contains("hint: did you mean root:team?"), "{errors}");

    assert!(kubectl.completions(&["ato"]).starts_with("atoll\t"));
    let completed = kubectl.completions(&["atoll", "workspace", "use", "t"]);
    assert!(completed.starts_with("team\tin root\n:4\n"), "{completed}");
    let completed = kubectl.completions(&["atoll", "workspace", "list", "--output="]);
    assert!(completed.starts_with("wide\njson\nyaml\nname\n:4\n"), "{completed}");
}
