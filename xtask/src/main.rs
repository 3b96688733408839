//! Development commands of the project, run as `cargo xtask COMMAND`. Each command is a module with a
//! function `run` that takes the remaining arguments.

mod bench;
mod ci;
mod codegen;
mod conformance;
mod dist;
mod fuzz;
mod tidy;
mod upstream_diff;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND [OPTIONS]

  tidy                                   check crate dependencies, files, names and comments, and formatting
  ci                                     run all checks of .ci/run
  fuzz [SECONDS] [TARGET...]             run the given fuzz targets, or all, for 60 seconds each or the given number
  bench api|apply|place|sim|start|sync|watch|workspaces|store
                                         run a benchmark; compares with the real kube-apiserver if Go is installed
  conformance a|b [--release] [--minutes 30]
                                         run upstream's conformance tests for API servers (a) or controllers (b)
  dist [--out target/dist]               build a release: the program, an image of it, checksums
  codegen [--version 1.36.4] [--check]   write the facts about Kubernetes' types to crates/schema/data (needs Go)
  upstream-diff OLD NEW                  list cited upstream files that differ between two Kubernetes versions (needs Go)
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let result = match command.as_deref() {
        Some("ci") => ci::run(&rest),
        Some("bench") => bench::run(&rest),
        Some("conformance") => conformance::run(&rest),
        Some("codegen") => codegen::run(&rest),
        Some("dist") => dist::run(&rest),
        Some("fuzz") => fuzz::run(&rest),
        Some("tidy") => tidy::run(&rest),
        Some("upstream-diff") => upstream_diff::run(&rest),
        Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        Some(other) => Err(format!("unknown command \"{other}\"\n\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}
