//! Certificate requests (PKCS #10): parsing, verification, and signing.

// upstream: pkg/apis/certificates/helpers.go

mod create;
mod sign;

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::pki_types::pem::{PemObject, SectionKind};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, ExtensionReq};

use crate::certificate::Subject;
pub use create::{create, key};
pub use sign::Terms;
pub(crate) use sign::certificate;

/// A parsed certificate request.
pub struct CertificateRequest {
    request: CertReq,
    der: Vec<u8>,
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub emails: Vec<String>,
    pub uris: Vec<String>,
    /// The names of these four kinds, as in the request.
    names: Vec<GeneralName>,
}

struct Section(Vec<u8>);

impl PemObject for Section {
    fn from_pem(kind: SectionKind, der: Vec<u8>) -> Option<Self> {
        (kind == SectionKind::Csr).then_some(Section(der))
    }
}

impl CertificateRequest {
    /// Parses the first request in PEM text.
    pub fn from_pem(text: &[u8]) -> Result<CertificateRequest, String> {
        let Section(der) = Section::from_pem_slice(text)
            .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_string())?;
        let request = CertReq::from_der(&der).map_err(|error| format!("asn1: {error}"))?;
        let Subject { name: common_name, groups: organizations, .. } = Subject::read(&request.info.subject);
        let mut read = CertificateRequest {
            request,
            der,
            common_name,
            organizations,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            names: Vec::new(),
        };
        read.read_names()?;
        Ok(read)
    }

    fn read_names(&mut self) -> Result<(), String> {
        let wrong = |_| "x509: cannot parse the requested extensions".to_string();
        let wanted = self.request.info.attributes.iter().filter(|own| own.oid == EXTENSIONS);
        let mut names = Vec::new();
        for value in wanted.flat_map(|own| own.values.iter()) {
            let extensions = ExtensionReq::from_der(&value.to_der().map_err(wrong)?).map_err(wrong)?;
            for extension in extensions.0.iter().filter(|own| own.extn_id == SUBJECT_NAMES) {
                names.extend(SubjectAltName::from_der(extension.extn_value.as_bytes()).map_err(wrong)?.0);
            }
        }
        for name in names {
            match &name {
                GeneralName::DnsName(text) => self.dns_names.push(text.to_string()),
                GeneralName::Rfc822Name(text) => self.emails.push(text.to_string()),
                GeneralName::UniformResourceIdentifier(text) => self.uris.push(text.to_string()),
                GeneralName::IpAddress(bytes) => self.addresses.push(
                    address(bytes.as_bytes()).ok_or("x509: cannot parse IP address of length".to_string())?,
                ),
                // Other kinds of names are never signed.
                _ => continue,
            }
            self.names.push(name);
        }
        Ok(())
    }

    /// Whether the subject has a common name and no other attribute.
    pub fn has_only_common_name(&self) -> bool {
        let attributes = || self.request.info.subject.iter();
        attributes().count() == 1 && attributes().all(|attribute| attribute.oid == COMMON_NAME)
    }

    /// Returns a fingerprint of the key in the request and its algorithm.
    pub fn key_id(&self) -> Result<String, String> {
        let key = self.request.info.public_key.to_der().map_err(|error| format!("asn1: {error}"))?;
        Ok(digest(&SHA256, &key).as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether the request is signed with the key that it contains.
    pub fn is_signed(&self) -> bool {
        let Some(message) = first_element(&self.der) else { return false };
        let key = &self.request.info.public_key;
        let curve =
            key.algorithm.parameters.as_ref().and_then(|own| own.decode_as::<ObjectIdentifier>().ok());
        let algorithm = ALGORITHMS
            .iter()
            .find(|known| known.signature == self.request.algorithm.oid && known.curve == curve);
        let Some(algorithm) = algorithm else { return false };
        let public = UnparsedPublicKey::new(algorithm.verifier, key.subject_public_key.raw_bytes());
        public.verify(message, self.request.signature.raw_bytes()).is_ok()
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Returns the bytes of the first element in a DER sequence.
fn first_element(sequence: &[u8]) -> Option<&[u8]> {
    let (start, _) = header(sequence)?;
    let inside = sequence.get(start..)?;
    let (start, length) = header(inside)?;
    inside.get(..start.checked_add(length)?)
}

/// Returns the lengths of an element's header and content.
fn header(element: &[u8]) -> Option<(usize, usize)> {
    let first = usize::from(*element.get(1)?);
    if first < 0x80 {
        return Some((2, first));
    }
    let count = first & 0x7f;
    let bytes = element.get(2..2 + count).filter(|bytes| bytes.len() <= 4)?;
    Some((2 + count, bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))))
}

const EXTENSIONS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

struct Algorithm {
    signature: ObjectIdentifier,
    curve: Option<ObjectIdentifier>,
    verifier: &'static dyn VerificationAlgorithm,
}

const fn algorithm(
    signature: &str,
    curve: Option<&str>,
    verifier: &'static dyn VerificationAlgorithm,
) -> Algorithm {
    let curve = match curve {
        Some(curve) => Some(ObjectIdentifier::new_unwrap(curve)),
        None => None,
    };
    Algorithm { signature: ObjectIdentifier::new_unwrap(signature), curve, verifier }
}

const P256: Option<&str> = Some("1.2.840.10045.3.1.7");
const P384: Option<&str> = Some("1.3.132.0.34");
const P521: Option<&str> = Some("1.3.132.0.35");

static ALGORITHMS: [Algorithm; 13] = [
    algorithm("1.2.840.113549.1.1.11", None, &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
    algorithm("1.2.840.113549.1.1.12", None, &signature::RSA_PKCS1_2048_8192_SHA384),
    algorithm("1.2.840.113549.1.1.13", None, &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
    algorithm("1.2.840.10045.4.3.2", P256, &signature::ECDSA_P256_SHA256_ASN1),
    algorithm("1.2.840.10045.4.3.3", P256, &signature::ECDSA_P256_SHA384_ASN1),
    algorithm("1.2.840.10045.4.3.4", P256, &signature::ECDSA_P256_SHA512_ASN1),
    algorithm("1.2.840.10045.4.3.2", P384, &signature::ECDSA_P384_SHA256_ASN1),
    algorithm("1.2.840.10045.4.3.3", P384, &signature::ECDSA_P384_SHA384_ASN1),
    algorithm("1.2.840.10045.4.3.4", P384, &signature::ECDSA_P384_SHA512_ASN1),
    algorithm("1.2.840.10045.4.3.2", P521, &signature::ECDSA_P521_SHA256_ASN1),
    algorithm("1.2.840.10045.4.3.3", P521, &signature::ECDSA_P521_SHA384_ASN1),
    algorithm("1.2.840.10045.4.3.4", P521, &signature::ECDSA_P521_SHA512_ASN1),
    algorithm("1.3.101.112", None, &signature::ED25519),
];

#[cfg(test)]
mod tests;
