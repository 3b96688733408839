//! Details of Go's standard library that are visible to clients.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/encode.go
// Go standard library: src/strconv/quote.go
// Go standard library: src/encoding/base64/base64.go

use std::fmt;

use serde_json::{Number, Value};

/// A string quoted as by `strconv.Quote`.
pub(crate) struct Quoted<'t>(pub &'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        out.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(out, "\\{character}")?,
                '\x07' => out.write_str("\\a")?,
                '\x08' => out.write_str("\\b")?,
                '\x0c' => out.write_str("\\f")?,
                '\n' => out.write_str("\\n")?,
                '\r' => out.write_str("\\r")?,
                '\t' => out.write_str("\\t")?,
                '\x0b' => out.write_str("\\v")?,
                '\0'..='\x1f' | '\x7f' => write!(out, "\\x{:02x}", character as u32)?,
                '\u{80}'..='\u{9f}'
                | '\u{ad}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{feff}' => {
                    write!(out, "\\u{:04x}", character as u32)?;
                }
                _ => out.write_char(character)?,
            }
        }
        out.write_char('"')
    }
}

/// Encodes a float as Go's JSON encoder does: integral floats without a fraction.
pub(crate) fn float(number: f64) -> Value {
    // Above this the nearest integer may not fit an i64; serde_json's own form is kept.
    const EXACT: f64 = 9.0e18;
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const NOT_BASE64: u8 = 0xff;

const SIXTETS: [u8; 256] = {
    let mut table = [NOT_BASE64; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        table[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// Decodes standard base64 as Go does: line breaks are skipped, the error is the offset of the invalid byte.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, usize> {
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    let next = |at: &mut usize| {
        while matches!(text.get(*at), Some(b'\n' | b'\r')) {
            *at += 1;
        }
        let byte = text.get(*at).copied();
        *at += usize::from(byte.is_some());
        byte
    };
    loop {
        let mut group = [0u8; 4];
        let mut filled = 0;
        while filled < 4 {
            let Some(byte) = next(&mut at) else {
                return if filled == 0 { Ok(bytes) } else { Err(at - filled) };
            };
            let value = SIXTETS[usize::from(byte)];
            if value != NOT_BASE64 {
                group[filled] = value;
                filled += 1;
                continue;
            }
            if byte != b'=' || filled < 2 {
                return Err(at - 1);
            }
            if filled == 2 {
                match next(&mut at) {
                    None => return Err(text.len()),
                    Some(b'=') => {}
                    // Go reports the offset before the missing padding.
                    Some(_) => return Err(at - 2),
                }
            }
            if next(&mut at).is_some() {
                return Err(at - 1);
            }
            bytes.push(group[0] << 2 | group[1] >> 4);
            if filled == 3 {
                bytes.push(group[1] << 4 | group[2] >> 2);
            }
            return Ok(bytes);
        }
        bytes.extend([
            group[0] << 2 | group[1] >> 4,
            group[1] << 4 | group[2] >> 2,
            group[2] << 6 | group[3],
        ]);
    }
}

pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let sixtets = [
            group[0] >> 2,
            (group[0] & 3) << 4 | group[1] >> 4,
            (group[1] & 15) << 2 | group[2] >> 6,
            group[2] & 63,
        ];
        for (index, sixtet) in sixtets.into_iter().enumerate() {
            let padding = index > chunk.len();
            text.push(if padding { '=' } else { char::from(ALPHABET[usize::from(sixtet)]) });
        }
    }
    text
}

/// Whether a string is base64 that Go would encode in the same way, checked without decoding it.
pub(crate) fn is_canonical_base64(text: &str) -> bool {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return false;
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let (body, _) = text.split_at(text.len() - padding);
    if body.iter().any(|byte| SIXTETS[usize::from(*byte)] == NOT_BASE64) {
        return false;
    }
    // The bits that padding cuts off must be zero.
    let spare = match padding {
        0 => return true,
        1 => 3,
        _ => 15,
    };
    body.last().is_some_and(|byte| SIXTETS[usize::from(*byte)] & spare == 0)
}
