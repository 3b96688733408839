//! External programs that use the server: kubectl, Helm, Python.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the directory of the pinned kubectl, or `None` with a printed reason.
pub fn kubectl() -> Option<PathBuf> {
    upstream(&["kubectl"])
}

/// Returns the directory of programs that `upstream/build` builds, or `None` with a printed reason.
pub fn upstream(names: &[&str]) -> Option<PathBuf> {
    atoll_testkit::Programs::build(names).map(|programs| programs.directory().to_path_buf())
}

/// Runs a command that must succeed and returns its standard output.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail and returns its standard error.
#[track_caller]
pub fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stdout));
    errors(&output)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
