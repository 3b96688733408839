//! `atoll`: one Kubernetes API over all of your clusters.

mod adopt;
mod advice;
mod certificates;
mod cluster;
mod command;
mod completion;
mod controllers;
mod dialect;
mod encryption;
mod explain;
mod keys;
mod kubeconfig;
mod kubelets;
mod open_files;
mod orphans;
mod output;
mod pause;
mod place;
mod plane;
mod playground;
mod process;
mod release;
mod sim;
mod snapshot;
mod start;
mod style;
mod syncer;
mod version;
mod what_if;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::command::Command;
use crate::output::errln;
use crate::style::{ColorMode, Paint};

// jemalloc returns memory to the system when many threads allocate and free objects of all sizes. Its
// background thread also returns memory freed by threads that then sleep, such as the store's reader after
// loading.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(words) = completion::kubectl_completion_words(&arguments) {
        completion::print_candidates(&words);
        return ExitCode::SUCCESS;
    }
    style::set_color_mode(ColorMode::of(&arguments));
    advice::set_invocation(command::invocation(&arguments));
    let line = match command::with_config_file(arguments) {
        Ok(arguments) => command::parse(arguments),
        Err(problem) => return fail(&problem),
    };
    let outcome = match line.command {
        Command::Start(options) => start::run(*options),
        Command::Playground(options) => playground::run(options),
        Command::Sim(line) => sim::run(*line),
        Command::Workspace(command) => workspace::run(command),
        Command::Cluster(command) => cluster::run(command),
        Command::Dialect(command) => dialect::run(command),
        Command::Syncer(options) => syncer::run(options),
        Command::Controllers(options) => controllers::run(options),
        Command::Place(options) => place::run(options),
        Command::Move(options) => place::move_to::run(options),
        Command::WhatIf(options) => what_if::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Adopt(options) => adopt::run(options),
        Command::Release(options) => release::run(options),
        Command::Orphans(command) => orphans::run(command),
        Command::Pause(options) => pause::run(options),
        Command::Resume(scope) => pause::resume(scope),
        Command::Snapshot(command) => snapshot::run(command),
        Command::Keys(command) => keys::run(command),
        Command::Version { connection } => version::run(&connection),
        Command::Completion { shell } => {
            completion::script(shell);
            Ok(())
        }
        Command::Complete { words } => {
            completion::print_candidates(&completion::words(&words));
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fail(&problem),
    }
}

/// Prints the error and its hint.
fn fail(problem: &str) -> ExitCode {
    errln!("{}", advice::render(problem, Paint::stderr()));
    ExitCode::FAILURE
}
