//! The parser: one pass, recursive within [`MAX_DEPTH`](super::MAX_DEPTH).

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go
// upstream: sigs.k8s.io/json/internal/golang/encoding/json/scanner.go

use serde_json::Value;

use super::{JsonError, MAX_DEPTH};

mod build;
mod duplicates;
mod string;

pub use build::{Builder, DocumentNode, Nodes, Values};

/// A parsed document and its duplicate fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The document. The last of several fields of the same name wins.
    pub value: Value,
    /// Paths of fields that occur more than once in their object, such as `data.a` or
    /// `spec.containers[0].image`, in document order, without duplicates.
    pub duplicates: Vec<String>,
}

/// Parses one document.
///
/// Integers that fit are `i64`, all other numbers `f64`, as in Go's unstructured objects. Bytes that are not
/// UTF-8 and unpaired surrogates become U+FFFD.
///
/// # Errors
///
/// Returns the first syntax error or, if there is none, the first number that is out of range.
pub fn parse(input: &[u8]) -> Result<Parsed, JsonError> {
    let mut values = Values::unstructured();
    let value = build(input, &mut values)?;
    let duplicates = if values.repeated { duplicates::find(&build(input, &mut Nodes)?) } else { Vec::new() };
    Ok(Parsed { value, duplicates })
}

/// Parses one document with a builder of its result.
///
/// # Errors
///
/// Returns the first syntax error or, if there is none, the first number that the builder rejects.
pub fn build<B: Builder>(input: &[u8], builder: &mut B) -> Result<B::Built, JsonError> {
    let mut parser = Parser {
        input,
        text: std::str::from_utf8(input).ok(),
        position: 0,
        depth: 0,
        out_of_range: None,
        scratch: String::new(),
        builder,
    };
    parser.skip_space();
    let value = parser.value()?;
    parser.skip_space();
    if parser.position < input.len() {
        return Err(parser.unexpected(AFTER_TOP_LEVEL));
    }
    match parser.out_of_range {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

const AFTER_TOP_LEVEL: &str = "after top-level value";
const BEGINNING_OF_VALUE: &str = "looking for beginning of value";
const BEGINNING_OF_KEY: &str = "looking for beginning of object key string";
const AFTER_KEY: &str = "after object key";
const AFTER_PAIR: &str = "after object key:value pair";
const AFTER_ELEMENT: &str = "after array element";
const TOO_DEEP: &str = "exceeded max depth";
const IN_NUMBER: &str = "in numeric literal";
const AFTER_POINT: &str = "after decimal point in numeric literal";
const IN_EXPONENT: &str = "in exponent of numeric literal";

struct Parser<'a, 'b, B> {
    input: &'a [u8],
    /// The input as a string, if all of it is valid UTF-8, so that strings need no further validation.
    text: Option<&'a str>,
    position: usize,
    depth: usize,
    out_of_range: Option<JsonError>,
    /// Buffer for strings with escapes, so that the results have no excess capacity.
    scratch: String,
    builder: &'b mut B,
}

impl<B: Builder> Parser<'_, '_, B> {
    fn peek(&self) -> Option<u8> {
        self.input.get(self.position).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    /// Returns the error for the byte at the current position.
    #[cold]
    fn unexpected(&self, context: &'static str) -> JsonError {
        match self.peek() {
            None => JsonError::UnexpectedEnd { offset: self.input.len() },
            Some(byte) => JsonError::InvalidCharacter {
                byte,
                character: first_character(&self.input[self.position..]),
                context,
                offset: self.position,
            },
        }
    }

    /// Like [`Parser::unexpected`], but inside of a literal, where Go's scanner reports the end of input as a
    /// space.
    #[cold]
    fn unexpected_in_literal(&self, context: &'static str) -> JsonError {
        if self.position < self.input.len() {
            return self.unexpected(context);
        }
        JsonError::InvalidCharacter { byte: b' ', character: Some(' '), context, offset: self.input.len() }
    }

    /// Parses the value that starts at the current position, after whitespace.
    fn value(&mut self) -> Result<B::Built, JsonError> {
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                Ok(self.builder.string(text))
            }
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => {
                self.word(b"true", TRUE)?;
                Ok(self.builder.boolean(true))
            }
            Some(b'f') => {
                self.word(b"false", FALSE)?;
                Ok(self.builder.boolean(false))
            }
            Some(b'n') => {
                self.word(b"null", NULL)?;
                Ok(self.builder.null())
            }
            _ => Err(self.unexpected(BEGINNING_OF_VALUE)),
        }
    }

    fn descend(&mut self) -> Result<(), JsonError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.unexpected(TOO_DEEP));
        }
        self.position += 1;
        self.skip_space();
        Ok(())
    }

    fn ascend(&mut self) {
        self.position += 1;
        self.depth -= 1;
    }

    fn object(&mut self) -> Result<B::Built, JsonError> {
        self.descend()?;
        let mut object = B::Object::default();
        if self.peek() == Some(b'}') {
            self.ascend();
            return Ok(self.builder.object(object));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected(BEGINNING_OF_KEY));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected(AFTER_KEY));
            }
            self.position += 1;
            self.skip_space();
            let value = self.value()?;
            self.builder.member(&mut object, key, value);
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.position += 1;
                    self.skip_space();
                }
                Some(b'}') => {
                    self.ascend();
                    return Ok(self.builder.object(object));
                }
                _ => return Err(self.unexpected(AFTER_PAIR)),
            }
        }
    }

    fn array(&mut self) -> Result<B::Built, JsonError> {
        self.descend()?;
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.ascend();
            return Ok(self.builder.array(elements));
        }
        loop {
            elements.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.position += 1;
                    self.skip_space();
                }
                Some(b']') => {
                    self.ascend();
                    return Ok(self.builder.array(elements));
                }
                _ => return Err(self.unexpected(AFTER_ELEMENT)),
            }
        }
    }

    fn word(&mut self, word: &'static [u8], contexts: &'static [&'static str]) -> Result<(), JsonError> {
        if self.input[self.position..].starts_with(word) {
            self.position += word.len();
            return Ok(());
        }
        for (expected, context) in word.iter().zip(contexts) {
            if self.peek() != Some(*expected) {
                return Err(self.unexpected_in_literal(context));
            }
            self.position += 1;
        }
        Err(self.unexpected(BEGINNING_OF_VALUE))
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.position += 1;
        }
    }

    fn number(&mut self) -> Result<B::Built, JsonError> {
        let start = self.position;
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        match self.peek() {
            Some(b'0') => self.position += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_in_literal(IN_NUMBER)),
        }
        if let Some(b'.' | b'e' | b'E') = self.peek() {
            self.fraction()?;
        }
        // Only ASCII was accepted.
        let literal = std::str::from_utf8(&self.input[start..self.position]).unwrap_or("0");
        if let Some(number) = self.builder.number(literal) {
            return Ok(number);
        }
        // Later syntax errors take precedence, so parsing continues.
        if self.out_of_range.is_none() {
            self.out_of_range = Some(JsonError::NumberOutOfRange { literal: literal.to_owned() });
        }
        Ok(self.builder.null())
    }

    fn fraction(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'.') {
            self.position += 1;
            let Some(b'0'..=b'9') = self.peek() else {
                return Err(self.unexpected_in_literal(AFTER_POINT));
            };
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.position += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.position += 1;
            }
            let Some(b'0'..=b'9') = self.peek() else {
                return Err(self.unexpected_in_literal(IN_EXPONENT));
            };
            self.digits();
        }
        Ok(())
    }
}

const TRUE: &[&str] = &[
    BEGINNING_OF_VALUE,
    "in literal true (expecting 'r')",
    "in literal true (expecting 'u')",
    "in literal true (expecting 'e')",
];
const FALSE: &[&str] = &[
    BEGINNING_OF_VALUE,
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL: &[&str] = &[
    BEGINNING_OF_VALUE,
    "in literal null (expecting 'u')",
    "in literal null (expecting 'l')",
    "in literal null (expecting 'l')",
];

fn first_character(bytes: &[u8]) -> Option<char> {
    let end = bytes.len().min(4);
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => text.chars().next(),
        Err(error) => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok().and_then(|text| text.chars().next())
        }
    }
}

#[cfg(test)]
mod tests;
