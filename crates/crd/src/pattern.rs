//! Regular expressions in Go's syntax, compiled lazily.

use std::fmt;
use std::sync::{Arc, OnceLock};

pub use atoll_cel::regexp::PatternError;
use atoll_cel::regexp::{self, SHARED};
use regex::Regex;

/// A regular expression.
pub struct Pattern {
    source: Box<str>,
    compiled: Compiled,
    /// Compiled size, computed at the first match.
    size: OnceLock<u64>,
}

/// Texts up to this length are matched with any pattern.
const ALWAYS_MATCHED: usize = 4 << 10;
/// Maximum product of pattern size and text length: in the worst case each byte meets each state, which takes
/// seconds beyond this. A match cannot be interrupted.
const MAX_WORK: u64 = 1 << 36;

/// The product of pattern size and text length that counts as a step of a deadline.
const WORK_PER_STEP: u64 = 128;

/// The storage of the compiled expression.
enum Compiled {
    /// In this pattern, from its first use on.
    Kept(OnceLock<Option<Arc<Regex>>>),
    /// In the shared cache, until it is evicted.
    Shared,
    /// Not compiled: it exceeds the memory limit.
    Never,
}

impl Pattern {
    /// Creates a pattern that stays compiled.
    pub fn new(source: &str) -> Pattern {
        Pattern::with(source, Compiled::Kept(OnceLock::new()))
    }

    /// Creates a large pattern, which is compiled again if it was evicted from the shared cache.
    pub(crate) fn shared(source: &str) -> Pattern {
        Pattern::with(source, Compiled::Shared)
    }

    /// Creates a pattern that is never compiled and matches nothing, because its definition is too large.
    pub(crate) fn refused(source: &str) -> Pattern {
        Pattern::with(source, Compiled::Never)
    }

    fn with(source: &str, compiled: Compiled) -> Pattern {
        Pattern { source: source.into(), compiled, size: OnceLock::new() }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    fn size(&self) -> u64 {
        *self.size.get_or_init(|| regexp::size(&self.source).unwrap_or_default())
    }

    /// Whether matching a text may take too long.
    pub(crate) fn is_too_long(&self, text: &str) -> bool {
        text.len() > ALWAYS_MATCHED && self.size().saturating_mul(text.len() as u64) > MAX_WORK
    }

    /// Steps of a deadline that matching a text counts. A match cannot be interrupted, and large patterns may have to be
    /// compiled first.
    pub(crate) fn steps(&self, text: &str) -> usize {
        let work = self.size().saturating_mul(text.len().max(1) as u64) / WORK_PER_STEP;
        usize::try_from(work).unwrap_or(usize::MAX)
    }

    /// Whether some part of the text matches. An invalid expression matches nothing, and neither does a
    /// pattern for which the text is too long.
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

    /// The reason why Go or this program refuses the pattern. It is not compiled for this.
    pub fn fault(&self) -> Option<PatternError> {
        regexp::check(&self.source)
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
