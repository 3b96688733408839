//! The user that a client certificate names: the common name, and a group for each organization.

// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use x509_cert::Certificate;
use x509_cert::der::asn1::{
    BmpString, Ia5StringRef, ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef,
};
use x509_cert::der::{Any, Decode, Tag, Tagged};
use x509_cert::name::Name;
use x509_cert::request::CertReq;

use crate::{Unauthorized, User};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The extension attribute with the user's UID, as in Kubernetes.
const UID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");
/// The extension with the ID of the workspace that a certificate is valid in. Without it, the certificate is
/// valid in all workspaces. Go rejects certificates with an object identifier whose numbers need more than 31
/// bits.
pub(crate) const WORKSPACE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.25.711923813.1");
/// The same extension in older certificates, which Go cannot read.
const LEGACY_WORKSPACE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.25.2859407461.1");
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The user of a certificate, and its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub user: User,
    /// The only workspace that the certificate is valid in, if limited.
    pub workspace: Option<String>,
    /// In seconds since 1970.
    pub expires: i64,
}

/// The attributes of a certificate's subject.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub name: String,
    pub groups: Vec<String>,
    uids: Vec<String>,
}

impl Subject {
    /// Values that are not text are skipped; the last common name counts, as upstream.
    pub fn read(name: &Name) -> Subject {
        let mut subject = Subject::default();
        for attribute in name.iter() {
            let Some(text) = text(&attribute.value) else { continue };
            match attribute.oid {
                COMMON_NAME => subject.name = text,
                ORGANIZATION => subject.groups.push(text),
                UID => subject.uids.push(text),
                _ => {}
            }
        }
        subject
    }
}

/// Returns the holder of a verified DER certificate; `None` if it has no user name.
pub fn holder(der: &[u8]) -> Result<Option<Holder>, Unauthorized> {
    let certificate = Certificate::from_der(der).map_err(|_| unreadable())?;
    let inner = certificate.tbs_certificate();
    let Subject { name, groups, uids } = Subject::read(inner.subject());
    if name.is_empty() {
        return Ok(None);
    }
    let uid = match &uids[..] {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err(Unauthorized::because("UID cannot be an empty string")),
        [uid] => uid.clone(),
        several => {
            let text = format!("expected 1 UID, but found multiple: [{}]", several.join(" "));
            return Err(Unauthorized::because(text));
        }
    };
    let mut user = User::authenticated(name, uid, groups);
    user.extra.insert(CREDENTIAL_ID.into(), vec![credential_of(der)]);
    let workspace = workspace_of(&certificate)?;
    let expires = inner.validity().not_after.to_unix_duration().as_secs().cast_signed();
    Ok(Some(Holder { user, workspace, expires }))
}

/// Returns the ID of a DER certificate as a credential, which Kubernetes defines.
fn credential_of(der: &[u8]) -> String {
    let print: String = digest(&SHA256, der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X509SHA256={print}")
}

/// Returns the ID of the first certificate in PEM text as a credential, which its users have.
pub fn credential_id(pem: &[u8]) -> Option<String> {
    Some(credential_of(&CertificateDer::from_pem_slice(pem).ok()?))
}

/// Whether a user has authenticated with this credential.
pub fn has_credential(user: &User, id: &str) -> bool {
    user.extra.get(CREDENTIAL_ID).is_some_and(|ids| ids.iter().any(|own| own == id))
}

/// Returns the ID of the only workspace that a DER certificate is valid in; `None` if it is valid in all of
/// them.
pub fn workspace(der: &[u8]) -> Result<Option<String>, Unauthorized> {
    workspace_of(&Certificate::from_der(der).map_err(|_| unreadable())?)
}

fn workspace_of(certificate: &Certificate) -> Result<Option<String>, Unauthorized> {
    let extensions = certificate.tbs_certificate().extensions().into_iter().flatten();
    let mut workspaces =
        extensions.filter(|extension| matches!(extension.extn_id, WORKSPACE | LEGACY_WORKSPACE));
    match (workspaces.next(), workspaces.next()) {
        (Some(extension), None) => {
            let id = Utf8StringRef::from_der(extension.extn_value.as_bytes()).map_err(|_| unreadable())?;
            Ok(Some(id.as_str().to_string()))
        }
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Unauthorized::because("the certificate names several workspaces")),
    }
}

fn unreadable() -> Unauthorized {
    Unauthorized::because("the certificate cannot be read")
}

/// Returns when the first certificate in PEM text expires, in seconds since 1970.
pub fn expiry(pem: &[u8]) -> Option<i64> {
    Some(validity(pem)?.1)
}

/// Returns from when until when the first certificate in PEM text is valid, in seconds since 1970.
pub fn validity(pem: &[u8]) -> Option<(i64, i64)> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let certificate = Certificate::from_der(&der).ok()?;
    let validity = certificate.tbs_certificate().validity();
    let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs().cast_signed();
    Some((seconds(validity.not_before), seconds(validity.not_after)))
}

/// Returns the groups in a certificate request, given as base64 of PEM, as in objects.
pub fn requested_groups(encoded: &str) -> Result<Vec<String>, &'static str> {
    let unreadable = "PEM block type must be CERTIFICATE REQUEST";
    let pem = base64::engine::general_purpose::STANDARD.decode(encoded).map_err(|_| unreadable)?;
    let der = CertificateSigningRequestDer::from_pem_slice(&pem).map_err(|_| unreadable)?;
    let request = CertReq::from_der(&der).map_err(|_| "it is not a certificate request")?;
    let subject = request.info.subject.iter();
    let organizations = subject.filter(|attribute| attribute.oid == ORGANIZATION);
    Ok(organizations.filter_map(|attribute| text(&attribute.value)).collect())
}

fn text(value: &Any) -> Option<String> {
    let text = match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_string(),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_string(),
        Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().ok()?.as_str().to_string(),
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok()?.as_str().to_string(),
        Tag::BmpString => value.decode_as::<BmpString>().ok()?.to_string(),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    #[test]
    fn every_organization_is_a_group_in_order() {
        // In RFC 4514 notation, the last part of a name comes first.
        let cases: &[(&str, &str, &[&str])] = &[
            ("CN=ann", "ann", &[]),
            ("CN=ann,O=dev", "ann", &["dev"]),
            ("O=ops,O=dev,CN=ann", "ann", &["dev", "ops"]),
            ("O=ops,CN=ann,O=dev", "ann", &["dev", "ops"]),
            ("O=ops+O=dev,CN=ann", "ann", &["dev", "ops"]),
            ("CN=ann+O=dev,O=ops", "ann", &["ops", "dev"]),
            ("CN=last,O=dev,CN=first", "last", &["dev"]),
            ("O=dev,OU=unit,C=DE", "", &["dev"]),
            ("CN=,O=dev", "", &["dev"]),
        ];
        for (text, name, groups) in cases {
            let subject = Subject::read(&Name::from_str(text).expect("a name"));
            let mut found = subject.groups.clone();
            // The values of one part are a set, with an order of its own.
            if text.contains("O=ops+O=dev") {
                found.sort();
            }
            assert_eq!(
                (subject.name.as_str(), found.iter().map(String::as_str).collect::<Vec<_>>()),
                (*name, groups.to_vec()),
                "{text}"
            );
        }
    }
}
