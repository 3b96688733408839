//! `atoll`: one Kubernetes API over every cluster you have.

mod certificates;
mod client;
mod command;
mod encryption;
mod keys;
mod kubeconfig;
mod kubelets;
mod plane;
mod playground;
mod process;
mod sim;
mod snapshot;
mod start;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::command::{Command, Line};

// Objects come and go in all sizes, from many threads: this allocator gives memory back and stays small. It has a thread
// of its own for that: what a thread freed that then sleeps, as the store's reader does after loading, would stay.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let line = match command::with_config_file(std::env::args_os().collect()) {
        Ok(arguments) => Line::parse_from(arguments),
        Err(problem) => return fail(&problem),
    };
    let outcome = match line.command {
        Command::Start(options) => start::run(*options),
        Command::Playground(options) => playground::run(options),
        Command::Sim(line) => sim::run(*line),
        Command::Workspace(command) => workspace::run(command),
        Command::Snapshot(command) => snapshot::run(command),
        Command::Keys(command) => keys::run(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fail(&problem),
    }
}

/// Problems are for the person at the terminal: one sentence, and what to do.
fn fail(problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::FAILURE
}
