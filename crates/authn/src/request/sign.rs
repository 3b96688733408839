//! Certificates from certificate requests.
//!
//! They are assembled here because the subject must be preserved: several organizations are several groups.

// upstream: pkg/controller/certificates/authority/policies.go

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey};
use x509_cert::Certificate;
use x509_cert::der::asn1::{GeneralizedTime, ObjectIdentifier, OctetString, UtcTime, Utf8StringRef};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::time::{Time, Validity};

use super::CertificateRequest;
use crate::authority::{AuthorityError, unusable};
use crate::certificate::WORKSPACE;

/// From 2050 on, times need four digits of the year. In seconds since 1970.
const YEAR_2050: u64 = 2_524_608_000;
/// Seconds by which clocks may be behind.
const BACKDATE: i64 = 300;
/// Certificates with a shorter lifetime are not shortened by the backdate.
const SHORT: i64 = 8 * 3600;

/// Parameters of a signed certificate.
pub struct Terms<'a> {
    /// Usages, as in a CertificateSigningRequest.
    pub usages: &'a [&'a str],
    pub seconds: i64,
    /// The only workspace that it is valid in; all of them if `None`.
    pub workspace: Option<&'a str>,
    /// In seconds since 1970.
    pub now: i64,
}

const USAGES: [(&str, KeyUsages); 10] = [
    ("signing", KeyUsages::DigitalSignature),
    ("digital signature", KeyUsages::DigitalSignature),
    ("content commitment", KeyUsages::NonRepudiation),
    ("key encipherment", KeyUsages::KeyEncipherment),
    ("key agreement", KeyUsages::KeyAgreement),
    ("data encipherment", KeyUsages::DataEncipherment),
    ("cert sign", KeyUsages::KeyCertSign),
    ("crl sign", KeyUsages::CRLSign),
    ("encipher only", KeyUsages::EncipherOnly),
    ("decipher only", KeyUsages::DecipherOnly),
];

/// In upstream's order.
const EXTENDED: [(&str, &str); 13] = [
    ("any", "2.5.29.37.0"),
    ("server auth", "1.3.6.1.5.5.7.3.1"),
    ("client auth", "1.3.6.1.5.5.7.3.2"),
    ("code signing", "1.3.6.1.5.5.7.3.3"),
    ("email protection", "1.3.6.1.5.5.7.3.4"),
    ("s/mime", "1.3.6.1.5.5.7.3.4"),
    ("ipsec end system", "1.3.6.1.5.5.7.3.5"),
    ("ipsec tunnel", "1.3.6.1.5.5.7.3.6"),
    ("ipsec user", "1.3.6.1.5.5.7.3.7"),
    ("timestamping", "1.3.6.1.5.5.7.3.8"),
    ("ocsp signing", "1.3.6.1.5.5.7.3.9"),
    ("microsoft sgc", "1.3.6.1.4.1.311.10.3.3"),
    ("netscape sgc", "2.16.840.1.113730.4.1"),
];

/// Returns a signed certificate for `request` as PEM. `authority` and `key` are certificate and key of the
/// CA.
pub(crate) fn certificate(
    request: &CertificateRequest,
    terms: &Terms<'_>,
    authority: &[u8],
    key: &KeyPair,
) -> Result<String, AuthorityError> {
    let failed = |error: &dyn std::fmt::Display| unusable("a certificate", &error.to_string());
    if !request.is_signed() {
        return Err(failed(&"unable to verify certificate request signature: x509: the signature is wrong"));
    }
    let authority = Certificate::from_der(authority).map_err(|error| failed(&error))?;
    let authority = authority.tbs_certificate();
    let last = authority.validity().not_after.to_unix_duration().as_secs().cast_signed();
    if terms.now >= last {
        return Err(failed(&"refusing to sign a certificate that expired in the past"));
    }
    let backdate = if terms.seconds < SHORT { 0 } else { BACKDATE };
    let until = (terms.now + terms.seconds - backdate).min(last);
    let algorithm = algorithm(key)?;
    let inner = (|| -> x509_cert::der::Result<Vec<u8>> {
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| x509_cert::der::ErrorKind::Failed)?;
        // Positive, and without leading zero bytes.
        serial[0] = serial[0] & 0x3f | 0x40;
        let validity: Validity = Validity::new(time(terms.now - BACKDATE)?, time(until)?);
        let extensions: Vec<Vec<u8>> = extensions(request, terms, authority)?;
        Ok(element(
            SEQUENCE,
            &[
                element(0xa0, &[vec![0x02, 0x01, 0x02]]),
                element(0x02, &[serial.to_vec()]),
                algorithm.clone(),
                authority.subject().to_der()?,
                validity.to_der()?,
                request.request.info.subject.to_der()?,
                request.request.info.public_key.to_der()?,
                element(0xa3, &[element(SEQUENCE, &extensions)]),
            ],
        ))
    })();
    let inner = inner.map_err(|error| failed(&error))?;
    let mut signature = vec![0];
    signature.extend(key.sign(&inner).map_err(|error| failed(&error))?);
    let whole = element(SEQUENCE, &[inner, algorithm, element(0x03, &[signature])]);
    let text = STANDARD.encode(whole);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    Ok(format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n")))
}

fn extensions(
    request: &CertificateRequest,
    terms: &Terms<'_>,
    authority: &x509_cert::TbsCertificate,
) -> x509_cert::der::Result<Vec<Vec<u8>>> {
    let mut extensions = Vec::new();
    let mut add = |id: &str, critical: bool, value: Vec<u8>| -> x509_cert::der::Result<()> {
        let extn_id = ObjectIdentifier::new(id).map_err(|_| x509_cert::der::ErrorKind::Failed)?;
        let extension = Extension { extn_id, critical, extn_value: OctetString::new(value)? };
        extensions.push(extension.to_der()?);
        Ok(())
    };
    let mut usage = KeyUsage(Default::default());
    let mut any = false;
    for (_, flag) in USAGES.iter().filter(|(name, _)| terms.usages.contains(name)) {
        usage.0 |= *flag;
        any = true;
    }
    if any {
        add("2.5.29.15", true, usage.to_der()?)?;
    }
    let mut extended: Vec<ObjectIdentifier> = EXTENDED
        .iter()
        .filter(|(name, _)| terms.usages.contains(name))
        .filter_map(|(_, id)| ObjectIdentifier::new(id).ok())
        .collect();
    extended.dedup();
    if !extended.is_empty() {
        add("2.5.29.37", false, ExtendedKeyUsage(extended).to_der()?)?;
    }
    add("2.5.29.19", true, BasicConstraints { ca: false, path_len_constraint: None }.to_der()?)?;
    if let Ok(Some((_, SubjectKeyIdentifier(id)))) = authority.get_extension::<SubjectKeyIdentifier>() {
        let identifier =
            AuthorityKeyIdentifier { key_identifier: Some(id), ..AuthorityKeyIdentifier::default() };
        add("2.5.29.35", false, identifier.to_der()?)?;
    }
    if !request.names.is_empty() {
        let nameless = request.request.info.subject.is_empty();
        add("2.5.29.17", nameless, SubjectAltName(request.names.clone()).to_der()?)?;
    }
    if let Some(workspace) = terms.workspace {
        add(&WORKSPACE.to_string(), false, Utf8StringRef::new(workspace)?.to_der()?)?;
    }
    Ok(extensions)
}

const SEQUENCE: u8 = 0x30;

/// Returns a DER element that contains others.
fn element(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    let length: usize = parts.iter().map(Vec::len).sum();
    let mut element = vec![tag];
    match length {
        0..=0x7f => element.push(length as u8),
        _ => {
            let bytes = length.to_be_bytes();
            let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
            element.push(0x80 | (bytes.len() - first) as u8);
            element.extend_from_slice(&bytes[first..]);
        }
    }
    parts.iter().for_each(|part| element.extend_from_slice(part));
    element
}

fn time(seconds: i64) -> x509_cert::der::Result<Time> {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let since = Duration::from_secs(seconds);
    Ok(match seconds < YEAR_2050 {
        true => Time::UtcTime(UtcTime::from_unix_duration(since)?),
        false => Time::GeneralTime(GeneralizedTime::from_unix_duration(since)?),
    })
}

/// Returns the signature algorithm of the CA as DER.
fn algorithm(key: &KeyPair) -> Result<Vec<u8>, AuthorityError> {
    let known = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, "1.2.840.10045.4.3.2", false),
        (&rcgen::PKCS_ECDSA_P384_SHA384, "1.2.840.10045.4.3.3", false),
        (&rcgen::PKCS_RSA_SHA256, "1.2.840.113549.1.1.11", true),
        (&rcgen::PKCS_ED25519, "1.3.101.112", false),
    ];
    let found = known.iter().find(|(algorithm, _, _)| *algorithm == key.algorithm());
    let id = found.and_then(|(_, id, _)| ObjectIdentifier::new(id).ok()?.to_der().ok());
    match (found, id) {
        (Some((_, _, true)), Some(id)) => Ok(element(SEQUENCE, &[id, vec![0x05, 0x00]])),
        (Some(_), Some(id)) => Ok(element(SEQUENCE, &[id])),
        _ => Err(unusable("ca.key", &"this type of key is not supported; use ECDSA, RSA or Ed25519")),
    }
}
