//! Percent-encoding: the characters that are not escaped in each part of a URL.

// Go standard library: src/net/url/url.go

use std::fmt::Write;

use atoll_meta::quote::quote;

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
    /// Returns the unescaped characters besides letters, digits, `-`, `_`, `.` and `~`.
    fn plain(self) -> &'static [u8] {
        match self {
            Part::Path => b"$&+,/:;=@",
            Part::Host | Part::Zone => b"!\"$&'()*+,:;<=>[]",
            Part::User => b"$&+,;=",
            Part::Query => b"",
            Part::Fragment => b"!$&()*+,/:;=?@",
        }
    }

    fn is_plain(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || self.plain().contains(&byte)
    }
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
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if part.is_plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Whether a string is a valid encoding, although not necessarily the default one.
pub(super) fn is_valid_encoding(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || part.is_plain(byte))
}
