//! TLS configuration for connections to kubelets: the client certificate and the trusted CAs.

// upstream: pkg/kubelet/client/kubelet_client.go

use std::sync::Arc;

use arc_swap::ArcSwap;
use atoll_client::dialing::TenantAddresses;
pub use atoll_client::https::tls::ClientCertificate;
use atoll_client::https::tls::{self, Trust};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::ROOT;
use super::backend::{Dialer, Network};

/// Types of node addresses in order of preference, as upstream.
pub const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// The default port of kubelets.
pub const PORT: u16 = 10250;

/// Settings for connections to nodes and Pods.
pub struct Kubelets {
    /// Types of node addresses in order of preference.
    pub address_types: Vec<String>,
    pub dialer: Box<dyn Dialer>,
    /// Addresses that nodes and Pods of workspaces below root may have.
    pub tenants: TenantAddresses,
    /// The CA of kubelets. Without one, any certificate is accepted, as upstream.
    authority: Option<Arc<dyn ServerCertVerifier>>,
    configs: ArcSwap<ClientConfigs>,
    /// Without client certificate and verification, for untrusted backends.
    untrusted: Arc<ClientConfig>,
}

/// Configurations with the server's client certificate.
struct ClientConfigs {
    verifying: Arc<ClientConfig>,
    insecure: Arc<ClientConfig>,
    certificate: Option<ClientCertificate>,
}

impl Kubelets {
    /// `authority` is PEM with one or more certificates.
    pub fn new(certificate: Option<ClientCertificate>, authority: Option<&[u8]>) -> Result<Self, String> {
        // This CA is used for nodes of root only.
        let authority = authority.map(|pem| verifier(pem, ROOT)).transpose()?;
        let configs = configs(authority.clone(), certificate)?;
        let untrusted = Arc::new(config(None, None)?);
        Ok(Kubelets {
            address_types: ADDRESS_TYPES.map(String::from).into(),
            dialer: Box::new(Network),
            tenants: TenantAddresses::default(),
            authority,
            configs: ArcSwap::from_pointee(configs),
            untrusted,
        })
    }

    /// Replaces the client certificate.
    pub fn replace(&self, certificate: ClientCertificate) -> Result<(), String> {
        let configs = configs(self.authority.clone(), Some(certificate))?;
        self.configs.store(Arc::new(configs));
        Ok(())
    }

    /// Returns the configuration for a kubelet of root. `skip` disables verification of its certificate.
    pub(super) fn tls(&self, skip: bool) -> Arc<ClientConfig> {
        let configs = self.configs.load();
        if skip { configs.insecure.clone() } else { configs.verifying.clone() }
    }

    /// Returns the configuration for a kubelet of a workspace whose certificate must be signed by this CA
    /// (PEM).
    pub(super) fn for_trusted(&self, authority: &[u8], workspace: &str) -> Result<Arc<ClientConfig>, String> {
        let certificate = self.configs.load().certificate.as_ref().map(copy);
        config(Some(verifier(authority, workspace)?), certificate).map(Arc::new)
    }

    /// Returns a configuration without client certificate and without verification.
    pub(super) fn untrusted(&self) -> Arc<ClientConfig> {
        self.untrusted.clone()
    }
}

fn configs(
    authority: Option<Arc<dyn ServerCertVerifier>>,
    certificate: Option<ClientCertificate>,
) -> Result<ClientConfigs, String> {
    Ok(ClientConfigs {
        verifying: Arc::new(config(authority, certificate.as_ref().map(copy))?),
        insecure: Arc::new(config(None, certificate.as_ref().map(copy))?),
        certificate,
    })
}

fn copy((chain, key): &ClientCertificate) -> ClientCertificate {
    (chain.clone(), key.clone_key())
}

fn verifier(pem: &[u8], workspace: &str) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let builder = WebPkiServerVerifier::builder_with_provider(tls::authorities(pem)?, tls::provider());
    let inner = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(WorkspaceVerifier { inner, workspace: workspace.into() }))
}

/// Without an authority, any certificate is accepted.
fn config(
    authority: Option<Arc<dyn ServerCertVerifier>>,
    certificate: Option<ClientCertificate>,
) -> Result<ClientConfig, String> {
    let trust = authority.map_or(Trust::Any, Trust::Verifier);
    tls::config(trust, certificate, &[tls::HTTP1])
}

/// Verifies that a certificate is valid in a workspace. Atoll signs the certificates of kubelets in all
/// workspaces with one CA, and tenants choose the names and addresses in them, which may be those of a node
/// in another workspace.
#[derive(Debug)]
struct WorkspaceVerifier {
    inner: Arc<WebPkiServerVerifier>,
    workspace: String,
}

impl ServerCertVerifier for WorkspaceVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(certificate, intermediates, name, ocsp, now)?;
        let unreadable = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        match atoll_authn::certificate::workspace(certificate).map_err(unreadable)? {
            Some(own) if own != self.workspace => {
                Err(Error::General("the certificate of the kubelet was signed for another workspace".into()))
            }
            _ => Ok(verified),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use atoll_authn::authority::{Authority, Purpose};
    use atoll_authn::request::{CertificateRequest, Terms};
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
    use rustls::pki_types::pem::PemObject;
    use time::OffsetDateTime;

    use super::*;

    /// Returns a certificate for a kubelet at 10.0.0.1, signed for a workspace.
    fn signed(authority: &Authority, workspace: Option<&str>) -> CertificateDer<'static> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, "system:node:m");
        parameters.subject_alt_names = vec![SanType::IpAddress([10, 0, 0, 1].into())];
        let pem = parameters.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let request = CertificateRequest::from_pem(pem.as_bytes()).unwrap();
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let terms = Terms { usages: &["server auth"], seconds: 86_400, workspace, now };
        let certificate = authority.certify(&request, &terms).unwrap();
        CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()
    }

    #[test]
    fn certificate_of_one_workspace_is_rejected_in_another() {
        let directory = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::now_utc();
        let authority = Authority::open_for(Purpose::Kubelets, directory.path(), now).unwrap();
        let is_accepted = |certificate: &CertificateDer<'_>, workspace: &str, address: &str| {
            let verifier = verifier(authority.certificate_pem.as_bytes(), workspace).unwrap();
            let name = ServerName::try_from(address.to_string()).unwrap();
            verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now()).is_ok()
        };
        let [own, other] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"];
        let (of_root, of_tenant) = (signed(&authority, None), signed(&authority, Some(own)));
        assert!(is_accepted(&of_root, ROOT, "10.0.0.1"));
        assert!(is_accepted(&of_tenant, own, "10.0.0.1"));
        assert!(
            !is_accepted(&of_tenant, ROOT, "10.0.0.1"),
            "a tenant's certificate is accepted for a kubelet of root"
        );
        assert!(!is_accepted(&of_tenant, other, "10.0.0.1"));
        assert!(!is_accepted(&of_root, ROOT, "10.0.0.2"), "a certificate for another address is accepted");
    }
}
