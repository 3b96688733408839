//! Locations in an expression, and compile errors.

// upstream: github.com/google/cel-go/common/error.go
// upstream: github.com/google/cel-go/common/errors.go
// upstream: github.com/google/cel-go/common/location.go

use std::fmt;

/// A location: the line starting at 1, the column in characters starting at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Line, starting at 1; -1 for no location.
    pub line: i64,
    /// Column, starting at 0; -1 for no location.
    pub column: i64,
}

impl Location {
    /// The location of errors about the expression as a whole.
    pub const NONE: Location = Location { line: -1, column: -1 };

    /// Returns the location of a byte offset.
    pub fn at(text: &str, offset: usize) -> Location {
        let before = &text[..offset.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() as i64 + 1;
        Location { line, column: before[line_start..].chars().count() as i64 }
    }
}

/// A syntax or type error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Location of the error.
    pub location: Location,
    /// Upstream's message.
    pub message: String,
}

/// All errors of an expression (cel-go's `Issues`). Displayed as the API server does: each with its line and
/// a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    text: String,
    issues: Vec<CompileError>,
    total: usize,
}

/// Maximum number of errors that are kept. Further ones are only counted.
const MAX_ERRORS: usize = 100;
/// Maximum length of a line that is displayed.
const MAX_SNIPPET_LENGTH: usize = 16_384;

impl Issues {
    pub(crate) fn new(text: &str) -> Issues {
        Issues { text: text.to_owned(), issues: Vec::new(), total: 0 }
    }

    pub(crate) fn add(&mut self, location: Location, message: impl Into<String>) {
        self.total += 1;
        if self.total <= MAX_ERRORS {
            self.issues.push(CompileError { location, message: message.into() });
        }
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the errors in the order of their detection.
    pub fn all(&self) -> &[CompileError] {
        &self.issues
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&CompileError> = self.issues.iter().collect();
        sorted.sort_by_key(|issue| issue.location);
        for (count, issue) in sorted.iter().enumerate() {
            let Location { line, column } = issue.location;
            let newline = if count > 0 { "\n" } else { "" };
            write!(f, "{newline}ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            let snippet = usize::try_from(line - 1).ok().and_then(|line| self.text.split('\n').nth(line));
            let Some(snippet) = snippet.filter(|snippet| snippet.len() <= MAX_SNIPPET_LENGTH) else {
                continue;
            };
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
        if self.total > MAX_ERRORS {
            write!(f, "\n{} more errors were truncated", self.total - MAX_ERRORS)?;
        }
        Ok(())
    }
}
