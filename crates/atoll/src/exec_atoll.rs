//! The kubectl plugin executables replace themselves with the `atoll` executable in the same directory and
//! pass their own name as argv[0].

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Replaces this process with `atoll`. Returns only if that failed.
pub fn exec_atoll(name: &str) -> ExitCode {
    let program = atoll_program(std::env::current_exe().ok().as_deref());
    let error = Command::new(&program).arg0(name).args(std::env::args_os().skip(1)).exec();
    eprintln!("error: cannot run {}: {error}; put atoll and {name} into one directory", program.display());
    ExitCode::FAILURE
}

/// The `atoll` executable in the same directory, or else the one in PATH.
fn atoll_program(own: Option<&Path>) -> PathBuf {
    let sibling = own.map(|own| own.with_file_name("atoll"));
    sibling.filter(|program| program.exists()).unwrap_or_else(|| "atoll".into())
}
