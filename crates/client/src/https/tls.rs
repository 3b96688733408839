//! TLS configurations of all clients.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Names of the HTTP versions in TLS.
pub const HTTP1: &[u8] = b"http/1.1";
pub const HTTP2: &[u8] = b"h2";

/// A certificate chain and its private key.
pub type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The servers that a client accepts.
pub enum Trust {
    /// Servers with a certificate of one of these authorities, for their name.
    Authorities(Arc<RootCertStore>),
    Verifier(Arc<dyn ServerCertVerifier>),
    /// All servers. Their certificates are not verified.
    Any,
}

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Parses the certificates of authorities (PEM); there must be at least one.
pub fn authorities(pem: &[u8]) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("certificate-authority: {error}"))?;
        roots.add(certificate).map_err(|error| format!("certificate-authority: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("certificate-authority: it contains no certificate".into()),
        false => Ok(Arc::new(roots)),
    }
}

/// Parses a certificate chain and its key (PEM).
pub fn client_certificate(certificate: &[u8], key: &[u8]) -> Result<ClientCertificate, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| format!("client-certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client-key: {error}"))?;
    Ok((chain, key))
}

/// `protocols` are offered to the server, the preferred one first. Without any, none is negotiated.
pub fn config(
    trust: Trust,
    certificate: Option<ClientCertificate>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, String> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match trust {
        Trust::Authorities(roots) => builder.with_root_certificates(roots),
        Trust::Verifier(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        Trust::Any => builder.dangerous().with_custom_certificate_verifier(Arc::new(NoVerifier(provider))),
    };
    let mut config = match certificate {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Accepts every certificate.
#[derive(Debug)]
struct NoVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
