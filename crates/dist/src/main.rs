//! `atoll-dist PROGRAM VERSION DIRECTORY`: the packaging step of `cargo xtask dist`, after the build.

use std::path::Path;
use std::process::ExitCode;

use atoll_dist::distribution;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, version, directory] = arguments.as_slice() else {
        eprintln!("usage: atoll-dist PROGRAM VERSION DIRECTORY");
        return ExitCode::FAILURE;
    };
    match distribution::write(Path::new(program), version, Path::new(directory), |line| println!("{line}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
