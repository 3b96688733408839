//! Runs Kubernetes' own code in tests: the Go programs of the directory `upstream`.
//!
//! ```text
//! ask ─── build ──── upstream/build NAME ──┐
//! ask_facts ──────── go build in facts ────┴─ program: a line of JSON in, a line of JSON out
//! ```
//!
//! Also contains what several comparisons generate their questions with: random numbers, and random schemas of
//! custom resources. Random objects of built-in kinds are in `atoll-samples`.
//!
//! A crate of its own with few dependencies, so that tests of pure crates need not wait for the test kit.

#[cfg(feature = "bundles")]
pub mod bundles;
mod facts;
mod random;
pub mod rules;
pub mod schemas;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

pub use facts::{RoundTrip, ask_facts, round_trip};
pub use random::{SeededRandom, seed};

/// The exit code of `upstream/build` and `upstream/serve` without Go.
pub const NO_GO: i32 = 3;

/// The directory `upstream`.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream");

/// Returns the answers of a program that `upstream/build` builds. Returns `None`, with a printed reason,
/// without Go; with `ATOLL_REQUIRE_UPSTREAM` set that is a failure instead.
pub fn ask(program: &str, questions: impl IntoIterator<Item = Value>) -> Option<Vec<Value>> {
    let directory = build(&[program])?;
    Some(answers(&mut Command::new(directory.join(program)), questions))
}

/// Builds programs if necessary. Returns their directory, or `None` as [`ask`] does.
pub fn build(programs: &[&str]) -> Option<PathBuf> {
    let output = Command::new(Path::new(DIRECTORY).join("build")).args(programs).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run upstream/build: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_GO) {
        skip(complaint.trim());
        return None;
    }
    assert!(output.status.success(), "upstream/build {} failed: {complaint}", programs.join(" "));
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().last().unwrap_or_else(|| panic!("upstream/build printed no directory")).into())
}

fn skip(reason: &str) {
    assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "Go is required here: {reason}");
    println!("skipped: {reason}");
}

/// Sends each question as a line and parses each line of the output.
fn answers(command: &mut Command, questions: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut input = String::new();
    for question in questions {
        input.push_str(&question.to_string());
        input.push('\n');
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // The program answers before it has read everything, so reading must not wait for writing.
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("program terminates");
    writer.join().expect("writer thread does not panic").expect("program reads its input");
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("output lines are JSON")).collect()
}
