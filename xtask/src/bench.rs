//! Builds what is measured and what measures, both in release, and starts it. The measuring is in `crates/bench`: its
//! dependencies would make every other chore slow to build.
//!
//! Where a release build would take longer than the measurement, `--dev` optimizes only the crates of this workspace: what
//! tests and others have made of the dependencies is used as it is. Atoll is the slower for it, and nobody else.

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default();
    let dev = arguments.iter().any(|argument| argument == "--dev");
    let arguments: Vec<&String> = arguments.iter().filter(|argument| *argument != "--dev").collect();
    let cargo = |action: &str, package: &str| {
        let mut command = Command::new("cargo");
        match dev {
            // The first level is most of the way, at half the time; nobody debugs or changes what comes of it.
            true => command.arg(action).envs([
                ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
                ("CARGO_PROFILE_DEV_DEBUG", "0"),
                ("CARGO_INCREMENTAL", "0"),
            ]),
            false => command.args([action, "--release"]),
        };
        command.arg("--manifest-path").arg(root.join("Cargo.toml")).args(["-p", package]);
        command
    };
    if arguments.first().is_some_and(|name| *name == "store") {
        return finish(
            cargo("run", "atoll-sqlite").args(["--example", "throughput", "--"]).args(&arguments[1..]),
        );
    }
    finish(&mut cargo("build", "atoll"))?;
    let mut bench = cargo("run", "atoll-bench");
    bench.arg("--").args(&arguments);
    if !arguments.is_empty() {
        bench.arg("--upstream").arg(root.join("upstream"));
    }
    finish(&mut bench)
}

fn finish(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("that ended with {status}")) }
}
