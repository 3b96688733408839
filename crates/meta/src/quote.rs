//! Quoting and number formatting as in Go, because clients compare messages that Go formats.

// Go standard library: src/strconv/quote.go
// Go standard library: src/fmt/format.go

/// Whether Go prints the character instead of escaping it.
///
/// Both languages derive this from the same Unicode categories. Rust's standard library has no function for
/// it, but escapes exactly the other characters; the leading letter keeps combining marks, which Go prints,
/// from being escaped.
pub fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = character.encode_utf8(&mut buffer[1..]).len();
    match std::str::from_utf8(&buffer[..=length]) {
        Ok(text) => text.escape_debug().nth(1) == Some(character),
        Err(_) => false,
    }
}

/// Formats a string as `%q`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        push_escaped(&mut out, character, '"');
    }
    out.push('"');
    out
}

/// Formats a list of strings as `%q`.
pub fn quote_list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// Formats a character between single quotes as Go's JSON scanner does.
pub(crate) fn quote_character(character: char) -> String {
    match character {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        _ => {
            let mut out = String::from("'");
            push_escaped(&mut out, character, '"');
            out.push('\'');
            out
        }
    }
}

fn push_escaped(out: &mut String, character: char, delimiter: char) {
    use std::fmt::Write;
    // Writing to a String cannot fail, so the results are ignored.
    match character {
        c if c == delimiter || c == '\\' => {
            out.push('\\');
            out.push(c);
        }
        c if is_print(c) => out.push(c),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if c < ' ' || c == '\u{7f}' => {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        c if u32::from(c) < 0x10000 => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => {
            let _ = write!(out, "\\U{:08x}", u32::from(c));
        }
    }
}

/// Formats a float as `encoding/json` does: plain digits, or an exponent for very large and very small
/// values.
pub fn json_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) { exponent_form(number, 1) } else { format!("{number}") }
}

/// Formats a float as `%v`.
pub fn print_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if (-4..6).contains(&exponent) { format!("{number}") } else { exponent_form(number, 2) }
}

/// Changes `1e21` to `1e+21`, with at least `digits` digits in the exponent.
fn exponent_form(number: f64, digits: usize) -> String {
    let scientific = format!("{number:e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{exponent:0>digits$}")
        }
        None => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        let cases = [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("é世\u{301}", "\"é世\u{301}\""),
            ("\u{85}\u{a0}\u{2028}\u{e000}", r#""\u0085\u00a0\u2028\ue000""#),
            ("\u{ad}\u{378}\u{600}\u{1680}\u{2060}\u{3000}", r#""\u00ad\u0378\u0600\u1680\u2060\u3000""#),
            ("\u{e0001}", r#""\U000e0001""#),
            ("\u{10ffff}", r#""\U0010ffff""#),
            ("it's", r#""it's""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), expected);
        }
        assert_eq!(quote_list(["a", "b\u{1b}"]), r#"["a" "b\x1b"]"#);
        assert_eq!(quote_list([""; 0]), "[]");
    }

    #[test]
    fn prints_floats_as_json_does() {
        let cases = [
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000001, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-10, "1.25e-10"),
        ];
        for (number, expected) in cases {
            assert_eq!(json_float(number), expected);
        }
    }

    #[test]
    fn prints_floats_as_the_default_verb_does() {
        let cases = [
            (1.0, "1"),
            (123456.0, "123456"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
            (1e100, "1e+100"),
        ];
        for (number, expected) in cases {
            assert_eq!(print_float(number), expected);
        }
    }
}
