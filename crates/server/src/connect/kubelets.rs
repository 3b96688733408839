//! How kubelets are called: who the server says it is, and which certificates it takes from them.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use atoll_client::dialing::TenantAddresses;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::backend::{Dialer, Network};

/// Addresses of nodes, the kind that is tried first before the others, as upstream.
pub const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// Where kubelets listen that do not say where.
pub const PORT: u16 = 10250;

/// The way to nodes and Pods.
pub struct Kubelets {
    /// Which addresses of a node are used, in this order.
    pub address_types: Vec<String>,
    pub dialer: Box<dyn Dialer>,
    /// What nodes and Pods of workspaces below root may be reached at.
    pub tenants: TenantAddresses,
    provider: Arc<CryptoProvider>,
    /// Whose certificates kubelets must have; without it any will do, as upstream.
    authority: Option<Arc<dyn ServerCertVerifier>>,
    identified: ArcSwap<Identified>,
    /// For whoever must not learn who we are.
    stranger: Arc<ClientConfig>,
}

/// With our certificate.
struct Identified {
    verifying: Arc<ClientConfig>,
    trusting: Arc<ClientConfig>,
    identity: Option<Identity>,
}

/// A chain of certificates, and the key of the first.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Kubelets {
    /// `authority` is PEM with one certificate or more.
    pub fn new(identity: Option<Identity>, authority: Option<&[u8]>) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authority = authority.map(|pem| verifier(&provider, pem)).transpose()?;
        let identified = identified(&provider, authority.clone(), identity)?;
        let stranger = Arc::new(config(&provider, None, None)?);
        Ok(Kubelets {
            address_types: ADDRESS_TYPES.map(String::from).into(),
            dialer: Box::new(Network),
            tenants: TenantAddresses::default(),
            provider,
            authority,
            identified: ArcSwap::from_pointee(identified),
            stranger,
        })
    }

    /// Another certificate from now on.
    pub fn replace(&self, identity: Identity) -> Result<(), Error> {
        let identified = identified(&self.provider, self.authority.clone(), Some(identity))?;
        self.identified.store(Arc::new(identified));
        Ok(())
    }

    /// For a kubelet; `skip` takes any certificate from it.
    pub(super) fn tls(&self, skip: bool) -> Arc<ClientConfig> {
        let identified = self.identified.load();
        if skip { identified.trusting.clone() } else { identified.verifying.clone() }
    }

    /// For a kubelet whose certificate must be from this authority (PEM).
    pub(super) fn vouched(&self, authority: &[u8]) -> Result<Arc<ClientConfig>, Error> {
        let identity = self.identified.load().identity.as_ref().map(copy);
        config(&self.provider, Some(verifier(&self.provider, authority)?), identity).map(Arc::new)
    }

    /// For anybody else: nothing is checked, and nothing of us is told.
    pub(super) fn stranger(&self) -> Arc<ClientConfig> {
        self.stranger.clone()
    }
}

fn identified(
    provider: &Arc<CryptoProvider>,
    authority: Option<Arc<dyn ServerCertVerifier>>,
    identity: Option<Identity>,
) -> Result<Identified, Error> {
    Ok(Identified {
        verifying: Arc::new(config(provider, authority, identity.as_ref().map(copy))?),
        trusting: Arc::new(config(provider, None, identity.as_ref().map(copy))?),
        identity,
    })
}

fn copy((chain, key): &Identity) -> Identity {
    (chain.clone(), key.clone_key())
}

fn verifier(provider: &Arc<CryptoProvider>, pem: &[u8]) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let unusable = |error: &dyn fmt::Display| Error::General(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(|error| unusable(&error))?)?;
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    Ok(builder.build().map_err(|error| unusable(&error))?)
}

fn config(
    provider: &Arc<CryptoProvider>,
    authority: Option<Arc<dyn ServerCertVerifier>>,
    identity: Option<Identity>,
) -> Result<ClientConfig, Error> {
    let verifier = authority.unwrap_or_else(|| Arc::new(AnyServer { provider: provider.clone() }));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Takes every certificate whose key the server has.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
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
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
