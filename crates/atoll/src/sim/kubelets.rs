//! The way from a simulated cluster's API server to its kubelets: both are here, and nobody else gets in between.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::MASTERS;
use atoll_authn::authority::Authority;
use atoll_client::BoxFuture;
use atoll_server::connect::backend::{Dialer, Network, Socket, Unreachable};
use atoll_server::connect::kubelets::Kubelets;
use atoll_sim::Door;
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

/// As upstream's clusters call it.
const CLIENT: &str = "kube-apiserver-kubelet-client";
/// Nobody renews these certificates; they are new with every start.
const LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// How the server reaches the kubelets, and where these listen.
pub async fn connected(authority: &Authority, now: OffsetDateTime) -> Result<(Kubelets, Door), String> {
    let words = |error: &dyn fmt::Display| error.to_string();
    let client = authority.client(CLIENT, MASTERS, now, LIFETIME).map_err(|error| words(&error))?;
    let certificate = client.certificate_der().map_err(|error| words(&error))?;
    let key = client.key_der().map_err(|error| words(&error))?;
    let identity = (vec![certificate.clone()], key);
    let trusted = authority.certificate_pem.as_bytes();
    let mut kubelets = Kubelets::new(Some(identity), Some(trusted)).map_err(|error| words(&error))?;
    kubelets.address_types = vec!["InternalIP".into()];
    kubelets.dialer = Box::new(Here);
    let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let serving = authority.serving(&[], &[home], now, LIFETIME).map_err(|error| words(&error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let only = OnlyServer { certificate, provider: provider.clone() };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| words(&error))?
        .with_client_cert_verifier(Arc::new(only))
        .with_single_cert(
            vec![serving.certificate_der().map_err(|error| words(&error))?],
            serving.key_der().map_err(|error| words(&error))?,
        )
        .map_err(|error| words(&error))?;
    let listener = TcpListener::bind(SocketAddr::new(home, 0)).await.map_err(|error| words(&error))?;
    Ok((kubelets, Door { listener, tls: TlsAcceptor::from(Arc::new(config)) }))
}

/// Nodes and Pods are on this machine, and nothing else is meant. Pods listen where their addresses have 127 in front.
struct Here;

impl Here {
    fn place(host: &str) -> Option<Ipv4Addr> {
        match host.parse::<Ipv4Addr>().ok()?.octets() {
            [10 | 127, second, third, fourth] => Some(Ipv4Addr::new(127, second, third, fourth)),
            _ => None,
        }
    }
}

impl Dialer for Here {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Socket>, Unreachable>> {
        Box::pin(async move {
            let nowhere = || Unreachable(format!("dial tcp {host}:{port}: connect: no route to host"));
            let place = Here::place(host).ok_or_else(nowhere)?.to_string();
            Network.dial(&place, port).await
        })
    }

    fn is_allowed<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let allowed = Here::place(host).filter(|place| *place != Ipv4Addr::LOCALHOST);
            allowed.map(|_| ()).ok_or_else(|| "address not allowed".to_string())
        })
    }
}

/// Lets in whoever has this one certificate.
#[derive(Debug)]
struct OnlyServer {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for OnlyServer {
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
