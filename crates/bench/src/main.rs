//! Measures Atoll, and the real kube-apiserver beside it: `cargo xtask bench`.
//!
//! ```text
//!   session ─ programs ─► server (Atoll | kube-apiserver with etcd), started afresh
//!      │                    ▲
//!      │    load ─ connection ─ framing          one closed loop per connection, prepared requests
//!      │      │        └─ secure ─ records       TLS
//!      ▼      │
//!   report ◄──┴─ api · apply · sim · start · sync · watch · workspaces
//! ```
//!
//! Both servers get the same bytes from the same client, on the same machine, one after the other. Answers are
//! checked; times never are: they are for people to judge, with what is said of the machine.

mod api;
mod apply;
mod connection;
mod error;
mod framing;
mod load;
mod machine;
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

use crate::error::{BenchError, Outcome};
use crate::session::{Options, Session};

const USAGE: &str = "\
usage: cargo xtask bench api|apply|sim|start|sync|watch|workspaces [OPTIONS]

  --quick           shorter and less exact
  --alone           without kube-apiserver
  --json FILE       write all numbers to FILE
  --directory DIR   where the servers keep their data (beside the programs)
  --atoll FILE      the program to measure (the one that is built)
  --dev             build less optimized: sooner done, and Atoll the slower
  --clusters N,N    how many clusters are synced, one number after the other (sync)
  --upstream DIR    where the scripts are that build and serve kube-apiserver
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

fn run() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let options = Options::parse(arguments)?;
    raise_open_files();
    match name.as_str() {
        "api" => api::run(&Session::open(options, Some(&[]))?),
        "apply" => apply::run(&Session::open(options, Some(&[]))?),
        "sim" => {
            let besides = ["kube-controller-manager", "kube-scheduler", "kwok"];
            sim::run(&Session::open(options, Some(&besides))?)
        }
        "start" => start::run(&Session::open(options, None)?),
        "sync" => sync::run(&Session::open(options, None)?),
        "watch" => watch::run(&Session::open(options, Some(&[]))?),
        "workspaces" => workspaces::run(&Session::open(options, None)?),
        "" => Err(BenchError::Usage("what shall be measured?".into())),
        other => Err(BenchError::Usage(format!("there is no benchmark {other:?}"))),
    }
}

/// A thousand watchers need more files than a shell allows by itself. What is started inherits it.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where even that is refused, the watchers that cannot connect say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Tells the person who waits what is going on, on another stream than the numbers.
fn progress(what: &str) {
    eprintln!("{what}");
}
