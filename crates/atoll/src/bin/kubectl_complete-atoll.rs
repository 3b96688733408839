//! `kubectl atoll … <TAB>`: the executable that kubectl runs to complete the arguments of `atoll`.

#[path = "../exec_atoll.rs"]
mod exec_atoll;

fn main() -> std::process::ExitCode {
    exec_atoll::exec_atoll("kubectl_complete-atoll")
}
