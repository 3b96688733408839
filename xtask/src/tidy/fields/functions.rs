//! The functions of the workspace, as far as their signatures tell which of their parameters may be names of fields.

use std::ops::Range;

use crate::tidy::tokens::{SourceToken, TokenKind, arguments, closing};

/// The form of a string that names fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// One field: `replicas`. A list is a list of such.
    Field,
    /// A path with dots: `spec.replicas`.
    Dotted,
    /// A JSON pointer: `/spec/replicas`.
    Pointer,
}

#[derive(Debug)]
pub struct Function<'a> {
    /// The file, as an index into the list of all files.
    pub file: usize,
    pub name: &'a str,
    /// The type of the `impl` block that contains the function.
    pub of_type: Option<&'a str>,
    pub is_method: bool,
    pub is_public: bool,
    /// The parameters without `self`. Empty names belong to parameters that cannot be names of fields.
    pub parameters: Vec<&'a str>,
    /// The forms of the parameters that are names of fields.
    pub forms: Vec<Option<NameForm>>,
    /// The first token of the body and the one after its end.
    pub body: (usize, usize),
    /// The tokens among which a closure can be called.
    pub scope: Option<Range<usize>>,
}

/// Returns all functions of a file.
pub fn functions<'a>(file: usize, tokens: &[SourceToken<'a>]) -> Vec<Function<'a>> {
    let impls = impls(tokens);
    let mut found = Vec::new();
    for position in 0..tokens.len() {
        let function = function(tokens, position).or_else(|| closure(tokens, position));
        let Some(mut function) = function else { continue };
        let inside = |(_, start, end): &&(&str, usize, usize)| *start < position && position < *end;
        function.of_type = impls.iter().rfind(inside).map(|(name, _, _)| *name);
        function.file = file;
        found.push(function);
    }
    found
}

/// Parses the function whose keyword `fn` is at `position`.
fn function<'a>(tokens: &[SourceToken<'a>], position: usize) -> Option<Function<'a>> {
    let name = tokens.get(position + 1).filter(|name| tokens[position].is("fn") && name.is_word())?;
    let opening = position + tokens[position..].iter().position(|token| token.is("("))?;
    let mut parameters = arguments(tokens, opening);
    let is_method = parameters.first().is_some_and(|first| first.iter().any(|token| token.is("self")));
    if is_method {
        parameters.remove(0);
    }
    let parameters: Vec<&str> =
        parameters.into_iter().map(|tokens| parameter(tokens).unwrap_or("")).collect();
    // The return type can contain brackets, as in `[u8; 4]`, but no braces.
    let mut start = closing(tokens, opening);
    while start < tokens.len() && !tokens[start].is("{") && !tokens[start].is(";") {
        start =
            if tokens[start].is("[") || tokens[start].is("(") { closing(tokens, start) } else { start + 1 };
    }
    // A declaration in a trait has no body; its implementations count.
    let end = tokens.get(start).filter(|token| token.is("{")).map(|_| closing(tokens, start))?;
    let qualifiers = ["const", "async", "extern", "unsafe"];
    let before = tokens[..position].iter().rev().find(|token| !qualifiers.contains(&token.text));
    Some(Function {
        file: 0,
        name: name.text,
        of_type: None,
        is_method,
        is_public: before.is_some_and(|token| token.is("pub")),
        forms: vec![None; parameters.len()],
        parameters,
        body: (start, end),
        scope: None,
    })
}

/// Parses the closure that `let` at `position` gives a name: `let text = |field| …;`.
fn closure<'a>(tokens: &[SourceToken<'a>], position: usize) -> Option<Function<'a>> {
    if !tokens[position].is("let") {
        return None;
    }
    let is_mutable = tokens.get(position + 1).is_some_and(|token| token.is("mut"));
    let place = position + 1 + usize::from(is_mutable);
    let name = tokens.get(place).filter(|name| name.is_word())?;
    let begins = match &tokens[place + 1..] {
        [equals, bar, ..] if equals.is("=") && bar.is("|") => place + 3,
        [equals, keyword, bar, ..] if equals.is("=") && keyword.is("move") && bar.is("|") => place + 4,
        _ => return None,
    };
    let start = begins + tokens[begins..].iter().position(|token| token.is("|"))?;
    let parameters = tokens[begins..start].split(|token| token.is(","));
    let parameters: Vec<&str> = parameters
        .map(|tokens| match tokens {
            [name] if name.is_word() => name.text,
            _ => parameter(tokens).unwrap_or(""),
        })
        .collect();
    let end = end_of(tokens, start, ";");
    Some(Function {
        file: 0,
        name: name.text,
        of_type: None,
        is_method: false,
        is_public: false,
        forms: vec![None; parameters.len()],
        parameters,
        body: (start, end),
        scope: Some(end..end_of(tokens, end, "")),
    })
}

/// Returns the position of the mark, or of the end of the block that contains `start`.
fn end_of(tokens: &[SourceToken<'_>], start: usize, mark: &str) -> usize {
    let mut position = start;
    while position < tokens.len() {
        let token = &tokens[position];
        if token.is("(") || token.is("[") || token.is("{") {
            position = closing(tokens, position);
            continue;
        }
        if token.is(mark) || token.is(")") || token.is("]") || token.is("}") {
            break;
        }
        position += 1;
    }
    position
}

/// Returns the name of a parameter that is a string or a list of strings.
fn parameter<'a>(tokens: &[SourceToken<'a>]) -> Option<&'a str> {
    let colon = tokens.iter().position(|token| token.is(":"))?;
    let name = tokens[..colon].last().filter(|name| name.is_word())?;
    let kind: String = without_lifetimes(&tokens[colon + 1..]);
    let strings = ["&str", "&[&str]", "&[&[&str]]", "implInto<String>", "implInto<Cow<,str>>"];
    let is_array = (kind.starts_with("[&str;") || kind.starts_with("&[&str;")) && kind.ends_with(']');
    (strings.contains(&kind.as_str()) || is_array).then_some(name.text)
}

fn without_lifetimes(tokens: &[SourceToken<'_>]) -> String {
    let is_lifetime = |at: usize| tokens[at].is("'") || at > 0 && tokens[at - 1].is("'");
    (0..tokens.len()).filter(|at| !is_lifetime(*at)).map(|at| tokens[at].text).collect()
}

/// Returns the `impl` blocks: the name of the type, the first token of the body and the one after its end.
fn impls<'a>(tokens: &[SourceToken<'a>]) -> Vec<(&'a str, usize, usize)> {
    let mut found = Vec::new();
    for (position, token) in tokens.iter().enumerate() {
        // `impl Trait` as a type follows a mark or an arrow, a block begins a line of its own.
        let begins = position == 0
            || tokens[position - 1].is("}")
            || tokens[position - 1].is(";")
            || tokens[position - 1].is("]")
            || tokens[position - 1].is("{");
        if !token.is("impl") || !begins {
            continue;
        }
        let Some(start) = tokens[position..].iter().position(|token| token.is("{")) else { continue };
        let head = &tokens[position + 1..position + start];
        let of = head.iter().position(|token| token.is("for")).map_or(head, |at| &head[at + 1..]);
        if let Some(name) = type_name(of) {
            found.push((name, position + start, closing(tokens, position + start)));
        }
    }
    found
}

/// Returns the last name of a path of types: `Pod` of `<'a> crate::pods::Pod<'a>`.
fn type_name<'a>(tokens: &[SourceToken<'a>]) -> Option<&'a str> {
    let mut depth = 0_usize;
    let mut name = None;
    for token in tokens {
        match (token.kind, token.text) {
            (TokenKind::Mark, "<") => depth += 1,
            (TokenKind::Mark, ">") => depth = depth.saturating_sub(1),
            (TokenKind::Word, "where") => break,
            (TokenKind::Word, word) if depth == 0 => name = Some(word),
            _ => {}
        }
    }
    name
}
