//! Primary expressions: names, calls, lists, maps, messages and literals.

// upstream: github.com/google/cel-go/parser/parser.go

use std::sync::Arc;

use super::super::lexer::Kind;
use super::super::literal::unquote;
use super::super::macros;
use super::super::tree::Node;
use super::{ParseError, ParseResult, Parser};
use crate::reserved::RESERVED;
use crate::value::{Text, Value};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> ParseResult {
        match self.kind() {
            Kind::Dot | Kind::Identifier => self.name(),
            Kind::LeftParenthesis => {
                self.next();
                let inside = self.expression()?;
                self.expect(Kind::RightParenthesis)?;
                Ok(inside)
            }
            Kind::LeftBracket => self.list(),
            Kind::LeftBrace => self.map(),
            _ => self.literal(),
        }
    }

    fn name(&mut self) -> ParseResult {
        let dot = self.take(Kind::Dot);
        // `a.b.c{` starts a message.
        let mut count = 1;
        while self.ahead(count) == Kind::Dot && self.ahead(count + 1) == Kind::Identifier {
            count += 2;
        }
        if self.kind() == Kind::Identifier && self.ahead(count) == Kind::LeftBrace {
            return self.message(dot.is_some(), count);
        }
        let token = self.expect(Kind::Identifier)?;
        let name = self.text_of(token);
        let start = dot.unwrap_or(token).start;
        let full: Arc<str> = match dot {
            Some(_) => format!(".{name}").into(),
            None => name.into(),
        };
        if self.kind() != Kind::LeftParenthesis {
            return Ok(match RESERVED.contains(&name) {
                true => self.report_error(start, format!("reserved identifier: {name}")),
                false => self.node(token.start, Node::Name(full)),
            });
        }
        let open = self.next();
        let arguments = self.arguments()?;
        if RESERVED.contains(&name) {
            return Ok(self.report_error(start, format!("reserved identifier: {name}")));
        }
        Ok(macros::expand(self, open.start, None, &full, arguments))
    }

    fn message(&mut self, dot: bool, tokens: usize) -> ParseResult {
        let mut name = String::from(if dot { "." } else { "" });
        for _ in 0..tokens {
            let token = self.next();
            name.push_str(self.text_of(token));
        }
        let open = self.next();
        let mut fields = Vec::new();
        if self.kind() == Kind::Comma {
            self.next();
            self.expect(Kind::RightBrace)?;
        } else {
            while self.take(Kind::RightBrace).is_none() {
                let optional = self.take(Kind::Question).is_some();
                let field = self.field()?;
                let colon = self.expect(Kind::Colon)?;
                fields.push((field, self.expression()?, optional, colon.start));
                if self.take(Kind::Comma).is_none() && self.kind() != Kind::RightBrace {
                    return Err(ParseError::Syntax);
                }
            }
        }
        Ok(self.node(open.start, Node::Message { name: name.into(), fields }))
    }

    fn list(&mut self) -> ParseResult {
        let open = self.next();
        let mut items = Vec::new();
        if self.take(Kind::Comma).is_some() {
            self.expect(Kind::RightBracket)?;
        } else {
            while self.take(Kind::RightBracket).is_none() {
                let optional = self.take(Kind::Question).is_some();
                items.push((self.expression()?, optional));
                if self.take(Kind::Comma).is_none() && self.kind() != Kind::RightBracket {
                    return Err(ParseError::Syntax);
                }
            }
        }
        Ok(self.node(open.start, Node::List { items }))
    }

    fn map(&mut self) -> ParseResult {
        let open = self.next();
        let mut entries = Vec::new();
        if self.take(Kind::Comma).is_some() {
            self.expect(Kind::RightBrace)?;
        } else {
            while self.take(Kind::RightBrace).is_none() {
                let optional = self.take(Kind::Question).is_some();
                let key = self.expression()?;
                self.expect(Kind::Colon)?;
                entries.push((key, self.expression()?, optional));
                if self.take(Kind::Comma).is_none() && self.kind() != Kind::RightBrace {
                    return Err(ParseError::Syntax);
                }
            }
        }
        Ok(self.node(open.start, Node::Map { entries }))
    }

    fn literal(&mut self) -> ParseResult {
        let sign = self.take(Kind::Minus);
        let token = self.next();
        let start = sign.unwrap_or(token).start;
        let text = self.text_of(token);
        let minus = if sign.is_some() { "-" } else { "" };
        let value = match token.kind {
            Kind::Int => match text.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(&format!("{minus}{digits}"), 16).ok(),
                None => format!("{minus}{text}").parse().ok(),
            }
            .map(Value::Int)
            .ok_or("invalid int literal"),
            Kind::Float => match format!("{minus}{text}").parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::Double(number)),
                _ => Err("invalid double literal"),
            },
            _ if sign.is_some() => return Err(ParseError::Syntax),
            Kind::Uint => {
                let text = &text[..text.len() - 1];
                match text.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => text.parse().ok(),
                }
                .map(Value::Uint)
                .ok_or("invalid uint literal")
            }
            Kind::String => unquote(text, false)
                .map(|bytes| Value::String(Text::Shared(String::from_utf8_lossy(&bytes).into()))),
            Kind::Bytes => unquote(&text[1..], true).map(|bytes| Value::Bytes(bytes.into())),
            Kind::True => Ok(Value::Bool(true)),
            Kind::False => Ok(Value::Bool(false)),
            Kind::Null => Ok(Value::Null),
            _ => {
                // The token cannot start an expression.
                if token.kind != Kind::End {
                    self.at -= 1;
                }
                return Err(ParseError::Syntax);
            }
        };
        Ok(match value {
            Ok(value) => self.node(start, Node::Literal(value)),
            Err(message) => self.report_error(start, message),
        })
    }
}
