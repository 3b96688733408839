//! Builds Atoll and the benchmarks in release mode and runs them. The benchmarks are in `crates/bench`,
//! because their dependencies would slow down the build of every other xtask command.
//!
//! `--dev` optimizes only the crates of this workspace and reuses the dependencies of the dev profile, for
//! machines on which a release build takes longer than the benchmark. Atoll is slower in that mode;
//! kube-apiserver is not.

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default();
    let dev = arguments.iter().any(|argument| argument == "--dev");
    let arguments: Vec<&String> = arguments.iter().filter(|argument| *argument != "--dev").collect();
    let cargo = |action: &str, package: &str| {
        let mut command = Command::new("cargo");
        match dev {
            // Optimization level 1 gives most of the speed for half of the build time. Debug information and
            // incremental compilation are not needed here.
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
        return run_command(
            cargo("run", "atoll-sqlite").args(["--example", "throughput", "--"]).args(&arguments[1..]),
        );
    }
    if arguments.first().is_some_and(|name| *name == "place") {
        let mut decisions = cargo("run", "atoll-placement");
        decisions.args(["--example", "decisions_per_second", "--"]).args(sizes(&arguments));
        run_command(&mut decisions)?;
    }
    run_command(&mut cargo("build", "atoll"))?;
    let mut bench = cargo("run", "atoll-bench");
    bench.arg("--").args(&arguments);
    if !arguments.is_empty() {
        bench.arg("--upstream").arg(root.join("upstream"));
    }
    run_command(&mut bench)
}

/// The numbers of workloads and of clusters for the example that decides without a server.
fn sizes(arguments: &[&String]) -> [String; 2] {
    let is_quick = arguments.iter().any(|argument| *argument == "--quick");
    let option = |name: &str| {
        let position = arguments.iter().position(|argument| *argument == name)?;
        arguments.get(position + 1).map(|value| value.to_string())
    };
    let (workloads, clusters) = if is_quick { ("1000", "10,100") } else { ("10000", "10,100,1000") };
    [
        option("--workloads").unwrap_or_else(|| workloads.to_string()),
        option("--clusters").unwrap_or_else(|| clusters.to_string()),
    ]
}

fn run_command(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo failed: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn the_example_decides_about_as_much_as_the_server() {
        for (line, expected) in [
            ("place", ["10000", "10,100,1000"]),
            ("place --quick", ["1000", "10,100"]),
            ("place --clusters 5,7 --quick", ["1000", "5,7"]),
            ("place --workloads 20", ["20", "10,100,1000"]),
            ("place --workloads", ["10000", "10,100,1000"]),
        ] {
            let arguments: Vec<String> = line.split(' ').map(String::from).collect();
            assert_eq!(sizes(&arguments.iter().collect::<Vec<_>>()), expected, "{line}");
        }
    }
}
