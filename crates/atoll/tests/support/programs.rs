//! Programs from elsewhere that drive the server: kubectl, Helm, Python.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The directory of the pinned kubectl, or a printed reason why this machine has none.
pub fn kubectl() -> Option<PathBuf> {
    upstream(&["kubectl"])
}

/// The directory of programs that `upstream/build` makes, or a printed reason why this machine has none.
pub fn upstream(names: &[&str]) -> Option<PathBuf> {
    atoll_testkit::Programs::build(names).map(|programs| programs.directory().to_path_buf())
}

/// What a command printed; it must succeed.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command complained of; it must fail.
#[track_caller]
pub fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stdout));
    errors(&output)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
