//! Connections to a host: name resolution, the rule for addresses of tenants, TCP and TLS.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::connect_error::Cause;
use crate::dialing::TenantAddresses;

/// Timeout of name resolution.
const RESOLVING: Duration = Duration::from_secs(4);

/// Returns the addresses of a host; at least one.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    match found.is_empty() {
        true => Err(io::Error::new(ErrorKind::NotFound, "the name has no addresses")),
        false => Ok(found),
    }
}

/// Connects to the first address that accepts a connection.
pub async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no addresses");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Name resolution and connections, which tests replace.
trait Network {
    type Stream;

    fn resolve(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    fn connect(&self, addresses: &[SocketAddr]) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// The network of this machine.
struct System;

impl Network for System {
    type Stream = TcpStream;

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        resolve(host, port).await
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        connect(addresses).await
    }
}

/// Connects to a host; if a tenant specified it, only to allowed addresses.
pub async fn open(
    host: &str,
    port: u16,
    tenants: Option<&TenantAddresses>,
) -> Result<TcpStream, (Cause, io::Error)> {
    open_in(&System, host, port, tenants).await
}

/// The name is resolved once: another response of the name server would not have been checked.
async fn open_in<N: Network>(
    network: &N,
    host: &str,
    port: u16,
    tenants: Option<&TenantAddresses>,
) -> Result<N::Stream, (Cause, io::Error)> {
    let unresolved = |error| (Cause::NameNotResolved, error);
    // An unresponsive name server would take longer than callers wait.
    let found = tokio::time::timeout(RESOLVING, network.resolve(host, port)).await;
    let found =
        found.map_err(|_| unresolved(io::Error::new(ErrorKind::TimedOut, "name resolution timed out")))?;
    let mut found = found.map_err(unresolved)?;
    if let Some(tenants) = tenants {
        let refused = |what| (Cause::AddressRefused, io::Error::new(ErrorKind::PermissionDenied, what));
        found = tenants.allowed(host, found).map_err(refused)?;
    }
    network.connect(&found).await.map_err(|error| (cause(&error), error))
}

/// Performs the TLS handshake with a host, which is a name or an address without brackets.
pub async fn secure<S>(stream: S, host: &str, config: Arc<ClientConfig>) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.to_string()).map_err(|_| {
        io::Error::new(ErrorKind::InvalidInput, format!("{host:?} is not a valid server name"))
    })?;
    TlsConnector::from(config).connect(name, stream).await
}

/// Returns why a connection failed, or why the server's certificate is not trusted.
pub fn cause(error: &io::Error) -> Cause {
    use rustls::CertificateError;
    let reason = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(wrong)) = reason else {
        return match error.kind() {
            ErrorKind::NotFound => Cause::NameNotResolved,
            ErrorKind::ConnectionRefused => Cause::ConnectionRefused,
            ErrorKind::TimedOut => Cause::TimedOut,
            _ => Cause::Unreachable,
        };
    };
    match wrong {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Cause::CertificateExpired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Cause::CertificateNotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Cause::CertificateForAnotherName
        }
        _ => Cause::CertificateUntrusted,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A network whose name server has another response each time.
    struct ChangingNames {
        responses: Vec<Vec<SocketAddr>>,
        lookups: AtomicUsize,
        connected: Mutex<Vec<SocketAddr>>,
    }

    impl Network for ChangingNames {
        type Stream = ();

        async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            let number = self.lookups.fetch_add(1, Ordering::Relaxed).min(self.responses.len() - 1);
            assert!(self.responses[number].iter().all(|address| address.port() == port));
            Ok(self.responses[number].clone())
        }

        async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<()> {
            self.connected.lock().unwrap().extend(addresses);
            Ok(())
        }
    }

    #[tokio::test]
    async fn addresses_that_are_connected_to_are_those_that_were_checked() {
        let addresses = |text: &str| -> Vec<SocketAddr> {
            text.split_whitespace().map(|address| format!("{address}:443").parse().unwrap()).collect()
        };
        // The responses of the name server, the addresses that are connected to, and the cause of a failure.
        for (responses, connected, failure) in [
            (["198.51.100.7", "127.0.0.1"], "198.51.100.7", None),
            (["198.51.100.7", "169.254.169.254"], "198.51.100.7", None),
            (["198.51.100.7 127.0.0.1", "127.0.0.1"], "198.51.100.7", None),
            (["127.0.0.1 198.51.100.7 198.51.100.8", "127.0.0.1"], "198.51.100.7 198.51.100.8", None),
            (["127.0.0.1", "198.51.100.7"], "", Some(Cause::AddressRefused)),
        ] {
            let network = ChangingNames {
                responses: responses.map(addresses).into(),
                lookups: AtomicUsize::new(0),
                connected: Mutex::default(),
            };
            let rule = TenantAddresses::restricted(Vec::new());
            let opened = open_in(&network, "cluster.example.com", 443, Some(&rule)).await;
            assert_eq!(opened.map_err(|(cause, _)| cause).err(), failure, "{responses:?}");
            assert_eq!(*network.connected.lock().unwrap(), addresses(connected), "{responses:?}");
            assert_eq!(network.lookups.load(Ordering::Relaxed), 1, "{responses:?}");
        }
    }
}
