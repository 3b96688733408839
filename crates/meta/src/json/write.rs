//! The writer: compact, with the same escapes as Go's encoder.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/encode.go

use serde_json::Value;

use crate::quote;

/// Appends the compact form of a value.
///
/// Like the API server's encoder this escapes `<`, `>`, `&`, U+2028 and U+2029 inside of strings, and prints
/// floats without a fraction as integers.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(element, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

fn write_number(number: &serde_json::Number, out: &mut Vec<u8>) {
    if let Some(number) = number.as_i64() {
        write_integer(number.unsigned_abs(), number < 0, out);
    } else if let Some(number) = number.as_u64() {
        write_integer(number, false, out);
    } else if let Some(number) = number.as_f64() {
        out.extend_from_slice(quote::json_float(number).as_bytes());
    }
}

pub(super) fn write_integer(mut number: u64, negative: bool, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Whether a byte can be copied without checking the next ones. 0xe2 starts U+2028 and U+2029, among others.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut control = 0;
    while control < 0x20 {
        plain[control] = false;
        control += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain[b'<' as usize] = false;
    plain[b'>' as usize] = false;
    plain[b'&' as usize] = false;
    plain[0xe2] = false;
    plain
};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Finds bytes among eight that need a closer look, because they are escaped or not ASCII: the high bit of
/// the first such byte is set. Bits after the first may be wrong, because a subtraction carries.
fn special(word: u64) -> u64 {
    let zero_byte = |word: u64| word.wrapping_sub(ONES) & !word;
    // `"` and `&` differ in one bit, `<` and `>` in another, so each pair takes one comparison.
    let quote = zero_byte((word | (ONES * 0x04)) ^ (ONES * b'&' as u64));
    let angle = zero_byte((word | (ONES * 0x02)) ^ (ONES * b'>' as u64));
    let backslash = zero_byte(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | angle | backslash | control | word) & HIGH
}

/// Returns the next position whose byte is not [`PLAIN`], or the end.
fn skip_plain(bytes: &[u8], mut position: usize) -> usize {
    while let Some(chunk) = bytes[position..].first_chunk::<8>() {
        let found = special(u64::from_le_bytes(*chunk));
        if found != 0 {
            position += (found.trailing_zeros() / 8) as usize;
            break;
        }
        position += 8;
    }
    while position < bytes.len() && PLAIN[usize::from(bytes[position])] {
        position += 1;
    }
    position
}

/// Appends a string with its quotes.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut copied = 0;
    let mut position = skip_plain(bytes, 0);
    while position < bytes.len() {
        let byte = bytes[position];
        let mut width = 1;
        let mut hexadecimal = *b"\\u0000";
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0xe2 => {
                width = 3;
                match bytes[position..] {
                    [_, 0x80, 0xa8, ..] => b"\\u2028",
                    [_, 0x80, 0xa9, ..] => b"\\u2029",
                    _ => {
                        position = skip_plain(bytes, position + width);
                        continue;
                    }
                }
            }
            _ => {
                hexadecimal[4] = HEX[usize::from(byte >> 4)];
                hexadecimal[5] = HEX[usize::from(byte & 15)];
                &hexadecimal
            }
        };
        out.extend_from_slice(&bytes[copied..position]);
        out.extend_from_slice(escape);
        copied = position + width;
        position = skip_plain(bytes, copied);
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests;
