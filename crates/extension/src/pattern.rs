//! Regular expressions in Go's syntax, compiled once and not before they are needed.

use std::fmt;
use std::sync::OnceLock;

use atoll_cel::regexp;
pub use atoll_cel::regexp::PatternError;
use regex::Regex;

/// How large a compiled expression may be; Go has limits of its own that are below this.
const LARGEST: usize = 32 << 20;

/// A regular expression.
pub struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Result<Regex, PatternError>>,
}

impl Pattern {
    pub fn new(source: &str) -> Pattern {
        Pattern { source: source.into(), compiled: OnceLock::new() }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    fn compiled(&self) -> &Result<Regex, PatternError> {
        self.compiled.get_or_init(|| regexp::read(&self.source, LARGEST))
    }

    /// Whether some part of the text matches. What is no regular expression matches nothing.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled().as_ref().is_ok_and(|regex| regex.is_match(text))
    }

    /// Why Go would not take it.
    pub fn fault(&self) -> Option<&PatternError> {
        self.compiled().as_ref().err()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.source).finish()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

#[cfg(test)]
mod tests;
