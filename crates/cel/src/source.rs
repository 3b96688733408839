//! The text of an expression, places in it, and what is wrong there.

use std::fmt;

/// A place: the line from 1, the column in characters from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1; -1 for no place.
    pub line: i64,
    /// From 0; -1 for no place.
    pub column: i64,
}

impl Place {
    /// For what is wrong with the expression as a whole.
    pub const NOWHERE: Place = Place { line: -1, column: -1 };

    /// The place of a byte of the text.
    pub fn of(text: &str, offset: usize) -> Place {
        let before = &text[..offset.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() as i64 + 1;
        Place { line, column: before[line_start..].chars().count() as i64 }
    }
}

/// One thing that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where.
    pub place: Place,
    /// What, in upstream's words.
    pub message: String,
}

/// Everything that is wrong with an expression. It is written as the API server shows it: each with its line and a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    text: String,
    issues: Vec<Issue>,
    total: usize,
}

/// More than these are counted and not kept.
const KEPT: usize = 100;
/// Longer lines are not shown.
const SNIPPET: usize = 16_384;

impl Issues {
    pub(crate) fn new(text: &str) -> Issues {
        Issues { text: text.to_owned(), issues: Vec::new(), total: 0 }
    }

    pub(crate) fn add(&mut self, place: Place, message: impl Into<String>) {
        self.total += 1;
        if self.total <= KEPT {
            self.issues.push(Issue { place, message: message.into() });
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// What is wrong, in the order in which it was found.
    pub fn all(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Issue> = self.issues.iter().collect();
        sorted.sort_by_key(|issue| issue.place);
        for (count, issue) in sorted.iter().enumerate() {
            let Place { line, column } = issue.place;
            let newline = if count > 0 { "\n" } else { "" };
            write!(f, "{newline}ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            let snippet = usize::try_from(line - 1).ok().and_then(|line| self.text.split('\n').nth(line));
            let Some(snippet) = snippet.filter(|snippet| snippet.len() <= SNIPPET) else { continue };
            let snippet = snippet.replace('\t', " ");
            write!(f, "\n | {snippet}\n | ")?;
            let mut characters = snippet.chars();
            for _ in 0..column {
                match characters.next() {
                    Some(character) => f.write_str(if character.is_ascii() { "." } else { "\u{ff0e}" })?,
                    None => break,
                }
            }
            f.write_str(if characters.next().is_none_or(|character| character.is_ascii()) {
                "^"
            } else {
                "\u{ff3e}"
            })?;
        }
        if self.total > KEPT {
            write!(f, "\n{} more errors were truncated", self.total - KEPT)?;
        }
        Ok(())
    }
}
