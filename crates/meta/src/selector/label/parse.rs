//! The grammar of label selectors.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go

use super::{LabelOperator, Requirement};
use crate::field::{FieldError, FieldPath, aggregate};
use crate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Identifier,
    In,
    NotIn,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: scan(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek_value() {
            (Token::Identifier | Token::Not, _) => {}
            (Token::End, _) => return Ok(requirements),
            (_, literal) => {
                return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
            }
        }
        let requirement = parser.requirement();
        requirements.push(requirement.map_err(|error| format!("unable to parse requirement: {error}"))?);
        match parser.next_value() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) => match parser.peek_value() {
                (Token::Identifier | Token::Not, _) => {}
                (_, literal) => return Err(format!("found '{literal}', expected: identifier after ','")),
            },
            (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
        }
    }
}

/// Splits the text into tokens. A NUL byte ends the text, as upstream.
fn scan(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut position = 0;
    loop {
        while matches!(bytes.get(position), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            position += 1;
        }
        let start = position;
        match bytes.get(position) {
            None | Some(0) => {
                tokens.push((Token::End, ""));
                return tokens;
            }
            Some(byte) if is_symbol(*byte) => {
                let (token, length) = match (byte, bytes.get(position + 1)) {
                    (b'=', Some(b'=')) => (Token::DoubleEquals, 2),
                    (b'!', Some(b'=')) => (Token::NotEquals, 2),
                    (b'=', _) => (Token::Equals, 1),
                    (b'!', _) => (Token::Not, 1),
                    (b'(', _) => (Token::Open, 1),
                    (b')', _) => (Token::Close, 1),
                    (b',', _) => (Token::Comma, 1),
                    (b'>', _) => (Token::Greater, 1),
                    _ => (Token::Less, 1),
                };
                position += length;
                tokens.push((token, &text[start..position]));
                // Upstream reads one byte ahead after a symbol and does not put a NUL back.
                if bytes.get(position) == Some(&0) {
                    position += 1;
                }
            }
            Some(_) => {
                let is_part =
                    |byte: &u8| !is_symbol(*byte) && !matches!(byte, 0 | b' ' | b'\t' | b'\r' | b'\n');
                position += bytes[position..].iter().take_while(|byte| is_part(byte)).count();
                let literal = &text[start..position];
                let token = match literal {
                    "in" => Token::In,
                    "notin" => Token::NotIn,
                    _ => Token::Identifier,
                };
                tokens.push((token, literal));
                if bytes.get(position) == Some(&0) {
                    position += 1;
                }
            }
        }
    }
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> (Token, &'a str) {
        self.tokens.get(self.position).copied().unwrap_or((Token::End, ""))
    }

    /// Returns the next token where a key or value is expected, so that `in` and `notin` are ordinary words.
    fn peek_value(&self) -> (Token, &'a str) {
        match self.peek() {
            (Token::In | Token::NotIn, literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn next_value(&mut self) -> (Token, &'a str) {
        let token = self.peek_value();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let nil = FieldPath::nil();
        let (mut token, mut key) = self.next_value();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next_value();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let broken = names::qualified_name(key);
        if !broken.is_empty() {
            return Err(FieldError::invalid(&nil, key, broken.join("; ")).to_string());
        }
        let is_alone = matches!(self.peek().0, Token::End | Token::Comma);
        let (operator, values) = match (negated, is_alone) {
            // The caller reports what follows `!key`.
            (true, _) => (LabelOperator::DoesNotExist, Vec::new()),
            (false, true) => (LabelOperator::Exists, Vec::new()),
            (false, false) => {
                let operator = self.operator()?;
                let mut values = match operator {
                    LabelOperator::In | LabelOperator::NotIn => self.values()?,
                    _ => vec![self.exact_value()?],
                };
                values.sort_unstable();
                values.dedup();
                (operator, values)
            }
        };
        let values = values.into_iter().map(str::to_owned).collect();
        Requirement::new(key, operator, values, &nil).map_err(|errors| aggregate(&errors))
    }

    fn operator(&mut self) -> Result<LabelOperator, String> {
        match self.next() {
            (Token::In, _) => Ok(LabelOperator::In),
            (Token::NotIn, _) => Ok(LabelOperator::NotIn),
            (Token::Equals, _) => Ok(LabelOperator::Equals),
            (Token::DoubleEquals, _) => Ok(LabelOperator::DoubleEquals),
            (Token::NotEquals, _) => Ok(LabelOperator::NotEquals),
            (Token::Greater, _) => Ok(LabelOperator::GreaterThan),
            (Token::Less, _) => Ok(LabelOperator::LessThan),
            (_, literal) => Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next_value() {
            (Token::Open, _) => {}
            (_, literal) => return Err(format!("found '{literal}' expected: '('")),
        }
        match self.peek_value() {
            (Token::Identifier | Token::Comma, _) => self.value_list(),
            (Token::Close, _) => {
                self.position += 1;
                Ok(vec![""])
            }
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    /// Parses values separated by commas up to the closing parenthesis; between two commas, and between a
    /// comma and a parenthesis, there is an empty value.
    fn value_list(&mut self) -> Result<Vec<&'a str>, String> {
        let mut values = Vec::new();
        loop {
            match self.next_value() {
                (Token::Identifier, literal) => {
                    values.push(literal);
                    match self.peek_value() {
                        (Token::Comma, _) => continue,
                        (Token::Close, _) => {}
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push("");
                    }
                    match self.peek_value().0 {
                        Token::Close => values.push(""),
                        Token::Comma => {
                            values.push("");
                            continue;
                        }
                        _ => continue,
                    }
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
            self.position += 1;
            return Ok(values);
        }
    }

    fn exact_value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek_value().0, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next_value() {
            (Token::Identifier, literal) => Ok(literal),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}
