//! `kubectl atoll … <TAB>`: kubectl runs this to complete what comes after the word "atoll".

#[path = "../beside.rs"]
mod beside;

fn main() -> std::process::ExitCode {
    beside::become_atoll("kubectl_complete-atoll")
}
