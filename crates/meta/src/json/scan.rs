//! Strings in JSON text: where they end, and what their escapes mean.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Finds quotes and backslashes among eight bytes: the high bit of the first such byte is set. Bits after the
/// first may be wrong, because a subtraction carries.
#[inline]
pub(super) fn quote_or_backslash(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    ((quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash)) & HIGH
}

/// Finds control characters, in the same way.
#[inline]
pub(super) fn control(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH
}

/// The end of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringEnd {
    /// Position of the closing quote.
    pub quote: usize,
    /// Whether the string has escapes.
    pub escaped: bool,
}

/// Finds the end of the string whose contents start at a position, eight bytes at a time. Returns `None` if
/// there is none.
#[inline]
pub fn string_end(text: &[u8], start: usize) -> Option<StringEnd> {
    let mut position = start;
    let mut escaped = false;
    loop {
        position += until_special(text.get(position..)?)?;
        if text[position] == b'"' {
            return Some(StringEnd { quote: position, escaped });
        }
        escaped = true;
        position += 2;
    }
}

/// Returns the position of the first quote or backslash.
#[inline]
fn until_special(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    while let Some(chunk) = bytes[start..].first_chunk::<8>() {
        let found = quote_or_backslash(u64::from_le_bytes(*chunk));
        if found != 0 {
            return Some(start + (found.trailing_zeros() / 8) as usize);
        }
        start += 8;
    }
    let rest = bytes[start..].iter().position(|byte| matches!(byte, b'"' | b'\\'));
    rest.map(|position| start + position)
}

/// Returns the character of an escape with one letter.
pub(super) fn one_letter_escape(letter: u8) -> Option<u8> {
    match letter {
        b'"' | b'\\' | b'/' => Some(letter),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    }
}

/// Returns the character of the UTF-16 unit of an escape, and whether the escape at the start of `rest` is the
/// other half of a surrogate pair. Half a pair is replaced by U+FFFD.
pub(super) fn utf16(unit: u32, rest: &[u8]) -> (char, bool) {
    if let Some(character) = char::from_u32(unit) {
        return (character, false);
    }
    let low = rest.strip_prefix(b"\\u").and_then(hexadecimal);
    match (unit, low) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            let scalar = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), true)
        }
        _ => (char::REPLACEMENT_CHARACTER, false),
    }
}

/// Parses the four hexadecimal digits at the start.
fn hexadecimal(text: &[u8]) -> Option<u32> {
    let digits = text.first_chunk::<4>()?;
    digits.iter().try_fold(0, |sum, byte| Some(sum * 16 + char::from(*byte).to_digit(16)?))
}

/// Returns the contents of a valid string without its escapes.
pub fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(position) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..position]);
        let letter = rest.get(position + 1).copied().unwrap_or(b'\\');
        rest = rest.get(position + 2..).unwrap_or_default();
        if letter != b'u' {
            out.push(one_letter_escape(letter).unwrap_or(letter));
            continue;
        }
        let (character, length) = match hexadecimal(rest) {
            Some(unit) => {
                let (character, is_pair) = utf16(unit, &rest[4..]);
                (character, if is_pair { 10 } else { 4 })
            }
            None => (char::REPLACEMENT_CHARACTER, 0),
        };
        rest = &rest[length..];
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_the_first_quote_without_a_backslash() {
        let cases = [
            (r#"abc","x""#, Some((3, false))),
            (r#"0123456789abcdef""#, Some((16, false))),
            (r#"0123456\"89abcd\\""#, Some((17, true))),
            (r#"\"","#, Some((2, true))),
            (r#"\\""#, Some((2, true))),
            (r#"abc"#, None),
            (r#"abc\"#, None),
            (r#"abc\""#, None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(quote, escaped)| StringEnd { quote, escaped });
            assert_eq!(string_end(text.as_bytes(), 0), expected, "{text}");
        }
        assert_eq!(string_end(b"ab", 3), None);
    }

    #[test]
    fn escapes_are_resolved_as_in_the_parser() {
        for text in [
            "plain é",
            r#"\"\\\/\b\f\n\r\t"#,
            r"\u0041\u00e9\u2028",
            r"\ud83d\ude00",
            r"\ud83d",
            r"\ude00\ud83d",
            r"\ud83d\ud83d\ude00x",
            r"\ud83d\u0041",
        ] {
            let parsed = crate::json::parse(format!("\"{text}\"").as_bytes()).unwrap().value;
            assert_eq!(String::from_utf8(unescape(text.as_bytes())).unwrap(), parsed, "{text}");
        }
    }
}
