//! Calls of functions and methods, as far as tokens show them.

use crate::tidy::tokens::{SourceToken, TokenKind, arguments};

pub struct Call<'t, 'a> {
    pub name: &'a str,
    /// The type or module before the name: `Cell` of `Cell::Text(…)`.
    pub qualifier: Option<&'a str>,
    pub is_method: bool,
    /// The position of the name.
    pub position: usize,
    pub arguments: Vec<&'t [SourceToken<'a>]>,
}

impl<'t, 'a> Call<'t, 'a> {
    /// Returns the call that has the token at a position in its arguments, and the number of that argument.
    pub fn around(tokens: &'t [SourceToken<'a>], at: usize) -> Option<(Call<'t, 'a>, usize)> {
        let opening = opening(tokens, at.checked_sub(1)?)?;
        let position = opening.checked_sub(1)?;
        let name = tokens[position];
        let before = |distance: usize| position.checked_sub(distance).map(|at| tokens[at]);
        if !name.is_word() || before(1).is_some_and(|token| token.is("fn")) {
            return None;
        }
        let is_path =
            before(1).is_some_and(|token| token.is(":")) && before(2).is_some_and(|token| token.is(":"));
        let call = Call {
            name: name.text,
            qualifier: before(3).filter(|token| is_path && token.is_word()).map(|token| token.text),
            is_method: before(1).is_some_and(|token| token.is(".")),
            position,
            arguments: arguments(tokens, opening),
        };
        let token = std::ptr::from_ref(&tokens[at]);
        let place = call.arguments.iter().position(|part| part.as_ptr_range().contains(&token))?;
        Some((call, place))
    }

    /// Returns the last name of the receiver of a method: `headers` of `self.headers().get(…)`.
    pub fn receiver(&self, tokens: &[SourceToken<'a>]) -> &'a str {
        let mut depth = 0_usize;
        for token in tokens[..self.position.saturating_sub(1)].iter().rev() {
            match (token.kind, token.text) {
                (TokenKind::Mark, ")" | "]") => depth += 1,
                (TokenKind::Mark, "(" | "[") if depth > 0 => depth -= 1,
                (TokenKind::Word, word) if depth == 0 => return word,
                (TokenKind::Mark, "?") => {}
                _ if depth == 0 => return "",
                _ => {}
            }
        }
        ""
    }
}

/// Returns the parenthesis that contains the token at a position.
fn opening(tokens: &[SourceToken<'_>], position: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..=position).rev() {
        match (tokens[at].kind, tokens[at].text) {
            (TokenKind::Mark, ")" | "]" | "}") => depth += 1,
            (TokenKind::Mark, "(") if depth == 0 => return Some(at),
            (TokenKind::Mark, "[" | "{" | ";") if depth == 0 => return None,
            (TokenKind::Mark, "(" | "[" | "{") => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether the bracket at a position indexes the value before it, and does not begin a list.
pub fn is_index(tokens: &[SourceToken<'_>], bracket: usize) -> bool {
    let Some(before) = bracket.checked_sub(1).map(|at| tokens[at]) else { return false };
    let keywords = ["in", "return", "break", "match", "if", "else", "mut", "dyn", "as", "move"];
    let ends_value = before.is(")") || before.is("]") || before.is("?");
    ends_value || before.is_word() && !keywords.contains(&before.text)
}

/// Returns the outermost list around the one that begins at a bracket: paths are lists in a list.
pub fn outermost(tokens: &[SourceToken<'_>], mut bracket: usize) -> usize {
    loop {
        let Some(before) = tokens[..bracket].iter().rposition(|token| !token.is("&")) else { return bracket };
        let mut depth = 0_usize;
        let outer = (0..=before).rev().find(|at| {
            let token = &tokens[*at];
            let is_open = token.is("(") || token.is("[") || token.is("{") || token.is(";");
            match depth {
                0 if is_open => return true,
                _ if token.is(")") || token.is("]") || token.is("}") => depth += 1,
                _ if is_open && !token.is(";") => depth -= 1,
                _ => {}
            }
            false
        });
        let follows = tokens[before].is("[") || tokens[before].is(",");
        match outer.filter(|outer| follows && tokens[*outer].is("[") && !is_index(tokens, *outer)) {
            Some(outer) => bracket = outer,
            None => return bracket,
        }
    }
}
