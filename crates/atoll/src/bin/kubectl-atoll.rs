//! `kubectl atoll …`: the executable that kubectl runs for the subcommand `atoll`.

#[path = "../beside.rs"]
mod beside;

fn main() -> std::process::ExitCode {
    beside::become_atoll("kubectl-atoll")
}
