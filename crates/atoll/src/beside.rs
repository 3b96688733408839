//! Programs that kubectl looks for by their names become the `atoll` that lies beside them, and tell it the name.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Only returns if it failed: otherwise this process is `atoll` from here on, with its signals and exit code.
pub fn become_atoll(name: &str) -> ExitCode {
    let program = beside(std::env::current_exe().ok().as_deref());
    let error = Command::new(&program).arg0(name).args(std::env::args_os().skip(1)).exec();
    eprintln!("error: cannot run {}: {error}; put atoll and {name} into one directory", program.display());
    ExitCode::FAILURE
}

/// The `atoll` in the same directory, or else the one that PATH leads to.
fn beside(own: Option<&Path>) -> PathBuf {
    let neighbour = own.map(|own| own.with_file_name("atoll"));
    neighbour.filter(|program| program.exists()).unwrap_or_else(|| "atoll".into())
}
