//! `kubectl-atoll` is `atoll` under the name that kubectl looks for.

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("the program runs")
}

#[test]
fn the_plugin_does_what_the_program_does() {
    let (program, plugin) = (env!("CARGO_BIN_EXE_atoll"), env!("CARGO_BIN_EXE_kubectl-atoll"));
    let cases: [&[&str]; 3] =
        [&["--version"], &["workspace", "tree", "--help"], &["workspace", "no such command"]];
    for arguments in cases {
        let (direct, through) = (run(program, arguments), run(plugin, arguments));
        assert_eq!(through.status.code(), direct.status.code(), "{arguments:?}");
        assert_eq!(through.stdout, direct.stdout, "{arguments:?}");
        assert_eq!(through.stderr, direct.stderr, "{arguments:?}");
    }
    assert!(run(plugin, &["--version"]).stdout.starts_with(b"atoll "));
    assert_eq!(run(plugin, &["no such command"]).status.code(), Some(2));
}

#[test]
fn alone_it_says_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("kubectl-atoll");
    std::fs::copy(env!("CARGO_BIN_EXE_kubectl-atoll"), &copy).expect("a copy");
    let output = Command::new(&copy).arg("--version").env("PATH", "").output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("put atoll and kubectl-atoll into one directory"), "{said}");
}
