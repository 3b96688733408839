//! `kubectl-atoll` is `atoll` under the name that kubectl looks for.

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("the program runs")
}

/// Returns a program's output, with the plugin's command name replaced by the program's.
fn normalized(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("kubectl atoll", "atoll")
}

#[test]
fn plugin_behaves_like_atoll() {
    let (program, plugin) = (env!("CARGO_BIN_EXE_atoll"), env!("CARGO_BIN_EXE_kubectl-atoll"));
    let cases: [&[&str]; 4] = [
        &["--version"],
        &["workspace", "tree", "--help"],
        &["workspace", "no such command"],
        &["keys", "list", "--data-dir", "no such directory"],
    ];
    for arguments in cases {
        let (direct, through) = (run(program, arguments), run(plugin, arguments));
        assert_eq!(through.status.code(), direct.status.code(), "{arguments:?}");
        assert_eq!(normalized(&through.stdout), normalized(&direct.stdout), "{arguments:?}");
        assert_eq!(normalized(&through.stderr), normalized(&direct.stderr), "{arguments:?}");
    }
    assert!(run(plugin, &["--version"]).stdout.starts_with(b"atoll "));
    assert_eq!(run(plugin, &["no such command"]).status.code(), Some(2));
    let help = run(plugin, &["workspace", "tree", "--help"]).stdout;
    assert!(String::from_utf8_lossy(&help).contains("Usage: kubectl atoll workspace tree"));
}

#[test]
fn atoll_behaves_like_the_plugin_under_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let link = |name: &str| {
        let path = directory.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_atoll"), &path).expect("a link");
        path.display().to_string()
    };
    let help = run(&link("kubectl-atoll"), &["keys", "list", "--help"]).stdout;
    assert!(String::from_utf8_lossy(&help).contains("Usage: kubectl atoll keys list"));
    let asked = ["completion", ""];
    let completed = run(&link("kubectl_complete-atoll"), &asked);
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "bash\nzsh\nfish\n:4\n");
    let beside = run(env!("CARGO_BIN_EXE_kubectl_complete-atoll"), &asked);
    assert_eq!(beside.stdout, completed.stdout);
}

#[test]
fn plugin_without_atoll_reports_the_missing_program() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, program) in [
        ("kubectl-atoll", env!("CARGO_BIN_EXE_kubectl-atoll")),
        ("kubectl_complete-atoll", env!("CARGO_BIN_EXE_kubectl_complete-atoll")),
    ] {
        let copy = directory.path().join(name);
        // Copied by another process: a file that this process has open for writing is also open in children
        // that are being started, and cannot be executed then.
        assert!(Command::new("cp").arg(program).arg(&copy).status().expect("cp runs").success());
        let output = Command::new(&copy).arg("--version").env("PATH", "").output().expect("the program runs");
        assert_eq!(output.status.code(), Some(1));
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains(&format!("put atoll and {name} into one directory")), "{printed}");
    }
}
