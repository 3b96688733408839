//! Regular expressions in Go's syntax, compiled once and not before they are needed.

use std::fmt;
use std::sync::{Arc, OnceLock};

pub use atoll_cel::regexp::PatternError;
use atoll_cel::regexp::{self, SHARED};
use regex::Regex;

/// A regular expression.
pub struct Pattern {
    source: Box<str>,
    compiled: Compiled,
    /// What it takes compiled, from its first use with a long text on.
    size: OnceLock<u64>,
}

/// Texts up to here are matched with any pattern.
const SHORT: usize = 4 << 10;
/// In the worst case each byte of a text meets each state of a pattern, which takes seconds from here on. A match cannot be
/// ended before it is done.
const MOST: u64 = 1 << 36;

/// Where the compiled expression is.
enum Compiled {
    /// Here, from its first use on.
    Kept(OnceLock<Option<Arc<Regex>>>),
    /// Among those that everybody shares, for as long as there is room.
    Shared,
    /// Nowhere: there was no room for it.
    Never,
}

impl Pattern {
    /// One that stays compiled.
    pub fn new(source: &str) -> Pattern {
        Pattern::made(source, Compiled::Kept(OnceLock::new()))
    }

    /// One that is compiled again if it was not used for a while: for what is large.
    pub(crate) fn shared(source: &str) -> Pattern {
        Pattern::made(source, Compiled::Shared)
    }

    /// One that is never compiled and matches nothing, for its definition is too large.
    pub(crate) fn refused(source: &str) -> Pattern {
        Pattern::made(source, Compiled::Never)
    }

    fn made(source: &str, compiled: Compiled) -> Pattern {
        Pattern { source: source.into(), compiled, size: OnceLock::new() }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether to match a text may take longer than anyone can wait.
    pub(crate) fn is_too_long(&self, text: &str) -> bool {
        let size = || *self.size.get_or_init(|| regexp::size(&self.source).unwrap_or_default());
        text.len() > SHORT && size().saturating_mul(text.len() as u64) > MOST
    }

    /// Whether some part of the text matches. What is no regular expression matches nothing, and nothing matches a text that is
    /// too long for it.
    pub fn is_match(&self, text: &str) -> bool {
        if self.is_too_long(text) {
            return false;
        }
        let is_match = |regex: &Arc<Regex>| regex.is_match(text);
        match &self.compiled {
            Compiled::Kept(kept) => {
                kept.get_or_init(|| SHARED.get(&self.source).ok()).as_ref().is_some_and(is_match)
            }
            Compiled::Shared => SHARED.get(&self.source).as_ref().is_ok_and(is_match),
            Compiled::Never => false,
        }
    }

    /// Why Go, or this program, would not take it. It is not compiled for this.
    pub fn fault(&self) -> Option<PatternError> {
        regexp::fault(&self.source)
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
