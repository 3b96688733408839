//! What to say of wrong syntax.

use super::lexer::{Token, Unreadable};
use crate::source::{Issues, Place};

/// Adds what is wrong with the syntax.
pub fn diagnose(text: &str, tokens: &[Token], unreadable: &[Unreadable], issues: &mut Issues) {
    for (start, end) in unreadable {
        let message = format!("Syntax error: token recognition error at: '{}'", &text[*start..*end]);
        issues.add(Place::of(text, *start), message);
    }
    if unreadable.is_empty() {
        let end = tokens.last().map_or(0, |token| token.start);
        issues.add(Place::of(text, end), "Syntax error: mismatched input");
    }
}
