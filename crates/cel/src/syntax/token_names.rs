//! Names of tokens in messages.

// upstream: github.com/google/cel-go/parser/gen/CEL.g4

use super::grammar::Set;
use super::lexer::Kind;

/// Lists tokens as in messages, with the end of input first.
pub fn list(set: Set) -> String {
    const ALL: [Kind; 36] = [
        Kind::End,
        Kind::Equals,
        Kind::NotEquals,
        Kind::In,
        Kind::Less,
        Kind::LessEquals,
        Kind::GreaterEquals,
        Kind::Greater,
        Kind::And,
        Kind::Or,
        Kind::LeftBracket,
        Kind::RightBracket,
        Kind::LeftBrace,
        Kind::RightBrace,
        Kind::LeftParenthesis,
        Kind::RightParenthesis,
        Kind::Dot,
        Kind::Comma,
        Kind::Minus,
        Kind::Exclamation,
        Kind::Question,
        Kind::Colon,
        Kind::Plus,
        Kind::Star,
        Kind::Slash,
        Kind::Percent,
        Kind::True,
        Kind::False,
        Kind::Null,
        Kind::Float,
        Kind::Int,
        Kind::Uint,
        Kind::String,
        Kind::Bytes,
        Kind::Identifier,
        Kind::EscapedIdentifier,
    ];
    let names: Vec<&str> =
        ALL.iter().filter(|kind| set & (1 << **kind as u8) != 0).map(|kind| kind.display_name()).collect();
    match &names[..] {
        [only] => (*only).to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    }
}
