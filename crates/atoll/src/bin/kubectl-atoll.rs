//! `kubectl atoll …`: kubectl runs this for the word "atoll".

#[path = "../beside.rs"]
mod beside;

fn main() -> std::process::ExitCode {
    beside::become_atoll("kubectl-atoll")
}
