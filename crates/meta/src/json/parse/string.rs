//! Parsing of strings, which dominates the run time.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

use super::{Builder, JsonError, Parser};
use crate::json::scan::{control, one_letter_escape, quote_or_backslash, utf16};

const IN_STRING: &str = "in string literal";
const IN_ESCAPE: &str = "in string escape code";
const IN_HEX: &str = "in \\u hexadecimal character escape";

impl<B: Builder> Parser<'_, '_, B> {
    /// Advances to the next quote, backslash or control character, or to the end.
    fn skip_plain(&mut self) {
        let mut rest = &self.input[self.position..];
        while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*chunk);
            let found = quote_or_backslash(word) | control(word);
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
        if self.peek() == Some(b'u') {
            self.position += 1;
            let unit = self.hexadecimal()?;
            let (character, is_pair) = utf16(unit, &self.input[self.position..]);
            if is_pair {
                self.position += 6;
            }
            self.scratch.push(character);
            return Ok(());
        }
        let Some(character) = self.peek().and_then(one_letter_escape) else {
            return Err(self.unexpected_in_literal(IN_ESCAPE));
        };
        self.position += 1;
        self.scratch.push(char::from(character));
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
