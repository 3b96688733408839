//! Benchmarks Atoll against the real kube-apiserver: `cargo xtask bench`.
//!
//! ```text
//!   session ─ programs ─► server (Atoll | kube-apiserver with etcd), a new one for each round
//!      │                    ▲
//!      │    load ─ connection ─ framing          one closed loop per connection, prepared requests
//!      │      │        └─ secure ─ records       TLS
//!      ▼      │
//!   report ◄──┴─ api · apply · place · sim · start · sync · watch · workspaces
//! ```
//!
//! Both servers get the same bytes from the same client, on the same machine, one after the other. Responses
//! are checked. Times are only reported, together with the properties of the machine.

mod api;
mod apply;
mod connection;
mod error;
mod framing;
mod load;
mod machine;
mod place;
mod process;
mod records;
mod report;
mod samples;
mod secure;
mod server;
mod session;
mod sim;
mod start;
mod sync;
mod watch;
mod workspaces;

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{BenchError, BenchResult};
use crate::session::{BenchOptions, Session};

const USAGE: &str = "\
usage: cargo xtask bench api|apply|place|sim|start|sync|watch|workspaces [OPTIONS]

  --quick           run shorter, with less precise results
  --alone           do not compare with kube-apiserver
  --json FILE       write all results to FILE
  --directory DIR   directory for the data of the servers (default: beside the program)
  --atoll FILE      the Atoll program to measure (default: the one that was built)
  --dev             build with fewer optimizations: a faster build, but a slower Atoll
  --clusters N,N    numbers of clusters, in increasing order (place and sync only)
  --workloads N     number of workloads (place only)
  --upstream DIR    directory of the scripts that build and start kube-apiserver
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(BenchError::Usage(problem)) => {
            eprintln!("{problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> BenchResult<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let options = BenchOptions::parse(arguments)?;
    raise_open_files();
    match name.as_str() {
        "api" => api::run(&Session::open(options, Some(&[]))?),
        "apply" => apply::run(&Session::open(options, Some(&[]))?),
        "place" => place::run(&Session::open(options, None)?),
        "sim" => {
            let components = ["kube-controller-manager", "kube-scheduler", "kwok"];
            sim::run(&Session::open(options, Some(&components))?)
        }
        "start" => start::run(&Session::open(options, None)?),
        "sync" => sync::run(&Session::open(options, None)?),
        "watch" => watch::run(&Session::open(options, Some(&[]))?),
        "workspaces" => workspaces::run(&Session::open(options, None)?),
        "" => Err(BenchError::Usage("the name of a benchmark is missing".into())),
        other => Err(BenchError::Usage(format!("unknown benchmark {other:?}"))),
    }
}

/// Raises the limit on open files: a thousand watchers need more than the usual default. Child processes
/// inherit it.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, connecting fails with a clear error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Prints progress to standard error; results go to standard output.
fn progress(what: &str) {
    eprintln!("{what}");
}
