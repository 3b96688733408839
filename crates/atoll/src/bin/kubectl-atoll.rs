//! `kubectl atoll …`: the executable that kubectl runs for the subcommand `atoll`.

#[path = "../exec_atoll.rs"]
mod exec_atoll;

fn main() -> std::process::ExitCode {
    exec_atoll::exec_atoll("kubectl-atoll")
}
