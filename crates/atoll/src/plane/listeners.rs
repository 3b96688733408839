//! The listeners of a control plane: one for clients and, in a simulated cluster, one for its administrator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use atoll_client::dialing::TenantAddresses;
use atoll_server::Server;
use atoll_server::listen::wrapper::Listener;
use atoll_server::listen::{self, ListenerConfig, Tls};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::settings::PlaneSettings;
use crate::sim::Simulation;

/// Bound listeners, which do not accept connections yet.
pub struct Listeners {
    clients: TcpListener,
    control: Option<TcpListener>,
    pub addresses: Addresses,
}

/// The addresses of the listeners.
#[derive(Clone, Copy)]
pub struct Addresses {
    /// The address that clients are accepted on.
    pub listening: SocketAddr,
    /// Address for clients.
    pub advertised: SocketAddr,
    /// Address for the administrator of a simulated cluster, which faults do not affect.
    pub control: Option<SocketAddr>,
}

impl Listeners {
    pub async fn bind(settings: &PlaneSettings) -> Result<Listeners, String> {
        let clients = bind(settings.listen, settings.any_port).await?;
        let listening = local_address(&clients)?;
        let host = settings.advertise.unwrap_or_else(|| reachable(listening.ip()));
        let control = match &settings.simulation {
            Some(_) => Some(bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).await?),
            None => None,
        };
        let addresses = Addresses {
            listening,
            advertised: SocketAddr::new(host, listening.port()),
            control: control.as_ref().map(local_address).transpose()?,
        };
        Ok(Listeners { clients, control, addresses })
    }

    /// Serves all listeners until the server stops.
    pub fn serve(
        self,
        server: &Arc<Server>,
        tls: Tls,
        simulation: Option<&Arc<Simulation>>,
    ) -> Result<Vec<JoinHandle<()>>, String> {
        let clients = match simulation {
            Some(simulation) => simulation.listener(self.clients).map_err(|error| error.to_string())?,
            None => Listener::Tcp(self.clients),
        };
        let serve = |listener, config| tokio::spawn(listen::serve(server.clone(), listener, config));
        let mut serving = vec![serve(clients, ListenerConfig { tls: tls.clone(), own_clock: true })];
        if let Some(control) = self.control {
            serving.push(serve(Listener::Tcp(control), ListenerConfig { tls, own_clock: false }));
        }
        Ok(serving)
    }
}

impl Addresses {
    /// The addresses that workspaces below root may make the server connect to.
    pub fn for_tenants(&self, settings: &PlaneSettings) -> TenantAddresses {
        match settings.allow_tenant_addresses {
            true => TenantAddresses::unrestricted(),
            false => TenantAddresses::restricted(vec![self.listening.ip(), self.advertised.ip()]),
        }
    }
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, String> {
    listener.local_addr().map_err(|error| error.to_string())
}

async fn bind(address: SocketAddr, any_port: bool) -> Result<TcpListener, String> {
    match listen::bind(address).await {
        Err(error) if any_port && error.kind() == std::io::ErrorKind::AddrInUse => {
            let any = SocketAddr::new(address.ip(), 0);
            listen::bind(any).await.map_err(|error| cannot_listen(any, &error))
        }
        bound => bound.map_err(|error| cannot_listen(address, &error)),
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> String {
    format!(
        "cannot listen on {address}: {error}; choose another address with --listen, or stop the program that uses it"
    )
}

/// The address for clients on this machine.
fn reachable(listening: IpAddr) -> IpAddr {
    if listening.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listening }
}
