//! Runs all checks that a change must pass: `.ci/run`, which CI runs too.

use std::path::Path;
use std::process::Command;

pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(argument) = arguments.first() {
        return Err(format!("ci takes no arguments, but got \"{argument}\""));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let status = Command::new("bash")
        .arg(".ci/run")
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot run bash: {error}"))?;
    if status.success() { Ok(()) } else { Err("a check failed; see the output above".to_owned()) }
}
