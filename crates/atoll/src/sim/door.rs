//! Where the kubelets of a simulated cluster listen: on this machine, and only for its API server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_sim::Door;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use time::OffsetDateTime;
use tokio_rustls::TlsAcceptor;

/// Longer than any simulation runs.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Opens it on any free port.
pub fn open(authority: &Authority) -> Result<Door, String> {
    let address = Ipv4Addr::LOCALHOST;
    let listener =
        std::net::TcpListener::bind(SocketAddr::from((address, 0))).map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| error.to_string())?;
    Ok(Door { listener, tls: tls(authority, address).map_err(|error| error.to_string())? })
}

fn tls(authority: &Authority, address: Ipv4Addr) -> Result<TlsAcceptor, Box<dyn std::error::Error>> {
    let names = ["localhost".to_string()];
    let identity = authority.serving(&names, &[address.into()], OffsetDateTime::now_utc(), LIFETIME)?;
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes())?)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes())?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
