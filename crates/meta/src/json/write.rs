//! The writer: compact, and escaping what Go's encoder escapes.

use serde_json::Value;

use crate::quote;

/// Appends the compact form of a value.
///
/// Like the API server's encoder this escapes `<`, `>`, `&`, U+2028 and U+2029 inside of strings, and prints floats
/// without a fraction as integers.
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

/// Whether a byte can be copied without a look at what follows. 0xe2 starts U+2028 and U+2029, among others.
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

/// Appends a string with its quotes.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut copied = 0;
    let mut position = 0;
    while position < bytes.len() {
        let byte = bytes[position];
        if PLAIN[usize::from(byte)] {
            position += 1;
            continue;
        }
        if byte == 0xe2 {
            if let [0xe2, 0x80, last @ (0xa8 | 0xa9)] = bytes[position..position + 3] {
                out.extend_from_slice(&bytes[copied..position]);
                out.extend_from_slice(if last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                copied = position + 3;
            }
            position += 3;
            continue;
        }
        out.extend_from_slice(&bytes[copied..position]);
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        position += 1;
        copied = position;
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests;
