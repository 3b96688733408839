//! Parsing of strings, which dominates the run time.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

use super::{Builder, JsonError, Parser};

const IN_STRING: &str = "in string literal";
const IN_ESCAPE: &str = "in string escape code";
const IN_HEX: &str = "in \\u hexadecimal character escape";

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Finds quotes, backslashes and control characters among eight bytes: the high bit of the first such byte is
/// set. Bits after the first may be wrong, because a subtraction carries.
fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let zero_quote = quote.wrapping_sub(ONES) & !quote;
    let zero_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero_quote | zero_backslash | control) & HIGH
}

impl<B: Builder> Parser<'_, '_, B> {
    /// Advances to the next quote, backslash or control character, or to the end.
    fn skip_plain(&mut self) {
        let mut rest = &self.input[self.position..];
        while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
            let found = special(u64::from_le_bytes(*chunk));
            if found != 0 {
                self.position += (found.trailing_zeros() / 8) as usize;
                return;
            }
            self.position += 8;
            rest = after;
        }
        for byte in rest {
            if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
                return;
            }
            self.position += 1;
        }
    }

    /// Parses the string whose opening quote is at the current position.
    pub(super) fn string(&mut self) -> Result<String, JsonError> {
        self.position += 1;
        let start = self.position;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            let end = self.position;
            self.position += 1;
            return Ok(match self.text {
                Some(text) => text[start..end].to_owned(),
                None => {
                    let mut out = String::with_capacity(end - start);
                    push_repaired(&mut out, &self.input[start..end]);
                    out
                }
            });
        }
        self.string_with_escapes(start)
    }

    fn string_with_escapes(&mut self, start: usize) -> Result<String, JsonError> {
        self.scratch.clear();
        self.push_plain(start);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(self.scratch.as_str().to_owned());
                }
                Some(b'\\') => {
                    self.position += 1;
                    self.escape()?;
                }
                _ => return Err(self.unexpected(IN_STRING)),
            }
            let start = self.position;
            self.skip_plain();
            self.push_plain(start);
        }
    }

    /// Appends the input from `start` to the current position.
    fn push_plain(&mut self, start: usize) {
        match self.text {
            Some(text) => self.scratch.push_str(&text[start..self.position]),
            None => push_repaired(&mut self.scratch, &self.input[start..self.position]),
        }
    }

    /// Parses an escape after its backslash.
    fn escape(&mut self) -> Result<(), JsonError> {
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.position += 1;
                let unit = self.hexadecimal()?;
                let character = self.utf16(unit);
                self.scratch.push(character);
                return Ok(());
            }
            _ => return Err(self.unexpected_in_literal(IN_ESCAPE)),
        };
        self.position += 1;
        self.scratch.push(character);
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => unit = unit * 16 + digit,
                None => return Err(self.unexpected_in_literal(IN_HEX)),
            }
            self.position += 1;
        }
        Ok(unit)
    }

    /// Returns the character of a UTF-16 unit, together with the following escape if the two are a surrogate
    /// pair.
    fn utf16(&mut self, unit: u32) -> char {
        if let Some(character) = char::from_u32(unit) {
            return character;
        }
        let low = self.input[self.position..].first_chunk::<6>().and_then(|escape| {
            let digits = escape.strip_prefix(b"\\u")?;
            digits.iter().try_fold(0, |sum, byte| Some(sum * 16 + char::from(*byte).to_digit(16)?))
        });
        match (unit, low) {
            (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                self.position += 6;
                let scalar = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => char::REPLACEMENT_CHARACTER,
        }
    }
}

/// Appends bytes with U+FFFD for each invalid byte. (The standard library uses one U+FFFD for several bytes
/// of a truncated character; Go uses one for each.)
fn push_repaired(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for _ in chunk.invalid() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}
