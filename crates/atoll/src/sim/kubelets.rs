//! Connections from a simulated cluster's API server to its kubelets, which run in the same process.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_client::BoxFuture;
use atoll_client::dialing::TenantAddresses;
use atoll_server::connect::backend::{DialError, Dialer, Network, Socket};
use atoll_server::connect::kubelets::Kubelets;
use atoll_sim::{KubeletListener, Ports};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::kubelets::USER;

/// The certificates are created at every start and never renewed.
const LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// Returns the server's client for the kubelets, and the listener of the kubelets.
pub async fn connect(
    authority: &Authority,
    kubelet_authority: &Authority,
    now: OffsetDateTime,
) -> Result<(Kubelets, KubeletListener), String> {
    let text = |error: &dyn fmt::Display| error.to_string();
    let client = authority.client(USER, None, now, LIFETIME).map_err(|error| text(&error))?;
    let certificate = client.certificate_der().map_err(|error| text(&error))?;
    let key = client.key_der().map_err(|error| text(&error))?;
    let identity = (vec![certificate.clone()], key);
    let trusted = kubelet_authority.certificate_pem.as_bytes();
    let mut kubelets = Kubelets::new(Some(identity), Some(trusted)).map_err(|error| text(&error))?;
    kubelets.address_types = vec!["InternalIP".into()];
    let ports = Arc::<Ports>::default();
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let listener = TcpListener::bind(SocketAddr::new(localhost, 0)).await.map_err(|error| text(&error))?;
    let kubelet = listener.local_addr().map_err(|error| text(&error))?;
    kubelets.dialer = Box::new(LocalDialer { kubelet, pods: ports.clone() });
    let serving =
        kubelet_authority.serving(&[], &[localhost], now, LIFETIME).map_err(|error| text(&error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = SingleCertVerifier { certificate, provider: provider.clone() };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(
            vec![serving.certificate_der().map_err(|error| text(&error))?],
            serving.key_der().map_err(|error| text(&error))?,
        )
        .map_err(|error| text(&error))?;
    let (tls, measurements) = (TlsAcceptor::from(Arc::new(config)), Arc::default());
    Ok((kubelets, KubeletListener { listener, tls, admits: None, ports, measurements }))
}

/// Connects only to simulated nodes and pods, which are on this machine.
struct LocalDialer {
    kubelet: SocketAddr,
    pods: Arc<Ports>,
}

impl LocalDialer {
    fn address_of(&self, host: &str, port: u16) -> Option<SocketAddr> {
        match host.parse().ok()? {
            // Other ports of this machine do not belong to the cluster.
            Ipv4Addr::LOCALHOST => Some(self.kubelet).filter(|kubelet| kubelet.port() == port),
            pod => self.pods.find(pod, port),
        }
    }
}

impl Dialer for LocalDialer {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Socket>, DialError>> {
        Box::pin(async move {
            let refused = || DialError(format!("dial tcp {host}:{port}: connect: connection refused"));
            let address = self.address_of(host, port).ok_or_else(refused)?;
            Network.dial(&address.ip().to_string(), address.port()).await
        })
    }

    /// No restriction is necessary: it only connects to its own nodes and pods.
    fn for_tenant<'a>(
        &'a self,
        _: &'a str,
        _: u16,
        _: &'a TenantAddresses,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Pods have addresses of the simulated network, and nodes have the loopback address.
    fn is_allowed<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let host = host.parse::<Ipv4Addr>();
            let is_cluster_address =
                host.is_ok_and(|host| host.octets()[0] == 10 || host == Ipv4Addr::LOCALHOST);
            if is_cluster_address { Ok(()) } else { Err("address not allowed".into()) }
        })
    }
}

/// Accepts one certificate only.
#[derive(Debug)]
struct SingleCertVerifier {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for SingleCertVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match *certificate == self.certificate {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
