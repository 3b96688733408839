//! `kubectl atoll …`: kubectl runs this for the word "atoll", and it becomes the `atoll` that lies beside it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let program = beside(std::env::current_exe().ok().as_deref());
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Only returns if it failed: otherwise this process is `atoll` from here on, with its signals and exit code.
    let error = Command::new(&program).args(arguments).exec();
    eprintln!(
        "error: cannot run {}: {error}; put atoll and kubectl-atoll into one directory",
        program.display()
    );
    ExitCode::FAILURE
}

/// The `atoll` in the same directory, or else the one that PATH leads to.
fn beside(own: Option<&Path>) -> PathBuf {
    let neighbour = own.map(|own| own.with_file_name("atoll"));
    neighbour.filter(|program| program.exists()).unwrap_or_else(|| "atoll".into())
}
