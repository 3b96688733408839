//! Runs upstream's code through `upstream/build extension`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

/// Exit code of `upstream/build` without Go.
const NO_GO: i32 = 3;

/// Upstream's results, `None` without Go.
pub fn ask(questions: &[Value]) -> Option<Vec<Value>> {
    let program = program()?;
    let mut input = String::new();
    for question in questions {
        input.push_str(&question.to_string());
        input.push('\n');
    }
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the built program runs");
    let mut stdin = child.stdin.take().expect("its input is piped");
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends").expect("the program reads its input");
    assert!(output.status.success(), "the program failed");
    let text = String::from_utf8(output.stdout).expect("answers are text");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("an answer is JSON")).collect())
}

fn program() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../upstream/build");
    let output = Command::new(script).arg("extension").output().expect("upstream/build runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_GO) {
        assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "Go is required here: {complaint}");
        println!("skipped: {}", complaint.trim());
        return None;
    }
    assert!(output.status.success(), "upstream/build failed: {complaint}");
    let directory = String::from_utf8(output.stdout).expect("a directory's name is text");
    Some(Path::new(directory.trim()).join("extension"))
}
