//! Percent-encoding: the characters that are not escaped in each part of a URL.

// Go standard library: src/net/url/url.go

use std::fmt::Write;

use atoll_meta::quote::quote;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// A part of a URL with its own escaping rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

impl Part {
    fn escaped(self) -> &'static AsciiSet {
        match self {
            Part::Path => const { &all_except(b"$&+,/:;=@") },
            Part::Host | Part::Zone => const { &all_except(b"!\"$&'()*+,:;<=>[]") },
            Part::User => const { &all_except(b"$&+,;=") },
            Part::Query => const { &all_except(b"") },
            Part::Fragment => const { &all_except(b"!$&()*+,/:;=?@") },
        }
    }

    fn is_plain(self, byte: u8) -> bool {
        // Percent-encoding of a single byte leaves it as it is, or makes three of it.
        percent_encode(&[byte], self.escaped()).all(|piece| piece.len() == 1)
    }
}

/// Returns all characters but letters, digits, `-`, `_`, `.`, `~` and these.
const fn all_except(plain: &[u8]) -> AsciiSet {
    let mut set = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    let mut index = 0;
    while index < plain.len() {
        set = set.remove(plain[index]);
        index += 1;
    }
    set
}

/// Decodes escapes.
pub(super) fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        match byte {
            b'%' => {
                let escape = &bytes[index..bytes.len().min(index + 3)];
                out.push(decode(escape, part).ok_or_else(|| invalid_escape(escape))?);
                index += 3;
                continue;
            }
            b'+' if part == Part::Query => out.push(b' '),
            _ if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !part.is_plain(byte) => {
                let quoted = quote(char::from(byte).encode_utf8(&mut [0; 4]));
                return Err(format!("invalid character {quoted} in host name"));
            }
            _ => out.push(byte),
        }
        index += 1;
    }
    Ok(out)
}

fn decode(escape: &[u8], part: Part) -> Option<u8> {
    let &[_, high, low] = escape else {
        return None;
    };
    let high = char::from(high).to_digit(16)? as u8;
    let byte = high << 4 | char::from(low).to_digit(16)? as u8;
    let is_allowed = match part {
        // In hosts only non-ASCII bytes and the percent sign may be escaped.
        Part::Host => high >= 8 || escape == b"%25",
        Part::Zone => escape == b"%25" || byte == b' ' || Part::Host.is_plain(byte),
        _ => true,
    };
    is_allowed.then_some(byte)
}

fn invalid_escape(escape: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for chunk in escape.utf8_chunks() {
        let valid = quote(chunk.valid());
        quoted.push_str(&valid[1..valid.len() - 1]);
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(quoted, "\\x{byte:02x}");
        }
    }
    format!("invalid URL escape {quoted}\"")
}

/// Escapes bytes.
pub(super) fn escape(bytes: &[u8], part: Part) -> String {
    percent_encode(bytes, part.escaped()).to_string()
}

/// Whether a string is a valid encoding, although not necessarily the default one.
pub(super) fn is_valid_encoding(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || part.is_plain(byte))
}
