//! Runs the API server's own CEL through `upstream/build expressions`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

/// Exit code of `upstream/build` without Go.
const NO_GO: i32 = 3;

/// Returns Go's results for expressions over one value, or `None` without Go.
pub fn run(schema: &Value, value: &Value, expressions: &[String]) -> Option<Vec<Value>> {
    let program = program()?;
    let mut input = String::new();
    for expression in expressions {
        input.push_str(&json!({"schema": schema, "value": value, "expression": expression}).to_string());
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
    let output = Command::new(script).arg("expressions").output().expect("upstream/build runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_GO) {
        assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "Go is required here: {complaint}");
        println!("skipped: {}", complaint.trim());
        return None;
    }
    assert!(output.status.success(), "upstream/build failed: {complaint}");
    let directory = String::from_utf8(output.stdout).expect("directory name is UTF-8");
    Some(Path::new(directory.trim()).join("expressions"))
}
