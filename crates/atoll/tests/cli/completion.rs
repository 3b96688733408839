//! Completions by the scripts that `atoll completion` prints.

use std::path::Path;
use std::process::Command;

use atoll_testkit::{Atoll, atoll, succeed};

/// A longer timeout than for interactive use, because test machines are busy.
const LONG_TIMEOUT: [(&str, &str); 1] = [("ATOLL_COMPLETION_TIMEOUT", "60")];

/// Starts a server with a few workspaces.
fn server() -> Atoll {
    let server = Atoll::start();
    for line in ["create data --use", "create east", "create west", "use root", "create web"] {
        let mut command = atoll(&["workspace"]);
        succeed(command.args(line.split(' ')).env("KUBECONFIG", server.kubeconfig()));
    }
    server
}

/// Returns a shell with `atoll` on its PATH and the kubeconfig.
fn shell(name: &str, server: &Atoll) -> Command {
    let program = atoll(&[]);
    let directory = Path::new(program.get_program()).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{}:{path}", directory.display()));
    command.env("KUBECONFIG", server.kubeconfig()).envs(LONG_TIMEOUT).current_dir(&server.directory);
    command
}

fn is_installed(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {shell} is not installed");
    }
    found
}

#[test]
fn completions_have_names_from_the_server() {
    let server = server();
    let complete = |line: &str| {
        let mut command = atoll(&["__complete"]);
        command.env("KUBECONFIG", server.kubeconfig()).envs(LONG_TIMEOUT);
        succeed(command.args(line.split(' ')))
    };
    for (line, expected) in [
        ("workspace use ", "data\tin root\nweb\tin root\nroot\tthe root workspace\n:4\n"),
        ("workspace use w", "web\tin root\n:4\n"),
        ("workspace use root", "root\tthe root workspace\nroot:data\tin root\nroot:web\tin root\n:4\n"),
        ("workspace use root:data:", "root:data:east\tin root:data\nroot:data:west\tin root:data\n:4\n"),
        ("workspace use data:w", "data:west\tin root:data\n:4\n"),
        ("workspace use root:nothing:", ":4\n"),
        ("workspace delete d", "data\tin root\n:4\n"),
        ("workspace tree --context ", "atoll\n:4\n"),
        // Without a reachable server there are no names and no errors.
        ("workspace use --kubeconfig no-such-file ", ":4\n"),
        ("workspace use --context no-such-context ", ":4\n"),
    ] {
        assert_eq!(complete(line), expected, "{line:?}");
    }
}

#[test]
fn bash_completes() {
    if !is_installed("bash") {
        return;
    }
    let server = server();
    // Words as bash splits them before it calls the function. The last one is under the cursor.
    for (words, expected) in [
        (&["atoll", "work"][..], "workspace"),
        (&["atoll", "workspace", "use", ""], "data web root"),
        (&["atoll", "workspace", "use", "root", ":", "d"], "data"),
        (&["atoll", "workspace", "use", "root", ":"], "data web"),
        (&["atoll", "workspace", "use", "root", ":", "data", ":", "e"], "east"),
        (&["atoll", "workspace", "list", "--output", "=", "j"], "json"),
        (&["atoll", "workspace", "create", ""], ""),
        (&["atoll", "workspace", "tree", "--kubeconfig", "a"], ""),
    ] {
        // Colons and equals signs have no spaces around them.
        let line = words.join(" ").replace(" : ", ":").replace(" = ", "=").replace(" :", ":");
        let script = r#"source <(atoll completion bash); COMP_LINE=$1; COMP_POINT=${#1}; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _atoll; echo "${COMPREPLY[*]}""#;
        let mut command = shell("bash", &server);
        command.args(["--norc", "-c", script, "bash", &line]).args(words);
        assert_eq!(succeed(&mut command).trim(), expected, "{line:?}");
    }
}

#[test]
fn zsh_accepts_its_script() {
    if is_installed("zsh") {
        let server = server();
        succeed(shell("zsh", &server).args(["-f", "-c", "atoll completion zsh | zsh -f -n"]));
    }
}

#[test]
fn fish_completes() {
    if !is_installed("fish") {
        return;
    }
    let server = server();
    let home = tempfile::tempdir().unwrap();
    for (line, expected) in [
        ("atoll work", "workspace\tCreate, switch to, show and delete workspaces\n"),
        ("atoll workspace use root:data:e", "root:data:east\tin root:data\n"),
        ("atoll workspace list --output=j", "--output=json\n"),
        ("atoll workspace create ", ""),
    ] {
        let script = format!("atoll completion fish | source; complete -C '{line}'");
        let mut command = shell("fish", &server);
        command.args(["--no-config", "-c", &script]).env("HOME", home.path());
        assert_eq!(succeed(&mut command), expected, "{line:?}");
    }
}
