//! `atoll version`: which versions this program and the server are.

use crate::client::Client;
use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::output;
use crate::process;

pub fn run(connection: &Connection) -> Result<(), String> {
    output::print(&format!("atoll {}\n", env!("CARGO_PKG_VERSION")));
    // Without a kubeconfig there is no server to ask, unless one was named.
    let config = match Kubeconfig::load(connection) {
        Ok(config) => config,
        Err(_) if connection.kubeconfig.is_none() && connection.context.is_none() => return Ok(()),
        Err(failure) => return Err(failure.into()),
    };
    let client = Client::new(&config.context().map_err(String::from)?)?;
    process::ask(async {
        match client.call(http::Method::GET, "/version", None).await {
            Ok(found) => {
                let version = found["gitVersion"].as_str().unwrap_or("<unknown>");
                output::print(&format!("server {version} at {}\n", client.origin));
            }
            Err(problem) => eprintln!(
                "the server at {} does not say its version: {}",
                client.origin,
                crate::advice::Failure::from(problem)
            ),
        }
        Ok(())
    })
}
