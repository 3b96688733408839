//! Commands that exit by themselves.

use std::process::{Command, Output};

/// Runs a command that must succeed and returns its standard output.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}\n{}", errors(&output));
    String::from_utf8(output.stdout).expect("the output is text")
}

/// Runs a command that must fail and returns its standard error.
#[track_caller]
pub fn fail(command: &mut Command) -> String {
    let output = output(command);
    assert!(!output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stdout));
    errors(&output)
}

#[track_caller]
fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
