//! Atoll's own certificate authorities: created on first use, then read from the data directory.
//!
//! There are three, so that trust in one does not imply trust in the others:
//!
//! | files | signs | trusted by |
//! |---|---|---|
//! | `ca` | the server's certificate, its administrator's, and certificates requested in the root workspace | every kubeconfig, kubelets |
//! | `workspace-ca` | client certificates that are requested in other workspaces | this server alone |
//! | `kubelet-ca` | serving certificates of kubelets, in any workspace | this server, for connections to kubelets |

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::{fmt, fs, io};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::request::{self, CertificateRequest, Terms};

const CA_YEARS: u64 = 10;

/// The purpose of a CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The server itself, its administrator, and clients that are valid in all workspaces.
    Server,
    /// Clients that are valid in one workspace only.
    Workspaces,
    /// Serving certificates of kubelets.
    Kubelets,
}

impl Purpose {
    /// Returns the name of the files without `.crt` and `.key`.
    fn file(self) -> &'static str {
        match self {
            Purpose::Server => "ca",
            Purpose::Workspaces => "workspace-ca",
            Purpose::Kubelets => "kubelet-ca",
        }
    }

    fn common_name(self) -> &'static str {
        match self {
            Purpose::Server => "atoll-ca",
            Purpose::Workspaces => "atoll-workspace-ca",
            Purpose::Kubelets => "atoll-kubelet-ca",
        }
    }
}

pub struct Authority {
    /// The CA certificate that clients trust.
    pub certificate_pem: String,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    /// The same key, for certificates that are assembled in `request`.
    key: KeyPair,
}

/// A certificate and its key, as PEM.
pub struct Identity {
    pub certificate_pem: String,
    pub key_pem: String,
}

#[derive(Debug)]
pub enum AuthorityError {
    File {
        path: String,
        cause: io::Error,
    },
    /// A certificate or key that cannot be read or created.
    Certificate {
        what: String,
        cause: String,
    },
}

impl Authority {
    /// Reads `ca.crt` and `ca.key` from `directory`, or creates them if both are missing.
    pub fn open(directory: &Path, now: OffsetDateTime) -> Result<Self, AuthorityError> {
        Authority::open_for(Purpose::Server, directory, now)
    }

    /// Reads certificate and key of the CA for a purpose from `directory`, or creates them if both are
    /// missing.
    pub fn open_for(purpose: Purpose, directory: &Path, now: OffsetDateTime) -> Result<Self, AuthorityError> {
        let file = |extension: &str| directory.join(format!("{}.{extension}", purpose.file()));
        let (certificate_path, key_path) = (file("crt"), file("key"));
        if !certificate_path.exists() && !key_path.exists() {
            let made = make_authority(purpose, now);
            let made = made.map_err(|error| unusable("the certificate authority", &error))?;
            write_private(&key_path, &made.key_pem)?;
            write_private(&certificate_path, &made.certificate_pem)?;
        }
        Authority::read(purpose, read(&certificate_path)?, &read(&key_path)?, now)
    }

    /// Returns a CA from PEM, for signing certificate requests.
    pub fn from_pem(
        certificate_pem: String,
        key_pem: &str,
        now: OffsetDateTime,
    ) -> Result<Self, AuthorityError> {
        Authority::read(Purpose::Server, certificate_pem, key_pem, now)
    }

    fn read(
        purpose: Purpose,
        certificate_pem: String,
        key_pem: &str,
        now: OffsetDateTime,
    ) -> Result<Self, AuthorityError> {
        let (certificate_file, key_file) =
            (format!("{}.crt", purpose.file()), format!("{}.key", purpose.file()));
        let key = || KeyPair::from_pem(key_pem).map_err(|error| unusable(&key_file, &error));
        let (key, same_key) = (key()?, key()?);
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| unusable(&certificate_file, &error))?;
        // A mismatch is an error and the files are never replaced, because clients would not trust another
        // CA.
        let certificate = Certificate::from_der(&der).map_err(|error| unusable(&certificate_file, &error))?;
        let public = certificate.tbs_certificate().subject_public_key_info().subject_public_key.raw_bytes();
        if public != key.public_key_raw() {
            let problem = format!("it does not belong to {key_file}; restore the pair from a backup");
            return Err(unusable(&certificate_file, &problem));
        }
        let issuer = Issuer::new(authority_parameters(purpose, now), key);
        Ok(Authority { certificate_pem, certificate: der, issuer, key: same_key })
    }

    /// Returns the CA certificate, as DER.
    pub fn certificate_der(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// Creates a serving certificate for these names and addresses.
    pub fn serving(
        &self,
        names: &[String],
        addresses: &[IpAddr],
        now: OffsetDateTime,
        lifetime: std::time::Duration,
    ) -> Result<Identity, AuthorityError> {
        let mut parameters = leaf("atoll", now, lifetime);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            let name = name.as_str().try_into().map_err(|error| unusable(name, &error))?;
            parameters.subject_alt_names.push(SanType::DnsName(name));
        }
        parameters.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        self.sign(&parameters)
    }

    /// Creates a client certificate for a user, optionally in a group.
    pub fn client(
        &self,
        user: &str,
        group: Option<&str>,
        now: OffsetDateTime,
        lifetime: std::time::Duration,
    ) -> Result<Identity, AuthorityError> {
        let mut parameters = leaf(user, now, lifetime);
        if let Some(group) = group {
            parameters.distinguished_name.push(DnType::OrganizationName, group);
        }
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&parameters)
    }

    /// Signs a certificate request and returns the certificate as PEM.
    pub fn certify(&self, request: &CertificateRequest, terms: &Terms<'_>) -> Result<String, AuthorityError> {
        request::certificate(request, terms, &self.certificate, &self.key)
    }

    fn sign(&self, parameters: &CertificateParams) -> Result<Identity, AuthorityError> {
        let failed = |error| unusable("a certificate", &error);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = parameters.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

impl Identity {
    pub fn certificate_der(&self) -> Result<CertificateDer<'static>, AuthorityError> {
        CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|error| unusable("a certificate", &error))
    }

    pub fn key_der(&self) -> Result<PrivateKeyDer<'static>, AuthorityError> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(|error| unusable("a key", &error))
    }
}

fn authority_parameters(purpose: Purpose, now: OffsetDateTime) -> CertificateParams {
    let lifetime = std::time::Duration::from_secs(CA_YEARS * 365 * 86_400);
    let mut parameters = leaf(purpose.common_name(), now, lifetime);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    parameters
}

fn make_authority(purpose: Purpose, now: OffsetDateTime) -> Result<Identity, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_parameters(purpose, now).self_signed(&key)?;
    Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

fn leaf(common_name: &str, now: OffsetDateTime, lifetime: std::time::Duration) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    parameters.distinguished_name = name;
    // Clocks of clients may be a little behind.
    parameters.not_before = now - Duration::minutes(5);
    parameters.not_after = now + lifetime;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    parameters
}

/// Writes a file that only its owner can read, atomically.
pub fn write_private(path: &Path, text: &str) -> Result<(), AuthorityError> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |cause| AuthorityError::File { path: path.display().to_string(), cause };
    let draft = path.with_extension("draft");
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)
}

pub(crate) fn read(path: &Path) -> Result<String, AuthorityError> {
    fs::read_to_string(path).map_err(|cause| AuthorityError::File { path: path.display().to_string(), cause })
}

pub(crate) fn unusable(what: &str, cause: &dyn fmt::Display) -> AuthorityError {
    AuthorityError::Certificate { what: what.to_string(), cause: cause.to_string() }
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthorityError::File { path, cause } => write!(f, "{path}: {cause}"),
            AuthorityError::Certificate { what, cause } => write!(f, "{what} cannot be used: {cause}"),
        }
    }
}

impl std::error::Error for AuthorityError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_certificates_name_their_user_after_a_restart() {
        let directory = std::env::temp_dir().join(format!("atoll-authority-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let now = OffsetDateTime::now_utc();
        let first = Authority::open(&directory, now).unwrap();
        let second = Authority::open(&directory, now).unwrap();
        assert_eq!(first.certificate_pem, second.certificate_pem);
        let identity =
            second.client("ann", Some("system:masters"), now, std::time::Duration::from_secs(60)).unwrap();
        let holder = crate::certificate::holder(&identity.certificate_der().unwrap()).unwrap().unwrap();
        let user = holder.user;
        assert_eq!((user.name.as_str(), user.groups[0].as_str()), ("ann", "system:masters"));
        fs::write(directory.join("ca.key"), "broken").unwrap();
        assert!(Authority::open(&directory, now).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
