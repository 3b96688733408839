//! Rust source as tokens, without comments, for checks that look at string literals and the code around them.

use super::source::skipped;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An identifier, a keyword or a number.
    Word,
    /// A string literal. The token's text is its content, with escapes as they are written.
    Text,
    /// A character literal. The token's text includes the quotes.
    Character,
    /// Any other character.
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceToken<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    pub line: usize,
}

impl SourceToken<'_> {
    /// Whether the token is this word or mark, and not a literal.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Mark) && self.text == text
    }

    pub fn is_word(&self) -> bool {
        self.kind == TokenKind::Word
    }
}

/// Returns the tokens of a file.
pub fn tokens(text: &str) -> Vec<SourceToken<'_>> {
    let (mut offsets, characters): (Vec<usize>, Vec<char>) = text.char_indices().unzip();
    offsets.push(text.len());
    let mut tokens = Vec::with_capacity(text.len() / 4);
    let (mut position, mut line) = (0, 1);
    while position < characters.len() {
        let rest = &characters[position..];
        let (length, kind) = match rest[0] {
            '\n' => {
                line += 1;
                (1, None)
            }
            first if first.is_whitespace() => (1, None),
            first => match skipped(rest, false) {
                0 if is_word(first) => {
                    (rest.iter().take_while(|c| is_word(**c)).count(), Some(TokenKind::Word))
                }
                0 => (1, Some(TokenKind::Mark)),
                length if first == '/' => (length, None),
                length if first == '\'' => (length, Some(TokenKind::Character)),
                length => (length, Some(TokenKind::Text)),
            },
        };
        let source = &text[offsets[position]..offsets[position + length]];
        if let Some(kind) = kind {
            let text = if kind == TokenKind::Text { content(source) } else { source };
            tokens.push(SourceToken { kind, text, line });
        }
        // Only comments and strings contain more than one line.
        if length > 1 && kind != Some(TokenKind::Word) {
            line += source.bytes().filter(|byte| *byte == b'\n').count();
        }
        position += length;
    }
    tokens
}

/// Returns the content of a string literal, raw or not.
fn content(literal: &str) -> &str {
    let quoted = literal.trim_start_matches(['b', 'c', 'r']);
    let inner = quoted.trim_start_matches('#');
    let hashes = quoted.len() - inner.len();
    let inner = &inner[..inner.len().saturating_sub(hashes)];
    let inner = inner.strip_prefix('"').unwrap_or(inner);
    inner.strip_suffix('"').unwrap_or(inner)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the position after the bracket that closes the one at `opening`.
pub fn closing(tokens: &[SourceToken<'_>], opening: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, token) in tokens[opening..].iter().enumerate() {
        match (token.kind, token.text) {
            (TokenKind::Mark, "(" | "[" | "{") => depth += 1,
            (TokenKind::Mark, ")" | "]" | "}") => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return opening + offset + 1;
        }
    }
    tokens.len()
}

/// Splits what is inside the brackets at `opening` at its commas, and leaves out an empty last part.
pub fn arguments<'t, 'a>(tokens: &'t [SourceToken<'a>], opening: usize) -> Vec<&'t [SourceToken<'a>]> {
    let end = closing(tokens, opening).saturating_sub(1).max(opening + 1).min(tokens.len());
    let mut parts = Vec::new();
    let (mut start, mut position) = (opening + 1, opening + 1);
    // In `Map<String, Value>` the comma separates nothing. `->` closes nothing, and `a < b` is no bracket.
    let mut angles = 0_usize;
    while position < end {
        let token = &tokens[position];
        match (token.kind, token.text) {
            (TokenKind::Mark, "(" | "[" | "{") => {
                position = closing(tokens, position);
                continue;
            }
            (TokenKind::Mark, "<") if tokens[position - 1].is_word() || tokens[position - 1].is(":") => {
                angles += 1;
            }
            (TokenKind::Mark, ">") if !tokens[position - 1].is("-") && !tokens[position - 1].is("=") => {
                angles = angles.saturating_sub(1);
            }
            (TokenKind::Mark, ",") if angles == 0 => {
                parts.push(&tokens[start..position]);
                start = position + 1;
            }
            _ => {}
        }
        position += 1;
    }
    if start < end {
        parts.push(&tokens[start..end]);
    }
    parts
}

/// Removes everything that is compiled for tests only.
pub fn without_tests<'a>(tokens: &[SourceToken<'a>]) -> Vec<SourceToken<'a>> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut position = 0;
    while position < tokens.len() {
        let rest = &tokens[position..];
        let is_test =
            rest.len() >= ATTRIBUTE.len() && rest.iter().zip(ATTRIBUTE).all(|(token, text)| token.is(text));
        if !is_test {
            kept.push(tokens[position]);
            position += 1;
            continue;
        }
        let body = rest.iter().position(|token| token.is("{") || token.is(";"));
        position = match body {
            Some(offset) => closing(tokens, position + offset),
            None => tokens.len(),
        };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_are_left_out_and_literals_are_one_token() {
        assert_eq!(texts("a // \"b\"\n[/* [ */\"c]\"]"), ["a", "[", "c]", "]"]);
        assert_eq!(
            texts(r##"r#"a"b"# r"c" b"d" '"' &'x y"##),
            ["a\"b", "c", "b", "d", "'\"'", "&", "'", "x", "y"]
        );
        assert_eq!(texts("for_each r#type ä[\"ö\"]"), ["for_each", "r", "#", "type", "ä", "[", "ö", "]"]);
        let lines: Vec<usize> = tokens("a\n\"b\nc\" d").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn arguments_are_split_at_their_own_commas_only() {
        let split = |source: &'static str| {
            let tokens = tokens(source);
            arguments(&tokens, 0).iter().map(|part| part.len()).collect::<Vec<_>>()
        };
        assert_eq!(split("()"), [0_usize; 0]);
        assert_eq!(split("(a, f(b, c), [d, e],)"), [1, 6, 5]);
        assert_eq!(split("(map: Map<A, B>, g: impl Fn(A) -> B, c)"), [8, 10, 1]);
        assert_eq!(split("(a"), [0_usize; 0], "the end is missing");
    }

    #[test]
    fn test_code_is_left_out() {
        let source = "a #[cfg(test)] mod tests { b { c } } d #[cfg(test)] mod e; f #[cfg(unix)] g";
        let kept: Vec<&str> = without_tests(&tokens(source)).iter().map(|token| token.text).collect();
        assert_eq!(kept, ["a", "d", "f", "#", "[", "cfg", "(", "unix", ")", "]", "g"]);
    }
}
