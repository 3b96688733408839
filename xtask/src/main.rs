//! Chores of the project, run as `cargo xtask NAME`. Each chore is a module with a `run` that takes the arguments after
//! its name.

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
usage: cargo xtask CHORE [OPTIONS]

  tidy                                   check the rules of the tree: crate edges, file rules, dependencies, format
  ci                                     all checks, as .ci/run does
  fuzz [SECONDS] [TARGET...]             run every fuzz target, or these, for 60 or so many seconds
  bench api|apply|sim|start|watch|workspaces|store measure Atoll, beside the real kube-apiserver where Go is there
  conformance a|b [--release] [--minutes 30]
                                         upstream's conformance tests: a, of an API server alone; b, with controllers
  dist [--out target/dist]               build what is carried away: the program, an image of it, checksums
  codegen [--version 1.36.4] [--check]   write what is known of Kubernetes' types to crates/schema/data (needs Go)
  upstream-diff OLD NEW                  list cited upstream files that differ between two Kubernetes versions (needs Go)
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let chore = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let outcome = match chore.as_deref() {
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
        Some(other) => Err(format!("there is no chore \"{other}\"\n\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}
