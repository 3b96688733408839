//! `atoll version`: prints the versions of this program and of the server.

use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use crate::output;
use crate::process;
use atoll_joining::client::Client;

pub fn run(connection: &Connection) -> Result<(), String> {
    output::print(&format!("atoll {}\n", env!("CARGO_PKG_VERSION")));
    // Without a kubeconfig there is no server to query, unless one was named.
    let config = match Kubeconfig::load(connection) {
        Ok(config) => config,
        Err(_) if connection.kubeconfig.is_none() && connection.context.is_none() => return Ok(()),
        Err(failure) => return Err(failure.into()),
    };
    let client = Client::new(&config.context().map_err(String::from)?)?;
    process::run_command(async {
        match client.call(http::Method::GET, "/version", None).await {
            Ok(found) => {
                let version = found["gitVersion"].as_str().unwrap_or("<unknown>");
                output::print(&format!("server {version} at {}\n", client.origin));
            }
            Err(problem) => eprintln!(
                "cannot read the version of the server at {}: {}",
                client.origin,
                crate::advice::Failure::from(problem)
            ),
        }
        Ok(())
    })
}
