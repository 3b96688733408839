//! Both servers with the same administrator, and clients that send nothing but what a case says.

use atoll_testkit::{Atoll, Client, Setup, TOKEN, TOKENS, Upstream};

/// Starts Atoll without controllers, as kube-apiserver runs here, with additional arguments.
pub fn start_atoll(arguments: &[&str]) -> Atoll {
    Setup::new().flag("--controllers", false).arguments(arguments).tokens(TOKENS).start()
}

/// Returns a client of the administrator whom both servers have, with a connection of its own.
pub fn atoll_client(atoll: &Atoll) -> Client {
    atoll.admin().token(TOKEN).accepting_anything().keep_alive()
}

/// The same for kube-apiserver.
pub fn upstream_client(upstream: &Upstream) -> Client {
    upstream.admin().accepting_anything().keep_alive()
}
