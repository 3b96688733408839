//! The user that a client certificate names: the common name, and a group for every organization.

use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Any, Decode, Tag, Tagged};

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
