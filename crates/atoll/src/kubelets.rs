//! Settings for connections from the server to kubelets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use atoll_authn::authority::Authority;
use atoll_client::https::tls::{self, ClientCertificate};
use atoll_server::connect::kubelets::Kubelets;
use clap::Args;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

/// The server's user name at kubelets, as in kubeadm. A bootstrap ClusterRoleBinding of every workspace
/// grants this user access to the kubelet API only.
pub const USER: &str = atoll_registry::bootstrap::KUBELET_CLIENT;

#[derive(Args, Clone, Debug, Default)]
pub struct KubeletSettings {
    /// CA that verifies the serving certificates of kubelets; without it they are not verified, as with
    /// kube-apiserver. Certificates that kubelets get by a CertificateSigningRequest are signed by
    /// kubelet-ca.crt in the data directory
    #[arg(
        long = "kubelet-certificate-authority",
        env = "ATOLL_KUBELET_CERTIFICATE_AUTHORITY",
        value_name = "FILE"
    )]
    pub authority: Option<PathBuf>,

    /// Client certificate for kubelets, instead of one signed by Atoll's own CA
    #[arg(
        long = "kubelet-client-certificate",
        env = "ATOLL_KUBELET_CLIENT_CERTIFICATE",
        requires = "key",
        value_name = "FILE"
    )]
    pub certificate: Option<PathBuf>,

    /// Key of that certificate
    #[arg(
        long = "kubelet-client-key",
        env = "ATOLL_KUBELET_CLIENT_KEY",
        requires = "certificate",
        value_name = "FILE"
    )]
    pub key: Option<PathBuf>,

    /// Address types of nodes to use for connections to kubelets, most preferred first
    #[arg(
        long = "kubelet-preferred-address-types",
        env = "ATOLL_KUBELET_PREFERRED_ADDRESS_TYPES",
        value_delimiter = ',',
        default_values = atoll_server::connect::kubelets::ADDRESS_TYPES,
        value_name = "TYPES"
    )]
    pub address_types: Vec<String>,
}

impl KubeletSettings {
    /// Whether the server's own CA signs the client certificate.
    pub fn uses_own_authority(&self) -> bool {
        self.certificate.is_none()
    }

    pub fn kubelets(
        &self,
        authority: &Authority,
        kubelet_authority: &Authority,
        now: OffsetDateTime,
        lifetime: Duration,
    ) -> Result<Kubelets, String> {
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => from_files(certificate, key)?,
            _ => identity(authority, now, lifetime)?,
        };
        let mut trusted = self.authority.as_deref().map(read).transpose()?;
        // Kubelets used to get certificates of the server's CA.
        if let Some(trusted) = trusted.as_mut().filter(|trusted| contains(trusted, authority)) {
            trusted.push(b'\n');
            trusted.extend_from_slice(kubelet_authority.certificate_pem.as_bytes());
        }
        let mut kubelets = Kubelets::new(Some(identity), trusted.as_deref())
            .map_err(|error| format!("cannot configure connections to kubelets: {error}"))?;
        if !self.address_types.is_empty() {
            kubelets.address_types.clone_from(&self.address_types);
        }
        Ok(kubelets)
    }
}

/// A client certificate signed by the server's own CA.
pub fn identity(
    authority: &Authority,
    now: OffsetDateTime,
    lifetime: Duration,
) -> Result<ClientCertificate, String> {
    let made = authority.client(USER, None, now, lifetime).map_err(|error| error.to_string())?;
    let certificate = made.certificate_der().map_err(|error| error.to_string())?;
    Ok((vec![certificate], made.key_der().map_err(|error| error.to_string())?))
}

/// Whether PEM text contains the certificate of an authority.
fn contains(pem: &[u8], authority: &Authority) -> bool {
    let own = authority.certificate_der();
    CertificateDer::pem_slice_iter(pem).any(|one| one.is_ok_and(|one| one == own))
}

fn from_files(certificate: &Path, key: &Path) -> Result<ClientCertificate, String> {
    let found = tls::client_certificate(&read(certificate)?, &read(key)?);
    found.map_err(|problem| format!("{} and {}: {problem}", certificate.display(), key.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
