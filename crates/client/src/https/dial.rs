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

/// Connects to a host; if a tenant specified it, only to allowed addresses.
pub async fn open(
    host: &str,
    port: u16,
    tenants: Option<&TenantAddresses>,
) -> Result<TcpStream, (Cause, io::Error)> {
    let unresolved = |error| (Cause::NameNotResolved, error);
    // An unresponsive name server would take longer than callers wait.
    let found = tokio::time::timeout(RESOLVING, resolve(host, port)).await;
    let found =
        found.map_err(|_| unresolved(io::Error::new(ErrorKind::TimedOut, "name resolution timed out")))?;
    let mut found = found.map_err(unresolved)?;
    if let Some(tenants) = tenants {
        let refused = |what| (Cause::AddressRefused, io::Error::new(ErrorKind::PermissionDenied, what));
        found = tenants.allowed(host, found).map_err(refused)?;
    }
    connect(&found).await.map_err(|error| (cause(&error), error))
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
