//! A JSON parser that accepts and rejects exactly the same as Go's, with its messages: invalid UTF-8 and lone
//! surrogates become U+FFFD, and every syntax error names the character and the expected syntax.
//!
//! A [`Builder`] builds the result: a [`Value`], or a [`DocumentNode`] that keeps the order of the text.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/scanner.go
// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

mod build;
mod string;

pub(crate) use build::{Builder, DocumentNode, Nodes, Values};

use crate::go::Quoted;

/// Maximum nesting depth. Go allows ten thousand levels, for which the stack is too small.
const MAX_DEPTH: usize = 512;

/// Parses one JSON value.
pub(crate) fn read<B: Builder>(text: &[u8], builder: &mut B) -> Result<B::Built, String> {
    let mut reader = Reader { text, at: 0, depth: 0, builder };
    reader.space();
    let value = reader.value()?;
    reader.space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.invalid("after top-level value")),
    }
}

struct Reader<'t, 'b, B> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    builder: &'b mut B,
}

impl<B: Builder> Reader<'_, '_, B> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Returns the error for the current character, or for the end of the text.
    #[cold]
    fn invalid(&self, context: &str) -> String {
        if self.peek().is_none() {
            return "unexpected end of JSON input".to_owned();
        }
        self.invalid_inside(context)
    }

    /// Returns the error inside of a literal, where Go reports the end of the text as a space.
    #[cold]
    fn invalid_inside(&self, context: &str) -> String {
        match self.peek() {
            None => format!("invalid character ' ' {context}"),
            Some(b'\'') => format!("invalid character '\\'' {context}"),
            Some(b'"') => format!("invalid character '\"' {context}"),
            Some(byte) => {
                // Go treats the byte as a character.
                let quoted = Quoted(char::from(byte).encode_utf8(&mut [0; 4])).to_string();
                format!("invalid character '{}' {context}", &quoted[1..quoted.len() - 1])
            }
        }
    }

    fn value(&mut self) -> Result<B::Built, String> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                let text = self.string()?;
                Ok(self.builder.string(text))
            }
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => {
                let from = self.at;
                self.number()?;
                // A number consists of ASCII only.
                let literal = std::str::from_utf8(&self.text[from..self.at]).unwrap_or("0");
                self.builder.number(literal)
            }
            Some(b't') => self.word("true").map(|()| self.builder.boolean(true)),
            Some(b'f') => self.word("false").map(|()| self.builder.boolean(false)),
            Some(b'n') => self.word("null").map(|()| self.builder.null()),
            _ => Err(self.invalid("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<B::Built, String>) -> Result<B::Built, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.invalid("exceeded max depth"));
        }
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<B::Built, String> {
        let mut elements = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(self.builder.array(elements));
        }
        loop {
            self.space();
            elements.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(self.builder.array(elements));
                }
                _ => return Err(self.invalid("after array element")),
            }
        }
    }

    fn object(&mut self) -> Result<B::Built, String> {
        let mut object = B::Object::default();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(self.builder.object(object));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.invalid("looking for beginning of object key string"));
            }
            self.at += 1;
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.invalid("after object key"));
            }
            self.at += 1;
            self.space();
            let value = self.value()?;
            self.builder.member(&mut object, key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(self.builder.object(object));
                }
                _ => return Err(self.invalid("after object key:value pair")),
            }
        }
    }

    fn word(&mut self, word: &'static str) -> Result<(), String> {
        for expected in word.chars() {
            if self.peek() != Some(expected as u8) {
                return Err(
                    self.invalid_inside(&format!("in literal {word} (expecting {})", quoted(expected)))
                );
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.invalid_inside("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.invalid_inside("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.invalid_inside("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }
}

fn quoted(character: char) -> String {
    format!("'{character}'")
}
