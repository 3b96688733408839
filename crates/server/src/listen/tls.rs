//! TLS: a serving certificate that can be replaced at runtime, and client certificates.
//!
//! The handshake accepts any client certificate whose key the client has. It is verified during
//! authentication, so that a certificate of another CA results in the same response as a wrong token and not
//! in a broken connection.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use atoll_authn::certificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};
use tokio_rustls::TlsAcceptor;

use super::secure_stream::SecureStream;
use super::wrapper::ClientStream;
use crate::identity::Certificate;

/// TLS configuration of a listener. Clones share the serving certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Verifies certificates that are valid everywhere, or in the workspace that they name.
    verifier: Arc<dyn ClientCertVerifier>,
    /// Verifies certificates that must name a workspace.
    of_workspaces: Arc<dyn ClientCertVerifier>,
    serving: Arc<Serving>,
}

impl Tls {
    /// TLS 1.2 and 1.3, HTTP/2 preferred. Client certificates of `authority` and, for one workspace each, of
    /// `workspaces` are accepted but not required.
    pub fn new(
        authority: CertificateDer<'static>,
        workspaces: CertificateDer<'static>,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Tls, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = |authorities: &[&CertificateDer<'static>]| {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots.add((*authority).clone())?;
            }
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()
                .map_err(|error| Error::General(error.to_string()))
        };
        // Clients choose a certificate by the CAs that a server names.
        let named = verifier(&[&authority, &workspaces])?;
        let (verifier, of_workspaces) = (verifier(&[&authority])?, verifier(&[&workspaces])?);
        let current = ArcSwap::new(certified(&provider, certificate, key)?);
        let serving = Arc::new(Serving { provider: provider.clone(), current });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_client_cert_verifier(Arc::new(AnyCertificate { verifier: named }))
            .with_cert_resolver(serving.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), verifier, of_workspaces, serving })
    }

    /// Replaces the serving certificate. Existing connections keep the old one.
    pub fn replace(
        &self,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), Error> {
        self.serving.current.store(certified(&self.serving.provider, certificate, key)?);
        Ok(())
    }

    pub(super) async fn accept(&self, stream: ClientStream) -> io::Result<SecureStream> {
        self.acceptor.accept(stream).await.map(SecureStream::from)
    }

    /// Verifies a client's certificate at the time `now`.
    pub(super) fn certificate(&self, chain: Option<&[CertificateDer<'_>]>, now: i64) -> Certificate {
        let Some([leaf, rest @ ..]) = chain else { return Certificate::None };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.max(0).cast_unsigned()));
        let must_name_workspace = match self.verifier.verify_client_cert(leaf, rest, now) {
            Ok(_) => false,
            Err(error) => match self.of_workspaces.verify_client_cert(leaf, rest, now) {
                Ok(_) => true,
                Err(_) => {
                    tracing::debug!(%error, "client certificate rejected");
                    return Certificate::Bad;
                }
            },
        };
        match certificate::holder(leaf) {
            Ok(Some(holder)) if must_name_workspace && holder.workspace.is_none() => Certificate::Bad,
            Ok(Some(holder)) => Certificate::Good(Arc::new(holder)),
            Ok(None) => Certificate::None,
            Err(_) => Certificate::Bad,
        }
    }
}

fn certified(
    provider: &CryptoProvider,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, Error> {
    CertifiedKey::from_der(vec![certificate], key, provider).map(Arc::new)
}

/// The current serving certificate.
struct Serving {
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}

/// Accepts every certificate whose key the client can prove to have.
#[derive(Debug)]
struct AnyCertificate {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
