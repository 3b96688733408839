//! The parser: one pass, recursive within [`MAX_DEPTH`](super::MAX_DEPTH).

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go
// upstream: sigs.k8s.io/json/internal/golang/encoding/json/scanner.go

use serde_json::{Map, Number, Value};

use super::{JsonError, MAX_DEPTH};

mod string;

/// Maximum number of strict errors, as upstream.
const MAX_DUPLICATES: usize = 100;

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
    let mut parser = Parser {
        input,
        text: std::str::from_utf8(input).ok(),
        position: 0,
        depth: 0,
        duplicates: Vec::new(),
        out_of_range: None,
        scratch: String::new(),
    };
    parser.skip_space();
    let value = parser.value()?;
    parser.skip_space();
    if parser.position < input.len() {
        return Err(parser.unexpected(AFTER_TOP_LEVEL));
    }
    match parser.out_of_range {
        Some(error) => Err(error),
        None => Ok(Parsed { value, duplicates: parser.duplicates }),
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

struct Parser<'a> {
    input: &'a [u8],
    /// The input as a string, if all of it is valid UTF-8, so that strings need no further validation.
    text: Option<&'a str>,
    position: usize,
    depth: usize,
    /// Paths relative to the container being parsed; each container prepends its own element after each
    /// member. Documents without duplicates pay only one comparison for this.
    duplicates: Vec<String>,
    out_of_range: Option<JsonError>,
    /// Buffer for strings with escapes, so that the results have no excess capacity.
    scratch: String,
}

impl Parser<'_> {
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
    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => {
                self.word(b"true", TRUE)?;
                Ok(Value::Bool(true))
            }
            Some(b'f') => {
                self.word(b"false", FALSE)?;
                Ok(Value::Bool(false))
            }
            Some(b'n') => {
                self.word(b"null", NULL)?;
                Ok(Value::Null)
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

    fn object(&mut self) -> Result<Value, JsonError> {
        self.descend()?;
        let mut map = Map::new();
        if self.peek() == Some(b'}') {
            self.ascend();
            return Ok(Value::Object(map));
        }
        let first_duplicate = self.duplicates.len();
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

            let before = self.duplicates.len();
            let value = self.value()?;
            if self.duplicates.len() > before {
                // A path into an array starts with its index and needs no dot.
                let dot = if value.is_array() { "" } else { "." };
                self.prefix_duplicates(first_duplicate, before, |path| format!("{key}{dot}{path}"));
            }
            match map.entry(key) {
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                serde_json::map::Entry::Occupied(mut entry) => {
                    let key = entry.key().as_str().to_owned();
                    entry.insert(value);
                    self.duplicate(key, first_duplicate, before);
                }
            }

            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.position += 1;
                    self.skip_space();
                }
                Some(b'}') => {
                    self.ascend();
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected(AFTER_PAIR)),
            }
        }
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        self.descend()?;
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.ascend();
            return Ok(Value::Array(elements));
        }
        let first_duplicate = self.duplicates.len();
        loop {
            let before = self.duplicates.len();
            let value = self.value()?;
            if self.duplicates.len() > before {
                let index = elements.len();
                let dot = if value.is_array() { "" } else { "." };
                self.prefix_duplicates(first_duplicate, before, |path| format!("[{index}]{dot}{path}"));
            }
            elements.push(value);

            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.position += 1;
                    self.skip_space();
                }
                Some(b']') => {
                    self.ascend();
                    return Ok(Value::Array(elements));
                }
                _ => return Err(self.unexpected(AFTER_ELEMENT)),
            }
        }
    }

    /// Records a duplicate of `key`. It comes before duplicates inside of its second value.
    #[cold]
    fn duplicate(&mut self, key: String, first: usize, before: usize) {
        if self.duplicates.len() < MAX_DUPLICATES && !self.duplicates[first..].contains(&key) {
            self.duplicates.insert(before.min(self.duplicates.len()), key);
        }
    }

    /// Prepends an element to the paths from `before` on, and drops those that this container already has.
    #[cold]
    fn prefix_duplicates(&mut self, first: usize, before: usize, prefixed: impl Fn(&str) -> String) {
        let inner = self.duplicates.split_off(before);
        for path in inner {
            let path = prefixed(&path);
            if !self.duplicates[first..].contains(&path) {
                self.duplicates.push(path);
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

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.position;
        let negative = self.peek() == Some(b'-');
        if negative {
            self.position += 1;
        }
        let first_digit = self.position;
        match self.peek() {
            Some(b'0') => self.position += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_in_literal(IN_NUMBER)),
        }
        match self.peek() {
            Some(b'.' | b'e' | b'E') => self.fraction()?,
            _ => {
                let digits = &self.input[first_digit..self.position];
                // Eighteen digits cannot overflow; longer numbers take the slow path.
                if digits.len() <= 18 {
                    let size = digits.iter().fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
                    return Ok(Value::Number(Number::from(if negative { -size } else { size })));
                }
            }
        }
        self.long_number(start)
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

    fn long_number(&mut self, start: usize) -> Result<Value, JsonError> {
        // Only ASCII was accepted so far.
        let literal = std::str::from_utf8(&self.input[start..self.position]).unwrap_or("0");
        if let Ok(number) = literal.parse::<i64>() {
            return Ok(Value::Number(Number::from(number)));
        }
        match literal.parse::<f64>().ok().and_then(Number::from_f64) {
            Some(number) => Ok(Value::Number(number)),
            None => {
                // Later syntax errors take precedence, so parsing continues.
                if self.out_of_range.is_none() {
                    self.out_of_range = Some(JsonError::NumberOutOfRange { literal: literal.to_owned() });
                }
                Ok(Value::Null)
            }
        }
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
