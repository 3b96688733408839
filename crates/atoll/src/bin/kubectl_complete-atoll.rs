//! `kubectl atoll … <TAB>`: the executable that kubectl runs to complete the arguments of `atoll`.

#[path = "../beside.rs"]
mod beside;

fn main() -> std::process::ExitCode {
    beside::become_atoll("kubectl_complete-atoll")
}
