//! The lexer.

// upstream: github.com/google/cel-go/parser/gen/CEL.g4

/// Kinds of tokens, in the order in which error messages list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParenthesis,
    RightParenthesis,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
    End,
}

impl Kind {
    /// Returns the name in error messages.
    pub fn display_name(self) -> &'static str {
        match self {
            Kind::Equals => "'=='",
            Kind::NotEquals => "'!='",
            Kind::In => "'in'",
            Kind::Less => "'<'",
            Kind::LessEquals => "'<='",
            Kind::GreaterEquals => "'>='",
            Kind::Greater => "'>'",
            Kind::And => "'&&'",
            Kind::Or => "'||'",
            Kind::LeftBracket => "'['",
            Kind::RightBracket => "']'",
            Kind::LeftBrace => "'{'",
            Kind::RightBrace => "'}'",
            Kind::LeftParenthesis => "'('",
            Kind::RightParenthesis => "')'",
            Kind::Dot => "'.'",
            Kind::Comma => "','",
            Kind::Minus => "'-'",
            Kind::Exclamation => "'!'",
            Kind::Question => "'?'",
            Kind::Colon => "':'",
            Kind::Plus => "'+'",
            Kind::Star => "'*'",
            Kind::Slash => "'/'",
            Kind::Percent => "'%'",
            Kind::True => "'true'",
            Kind::False => "'false'",
            Kind::Null => "'null'",
            Kind::Float => "NUM_FLOAT",
            Kind::Int => "NUM_INT",
            Kind::Uint => "NUM_UINT",
            Kind::String => "STRING",
            Kind::Bytes => "BYTES",
            Kind::Identifier => "IDENTIFIER",
            Kind::EscapedIdentifier => "ESC_IDENTIFIER",
            Kind::End => "<EOF>",
        }
    }
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// Start offset in bytes.
    pub start: usize,
    /// End offset in bytes.
    pub end: usize,
}

/// Start and end of characters that are not part of any token. The lexer continues after them.
pub type Unreadable = (usize, usize);

/// Splits the text into tokens, ending with `End`, and unreadable characters.
pub fn tokens(text: &str) -> (Vec<Token>, Vec<Unreadable>) {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    let (mut tokens, mut unreadable) = (Vec::new(), Vec::new());
    loop {
        lexer.skip();
        let start = lexer.at;
        if start >= text.len() {
            tokens.push(Token { kind: Kind::End, start, end: start });
            return (tokens, unreadable);
        }
        match lexer.one() {
            Ok(kind) => tokens.push(Token { kind, start, end: lexer.at }),
            Err(end) => {
                unreadable.push((start, end));
                lexer.at = end;
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Returns the end of the character at an offset, which is the end of an unreadable part.
    fn past(&self, at: usize) -> usize {
        self.text[at..].chars().next().map_or(self.text.len(), |character| at + character.len_utf8())
    }

    fn skip(&mut self) {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c if self.at < self.bytes.len() => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
                }
                _ => return,
            }
        }
    }

    fn take(&mut self, length: usize, kind: Kind) -> Result<Kind, usize> {
        self.at += length;
        Ok(kind)
    }

    fn one(&mut self) -> Result<Kind, usize> {
        let (first, second) = (self.peek(0), self.peek(1));
        match (first, second) {
            (b'=', b'=') => self.take(2, Kind::Equals),
            (b'!', b'=') => self.take(2, Kind::NotEquals),
            (b'<', b'=') => self.take(2, Kind::LessEquals),
            (b'>', b'=') => self.take(2, Kind::GreaterEquals),
            (b'&', b'&') => self.take(2, Kind::And),
            (b'|', b'|') => self.take(2, Kind::Or),
            (b'=' | b'&' | b'|', _) => Err(self.past((self.at + 1).min(self.text.len()))),
            (b'<', _) => self.take(1, Kind::Less),
            (b'>', _) => self.take(1, Kind::Greater),
            (b'[', _) => self.take(1, Kind::LeftBracket),
            (b']', _) => self.take(1, Kind::RightBracket),
            (b'{', _) => self.take(1, Kind::LeftBrace),
            (b'}', _) => self.take(1, Kind::RightBrace),
            (b'(', _) => self.take(1, Kind::LeftParenthesis),
            (b')', _) => self.take(1, Kind::RightParenthesis),
            (b'.', b'0'..=b'9') => Ok(self.number()),
            (b'.', _) => self.take(1, Kind::Dot),
            (b',', _) => self.take(1, Kind::Comma),
            (b'-', _) => self.take(1, Kind::Minus),
            (b'!', _) => self.take(1, Kind::Exclamation),
            (b'?', _) => self.take(1, Kind::Question),
            (b':', _) => self.take(1, Kind::Colon),
            (b'+', _) => self.take(1, Kind::Plus),
            (b'*', _) => self.take(1, Kind::Star),
            (b'/', _) => self.take(1, Kind::Slash),
            (b'%', _) => self.take(1, Kind::Percent),
            (b'0'..=b'9', _) => Ok(self.number()),
            (b'`', _) => self.escaped(),
            (b'"' | b'\'', _) => self.string(0, false, Kind::String),
            (b'r' | b'R', b'"' | b'\'') => self.prefixed(1, true, Kind::String),
            (b'b' | b'B', b'"' | b'\'') => self.prefixed(1, false, Kind::Bytes),
            (b'b' | b'B', b'r' | b'R') if matches!(self.peek(2), b'"' | b'\'') => {
                self.prefixed(2, true, Kind::Bytes)
            }
            (b'a'..=b'z' | b'A'..=b'Z' | b'_', _) => Ok(self.identifier()),
            _ => Err(self.past(self.at)),
        }
    }

    fn identifier(&mut self) -> Kind {
        let start = self.at;
        while matches!(self.peek(0), b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_') {
            self.at += 1;
        }
        match &self.text[start..self.at] {
            "in" => Kind::In,
            "true" => Kind::True,
            "false" => Kind::False,
            "null" => Kind::Null,
            _ => Kind::Identifier,
        }
    }

    fn escaped(&mut self) -> Result<Kind, usize> {
        let mut at = self.at + 1;
        while matches!(
            self.bytes.get(at),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'/' | b' ')
        ) {
            at += 1;
        }
        if at > self.at + 1 && self.bytes.get(at) == Some(&b'`') {
            self.at = at + 1;
            return Ok(Kind::EscapedIdentifier);
        }
        Err(self.past(at.min(self.text.len())))
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Kind {
        if self.peek(0) == b'0' && self.peek(1) == b'x' && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
        } else {
            let mut float = false;
            self.digits();
            if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
                self.at += 1;
                float = self.digits();
            }
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                float = self.digits();
            }
            if float {
                return Kind::Float;
            }
        }
        if matches!(self.peek(0), b'u' | b'U') {
            self.at += 1;
            return Kind::Uint;
        }
        Kind::Int
    }

    /// Reads a prefixed string. If it is unterminated, the prefix is an identifier.
    fn prefixed(&mut self, letters: usize, raw: bool, kind: Kind) -> Result<Kind, usize> {
        self.string(letters, raw, kind).or_else(|_| Ok(self.identifier()))
    }

    fn string(&mut self, letters: usize, raw: bool, kind: Kind) -> Result<Kind, usize> {
        let open = self.at + letters;
        let quote = self.bytes[open];
        let triple = [quote; 3];
        let long = self.bytes[open..].starts_with(&triple);
        let mut at = open + if long { 3 } else { 1 };
        let end = loop {
            let Some(byte) = self.bytes.get(at) else { break Err(self.text.len()) };
            match *byte {
                b'\\' if !raw => match self.escape(at) {
                    Ok(next) => at = next,
                    Err(end) => break Err(end),
                },
                b'\n' | b'\r' if !long => break Err(at + 1),
                byte if byte == quote && !long => break Ok(at + 1),
                byte if byte == quote && self.bytes[at..].starts_with(&triple) => break Ok(at + 3),
                _ => at += 1,
            }
        };
        match end {
            Ok(end) => {
                self.at = end;
                Ok(kind)
            }
            // Three quotes without a terminator are an empty string and the start of another one.
            Err(_) if long => {
                self.at = open + 2;
                Ok(kind)
            }
            Err(end) => Err(end),
        }
    }

    /// Returns the end of an escape sequence, or of an invalid one.
    fn escape(&self, at: usize) -> Result<usize, usize> {
        let hexadecimal = |digits: usize| {
            for index in at + 2..at + 2 + digits {
                match self.bytes.get(index) {
                    Some(byte) if byte.is_ascii_hexdigit() => {}
                    Some(_) => return Err(self.past(index)),
                    None => return Err(self.text.len()),
                }
            }
            Ok(at + 2 + digits)
        };
        match self.bytes.get(at + 1) {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => {
                Ok(at + 2)
            }
            Some(b'x' | b'X') => hexadecimal(2),
            Some(b'u') => hexadecimal(4),
            Some(b'U') => hexadecimal(8),
            Some(b'0'..=b'3') => {
                for index in at + 2..at + 4 {
                    match self.bytes.get(index) {
                        Some(b'0'..=b'7') => {}
                        Some(_) => return Err(self.past(index)),
                        None => return Err(self.text.len()),
                    }
                }
                Ok(at + 4)
            }
            Some(_) => Err(self.past(at + 1)),
            None => Err(self.text.len()),
        }
    }
}
