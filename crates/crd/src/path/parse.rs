//! The parser of JSONPath.

// upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go

use serde_json::Value;

use super::{Bound, PathStep};

/// Parses the steps of an expression between braces.
pub(super) fn expression(text: &str) -> Result<Vec<PathStep>, String> {
    let mut reader = Reader { text, at: 0 };
    let steps = reader.action()?;
    Ok(steps)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

fn is_terminator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn action(&mut self) -> Result<Vec<PathStep>, String> {
        let mut steps = Vec::new();
        loop {
            if self.rest().starts_with('}') || self.rest().is_empty() {
                // The end of the text acts as the closing brace; text after a real one is never used.
                return Ok(steps);
            }
            if self.skip("[?(") {
                steps.push(self.filter()?);
                continue;
            }
            if self.skip("..") {
                if steps.last() == Some(&PathStep::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                steps.push(PathStep::Recursive);
                if self.peek().is_some_and(is_word) {
                    steps.push(self.field());
                }
                continue;
            }
            match self.peek() {
                None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
                Some(' ' | '@' | '$') => drop(self.next()),
                Some('[') => self.array(&mut steps)?,
                Some(quote @ ('"' | '\'')) => steps.push(self.quoted(quote)?),
                Some('.') => {
                    self.next();
                    steps.push(self.field());
                }
                Some(character) if matches!(character, '+' | '-') || character.is_numeric() => {
                    steps.push(self.number()?);
                }
                Some(character) if is_word(character) => steps.push(self.word()),
                Some(character) => {
                    return Err(format!("unrecognized character in action: U+{:04X}", u32::from(character)));
                }
            }
        }
    }

    fn word(&mut self) -> PathStep {
        let rest = self.rest();
        let length = rest.find(is_terminator).unwrap_or(rest.len());
        self.at += length;
        match &rest[..length] {
            "true" => PathStep::Literal(Value::Bool(true)),
            "false" => PathStep::Literal(Value::Bool(false)),
            _ => PathStep::Word,
        }
    }

    fn field(&mut self) -> PathStep {
        let mut name = String::new();
        while let Some(character) = self.peek() {
            if character == '\\' {
                self.next();
                // Every backslash is dropped, even one after another.
                if let Some(escaped) = self.next().filter(|escaped| *escaped != '\\') {
                    name.push(escaped);
                }
                continue;
            }
            if is_terminator(character) {
                break;
            }
            name.push(character);
            self.next();
        }
        if name == "*" { PathStep::Wildcard } else { PathStep::Field(name.into()) }
    }

    fn number(&mut self) -> Result<PathStep, String> {
        let begin = self.at;
        if matches!(self.peek(), Some('+' | '-')) {
            self.next();
        }
        while self.peek().is_some_and(|character| character == '.' || character.is_numeric()) {
            self.next();
        }
        let text = &self.text[begin..self.at];
        if let Ok(integer) = text.parse::<i64>() {
            return Ok(PathStep::Literal(Value::from(integer)));
        }
        match text.parse::<f64>() {
            Ok(float) => Ok(PathStep::Literal(Value::from(float))),
            Err(_) => Err(format!("cannot parse number {text}")),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<PathStep, String> {
        let begin = self.at;
        self.next();
        loop {
            let before = self.text.as_bytes().get(self.at.wrapping_sub(1)).copied();
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(character) if character == quote && before != Some(b'\\') => break,
                Some(_) => {}
            }
        }
        let raw = &self.text[begin..self.at];
        let text = unquote(&raw[1..raw.len() - 1], quote)
            .ok_or_else(|| format!("unquote string {raw} error invalid syntax"))?;
        Ok(PathStep::Literal(Value::from(text)))
    }

    fn array(&mut self, steps: &mut Vec<PathStep>) -> Result<(), String> {
        self.next();
        let rest = self.rest();
        let length = rest.find([']', '\n']).ok_or("unterminated array")?;
        if rest[length..].starts_with('\n') {
            return Err("unterminated array".to_owned());
        }
        self.at += length + 1;
        let text = if &rest[..length] == "*" { ":" } else { &rest[..length] };
        if text.contains(',') {
            let parts = text.split(',').map(|part| {
                let part = expression(&format!("[{}]", part.trim_matches(' ')))?;
                Ok(part.into())
            });
            steps.push(PathStep::Union(parts.collect::<Result<Vec<Box<[PathStep]>>, String>>()?.into()));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            steps.extend(expression(&format!(".{key}"))?);
            return Ok(());
        }
        steps.push(PathStep::Slice(bounds(text).ok_or_else(|| format!("invalid array index {text}"))?));
        Ok(())
    }

    fn filter(&mut self) -> Result<PathStep, String> {
        let begin = self.at;
        let (mut open, mut closed, mut pair) = (false, false, ' ');
        loop {
            let before = self.text.as_bytes().get(self.at.wrapping_sub(1)).copied();
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(quote @ ('"' | '\'')) => {
                    if !open {
                        (open, pair) = (true, quote);
                    } else if before != Some(b'\\') && quote == pair {
                        closed = true;
                    }
                }
                Some(')') if open == closed => break,
                Some(_) => {}
            }
        }
        let text = &self.text[begin..self.at - 1];
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let is_operator = |character: char| matches!(character, '!' | '<' | '>' | '=');
        let split = text.find(is_operator).filter(|start| *start > 0).and_then(|start| {
            let length = text[start..].find(|character| !is_operator(character))?;
            Some((start, start + length))
        });
        let Some((start, end)) = split else {
            let left = expression(text)?.into();
            return Ok(PathStep::Filter { left, operator: "exists".into(), right: Box::default() });
        };
        Ok(PathStep::Filter {
            left: expression(&text[..start])?.into(),
            operator: text[start..end].into(),
            right: expression(&text[end..])?.into(),
        })
    }
}

/// Parses `from:to:step`, each of them a number or empty.
fn bounds(text: &str) -> Option<[Bound; 3]> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    let mut bounds = [Bound::default(); 3];
    for (index, bound) in bounds.iter_mut().enumerate() {
        match parts.get(index).copied() {
            Some("") if index > 0 || parts.len() > 1 => {}
            Some("") => {}
            Some(part) => {
                let digits = part.strip_prefix('-').unwrap_or(part);
                if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                *bound = Bound { known: true, value: part.parse().ok()?, derived: false };
            }
            None => {}
        }
    }
    if parts.len() == 1 {
        bounds[1] = Bound { known: true, value: bounds[0].value + 1, derived: true };
    }
    Some(bounds)
}

/// Unescapes a quoted string.
fn unquote(text: &str, quote: char) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next()? {
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\u{b}'),
            '\\' => out.push('\\'),
            escaped if escaped == quote => out.push(escaped),
            escaped @ ('x' | 'u' | 'U') => {
                let length = match escaped {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits: String = characters.by_ref().take(length).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == length)?;
                out.push(char::from_u32(code)?);
            }
            _ => return None,
        }
    }
    Some(out)
}
