//! Variables that take the elements of a list: in loops, in closures and in patterns.

use crate::tidy::tokens::{SourceToken, closing};

/// Variables for the elements of a list, or for the parts of its tuples, and the tokens that may use them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ElementVariables<'a> {
    pub names: Vec<&'a str>,
    pub start: usize,
    pub end: usize,
}

/// Returns the variables for the elements of the list between two tokens: of `for x in LIST {`, of
/// `LIST.iter().map(|x| …)`, of `Some((x, rest)) = LIST.split_first()` and of `match LIST { [x, rest @ ..] => …`.
pub fn element_variables<'a>(tokens: &[SourceToken<'a>], start: usize, end: usize) -> ElementVariables<'a> {
    let of_loop = || loop_variables(tokens, start, end);
    let of_closure = || closure_variables(tokens, end);
    let of_split = || split_variables(tokens, start, end);
    let of_match = || match_variables(tokens, start, end);
    of_loop().or_else(of_closure).or_else(of_split).or_else(of_match).unwrap_or_default()
}

fn loop_variables<'a>(tokens: &[SourceToken<'a>], start: usize, end: usize) -> Option<ElementVariables<'a>> {
    let before = before(tokens, start).filter(|before| tokens[*before].is("in"))?;
    let keyword = tokens[..before].iter().rposition(|token| token.is("for"))?;
    let body = end + tokens[end..].iter().position(|token| token.is("{"))?;
    let names = pattern(&tokens[keyword + 1..before]);
    Some(ElementVariables { names, start: end, end: closing(tokens, body) })
}

fn closure_variables<'a>(tokens: &[SourceToken<'a>], end: usize) -> Option<ElementVariables<'a>> {
    let iterators = ["iter", "into_iter", "map", "each_ref"];
    let first = tokens.get(end + 1).filter(|_| tokens[end].is("."))?;
    if !iterators.iter().any(|name| first.is(name)) {
        return None;
    }
    // The first closure in the chain of calls.
    let mut position = end;
    while position + 2 < tokens.len() && tokens[position].is(".") && tokens[position + 2].is("(") {
        let after = closing(tokens, position + 2);
        let bar = tokens[position + 3..after].iter().position(|token| token.is("|"));
        let Some(bar) = bar.map(|offset| position + 3 + offset) else {
            position = after;
            continue;
        };
        let closes = tokens[bar + 1..after].iter().position(|token| token.is("|"))?;
        let parameters = &tokens[bar + 1..bar + 1 + closes];
        // The element is the last parameter, also in a fold.
        let is_tuple = parameters.iter().find(|token| !token.is("&")).is_some_and(|token| token.is("("));
        let comma = parameters.iter().rposition(|token| token.is(",")).filter(|_| !is_tuple);
        let names = pattern(comma.map_or(parameters, |comma| &parameters[comma + 1..]));
        return Some(ElementVariables { names, start: bar, end: after });
    }
    None
}

fn split_variables<'a>(tokens: &[SourceToken<'a>], start: usize, end: usize) -> Option<ElementVariables<'a>> {
    let method = tokens.get(end + 1).filter(|_| tokens[end].is("."))?;
    if !method.is("split_first") && !method.is("split_last") {
        return None;
    }
    let equals = before(tokens, start).filter(|before| tokens[*before].is("="))?;
    let name = equals.checked_sub(5).map(|at| tokens[at]).filter(|name| name.is_word())?;
    Some(ElementVariables { names: vec![name.text], start: end, end: tokens.len() })
}

fn match_variables<'a>(tokens: &[SourceToken<'a>], start: usize, end: usize) -> Option<ElementVariables<'a>> {
    before(tokens, start).filter(|before| tokens[*before].is("match"))?;
    let body = tokens.get(end).filter(|token| token.is("{")).map(|_| closing(tokens, end))?;
    // A name that takes the rest is the same list, but shorter.
    let is_first = |at: &usize| tokens[*at].is("[") && tokens[at + 1].is_word() && !tokens[at + 2].is("@");
    let is_arm = |at: &usize| tokens.get(closing(tokens, *at)).is_some_and(|token| token.is("="));
    let first = (end..body.saturating_sub(2)).find(|at| is_first(at) && is_arm(at))?;
    Some(ElementVariables { names: vec![tokens[first + 1].text], start: first + 2, end: body })
}

/// Returns the token before an expression and the marks that borrow it.
fn before(tokens: &[SourceToken<'_>], start: usize) -> Option<usize> {
    tokens[..start].iter().rposition(|token| !token.is("&") && !token.is("*"))
}

/// Returns the names of a pattern: of `x` and `&x`, and in order of `(x, y)`.
fn pattern<'a>(tokens: &[SourceToken<'a>]) -> Vec<&'a str> {
    let words = tokens.iter().filter(|token| token.is_word() && !token.is("mut") && !token.is("ref"));
    words.map(|token| token.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tokens::tokens;

    #[track_caller]
    fn finds(source: &str, names: &[&str]) {
        let tokens = tokens(source);
        let list = tokens.iter().position(|token| token.is("LIST")).expect("a list");
        assert_eq!(element_variables(&tokens, list, list + 1).names, names, "{source}");
    }

    #[test]
    fn variables_of_elements_are_found() {
        finds("for name in LIST { }", &["name"]);
        finds("for &name in &LIST { }", &["name"]);
        finds("for (name, value) in LIST { }", &["name", "value"]);
        finds("LIST.iter().any(|name| name)", &["name"]);
        finds("LIST.into_iter().try_fold(value, |value, name| value)", &["name"]);
        finds("LIST.iter().filter(|(name, _)| name)", &["name", "_"]);
        finds("let Some((first, rest)) = LIST.split_first() else { return };", &["first"]);
        finds("match LIST { [] => 1, [first, rest @ ..] => 2 }", &["first"]);
        finds("LIST.len()", &[]);
        finds("f(LIST)", &[]);
    }
}
