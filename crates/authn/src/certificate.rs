//! The user that a client certificate names: the common name, and a group for every organization.

use base64::Engine;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Any, Decode, Tag, Tagged};
use x509_cert::request::CertReq;

use crate::User;

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

/// The user in a DER certificate that TLS has verified; `None` if it names nobody.
pub fn user(der: &[u8]) -> Option<User> {
    let certificate = Certificate::from_der(der).ok()?;
    let (mut name, mut groups) = (None, Vec::new());
    for attribute in certificate.tbs_certificate().subject().iter() {
        match attribute.oid.to_string().as_str() {
            COMMON_NAME => name = text(&attribute.value),
            ORGANIZATION => groups.extend(text(&attribute.value)),
            _ => {}
        }
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some(User::authenticated(name, String::new(), groups))
}

/// The groups that a request for a certificate, PEM in base64 as it stands in objects, asks for.
pub fn requested_groups(encoded: &str) -> Result<Vec<String>, &'static str> {
    let unreadable = "PEM block type must be CERTIFICATE REQUEST";
    let pem = base64::engine::general_purpose::STANDARD.decode(encoded).map_err(|_| unreadable)?;
    let der = CertificateSigningRequestDer::from_pem_slice(&pem).map_err(|_| unreadable)?;
    let request = CertReq::from_der(&der).map_err(|_| "it is no certificate request")?;
    let subject = request.info.subject.iter();
    let organizations = subject.filter(|attribute| attribute.oid.to_string() == ORGANIZATION);
    Ok(organizations.filter_map(|attribute| text(&attribute.value)).collect())
}

fn text(value: &Any) -> Option<String> {
    let text = match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_string(),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_string(),
        Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().ok()?.as_str().to_string(),
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok()?.as_str().to_string(),
        _ => return None,
    };
    Some(text)
}
