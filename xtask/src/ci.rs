//! Everything that must hold before a change lands: `.ci/run`, which is also what a fresh machine runs.

use std::path::Path;
use std::process::Command;

pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(argument) = arguments.first() {
        return Err(format!("ci takes no arguments, and got \"{argument}\""));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let status = Command::new("bash")
        .arg(".ci/run")
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot run bash: {error}"))?;
    if status.success() { Ok(()) } else { Err("something failed; see above".to_owned()) }
}
