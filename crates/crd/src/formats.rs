//! String formats as upstream checks them.

// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/default.go
// upstream: k8s.io/kube-openapi/pkg/validation/strfmt/kubernetes-extensions.go

mod addresses;
mod links;
mod mail;
mod numbers;

use atoll_meta::formats;

use crate::node::Types;

/// The values of `format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
    Int32,
    Int64,
    Float,
    Double,
    /// Any other name.
    Unknown,
}

/// Format names without dashes, as upstream compares them.
const TEXTS: &[(&str, Format)] = &[
    ("bsonobjectid", Format::BsonObjectId),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("creditcard", Format::CreditCard),
    ("ssn", Format::Ssn),
    ("hexcolor", Format::HexColor),
    ("rgbcolor", Format::RgbColor),
    ("byte", Format::Byte),
    ("password", Format::Password),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("datetime", Format::DateTime),
    ("k8sshortname", Format::ShortName),
    ("k8slongname", Format::LongName),
];

impl Format {
    /// The format of this name for values of these types.
    pub fn named(name: &str, types: Types) -> Format {
        match (types, name) {
            (Types::INTEGER, "int32") => Format::Int32,
            (Types::INTEGER, "int64") => Format::Int64,
            (Types::NUMBER, "float") => Format::Float,
            (Types::NUMBER, "double") => Format::Double,
            (Types::INTEGER | Types::NUMBER | Types::BOOLEAN | Types::OBJECT | Types::ARRAY, _) => {
                Format::Unknown
            }
            _ => {
                let plain = name.replace('-', "");
                TEXTS.iter().find(|(known, _)| *known == plain).map_or(Format::Unknown, |(_, format)| *format)
            }
        }
    }

    /// Whether the format applies to strings.
    pub fn applies_to_strings(self) -> bool {
        !matches!(self, Format::Int32 | Format::Int64 | Format::Float | Format::Double | Format::Unknown)
    }

    /// Whether a string has this format.
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Format::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Format::Uri => links::is_request_uri(text),
            Format::Email => mail::is_address(text),
            Format::Hostname => addresses::is_hostname(text),
            Format::Ipv4 => addresses::is_ipv4(text),
            Format::Ipv6 => addresses::is_ipv6(text),
            Format::Cidr => addresses::is_cidr(text),
            Format::Mac => addresses::is_mac(text),
            Format::Uuid => numbers::is_uuid(text, None, false),
            Format::Uuid3 => numbers::is_uuid(text, Some(b'3'), false),
            Format::Uuid4 => numbers::is_uuid(text, Some(b'4'), true),
            Format::Uuid5 => numbers::is_uuid(text, Some(b'5'), true),
            Format::Isbn => numbers::is_isbn10(text) || numbers::is_isbn13(text),
            Format::Isbn10 => numbers::is_isbn10(text),
            Format::Isbn13 => numbers::is_isbn13(text),
            Format::CreditCard => numbers::is_credit_card(text),
            Format::Ssn => numbers::is_ssn(text),
            Format::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Format::RgbColor => numbers::is_rgb(text),
            Format::Byte => formats::is_base64(text),
            Format::Date => formats::is_date(text),
            Format::Duration => formats::parse_duration(text).is_some(),
            Format::DateTime => formats::is_date_time(text),
            Format::ShortName => text.len() <= 63 && is_label(text),
            Format::LongName => text.len() <= 253 && text.split('.').all(is_label),
            Format::Password
            | Format::Int32
            | Format::Int64
            | Format::Float
            | Format::Double
            | Format::Unknown => true,
        }
    }
}

/// Whether a format of this name is known for a type.
pub fn knows_format(name: &str, kind: &str) -> bool {
    Format::named(name, Types::named(kind)) != Format::Unknown
}

/// Whether the text is a DNS label: lower case letters, digits and dashes, which are neither first nor last.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            inner(*first) && inner(*last) && bytes.iter().all(|byte| *byte == b'-' || inner(*byte))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
