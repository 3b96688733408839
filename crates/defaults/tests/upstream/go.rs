//! Runs the API server's own defaulting through `upstream/build defaults`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

/// An object and its kind.
pub struct Case {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub object: Value,
}

/// Exit code of `upstream/build` without Go.
const NO_GO: i32 = 3;

/// Returns Go's results, or `None` without Go.
pub fn run(cases: &[Case]) -> Option<Vec<Value>> {
    let program = program()?;
    let mut input = String::new();
    for Case { group, version, kind, object } in cases {
        let case = json!({"group": group, "version": version, "kind": kind, "object": object});
        input.push_str(&case.to_string());
        input.push('\n');
    }
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("program terminates");
    writer.join().expect("writer thread does not panic").expect("program reads its input");
    assert!(output.status.success(), "the program failed");
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("output lines are JSON")).collect())
}

fn program() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../upstream/build");
    let output = Command::new(script).arg("defaults").output().expect("upstream/build runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_GO) {
        assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "Go is required here: {stderr}");
        println!("skipped: {}", stderr.trim());
        return None;
    }
    assert!(output.status.success(), "upstream/build failed: {stderr}");
    let directory = String::from_utf8(output.stdout).expect("directory name is UTF-8");
    Some(Path::new(directory.trim()).join("defaults"))
}
