//! Strings: the part of the text after an opening quote.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

use super::{Builder, Reader};

impl<B: Builder> Reader<'_, '_, B> {
    /// Parses up to and including the closing quote.
    pub(super) fn string(&mut self) -> Result<String, String> {
        let from = self.at;
        // Most strings have no escape and are copied at once.
        loop {
            match self.peek() {
                Some(b'"') => {
                    let text = String::from_utf8_lossy(&self.text[from..self.at]).into_owned();
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => break,
                Some(0..0x20) | None => return Err(self.invalid("in string literal")),
                Some(_) => self.at += 1,
            }
        }
        let mut bytes = self.text[from..self.at].to_vec();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                Some(b'\\') => {
                    self.at += 1;
                    let character = self.escape()?;
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(0..0x20) | None => return Err(self.invalid("in string literal")),
                Some(byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Parses the rest of an escape after a backslash.
    fn escape(&mut self) -> Result<char, String> {
        let character = match self.peek() {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.invalid_inside("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    /// Parses four hexadecimal digits, and four more if the first are half of a surrogate pair.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hexadecimal()?;
        let low = 0xdc00..0xe000;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hexadecimal()?;
            if low.contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // Half a pair is replaced; what follows it is parsed separately.
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.invalid_inside("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}
