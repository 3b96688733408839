//! Patterns as Go has them, on top of a library with a slightly different language.
//!
//! ```text
//! translate   from Go's syntax to the library's, with an estimate (size) of what compiling would take
//! cache       the patterns that were compiled last, within a bound, for all definitions and expressions
//! ```

mod cache;
mod size;
mod translate;

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

pub use cache::{Patterns, SHARED};
pub use translate::PatternError;

use crate::error::Error;

/// The most memory that a compiled pattern may take: more than two hundred letters of any language, one after the other.
pub const LARGEST: u64 = 10 << 20;
/// The library counts exactly where we estimate; what is estimated to fit shall not fail.
const HARD_LIMIT: usize = 3 * (10 << 20);

/// What a pattern takes when it is compiled, in bytes, estimated. Nothing is compiled for it.
///
/// # Errors
///
/// If it is no pattern, in Go's words. One that is too large to be compiled is none.
pub fn size(pattern: &str) -> Result<u64, PatternError> {
    Ok(translate::translate(pattern)?.size.saturating_add(size::PATTERN))
}

/// Why a pattern cannot be compiled, without compiling it.
pub fn fault(pattern: &str) -> Option<PatternError> {
    match size(pattern) {
        Ok(size) if size > LARGEST => Some(PatternError::too_large(pattern)),
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

/// A compiled pattern: one that was compiled before, or a new one.
///
/// # Errors
///
/// If it is none, in Go's words.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, Error> {
    SHARED.get(pattern).map_err(|error| Error::new(error.to_string()))
}

/// Compiles a pattern.
fn build(pattern: &str) -> Result<(Regex, u64), PatternError> {
    let translated = translate::translate(pattern)?;
    let size = translated.size.saturating_add(size::PATTERN);
    if size > LARGEST {
        return Err(PatternError::too_large(pattern));
    }
    match RegexBuilder::new(&translated.text).size_limit(HARD_LIMIT).build() {
        Ok(regex) => Ok((regex, size)),
        Err(_) => Err(PatternError::too_large(pattern)),
    }
}

#[cfg(test)]
mod tests {
    use super::{compile, fault};

    #[test]
    fn patterns_mean_what_they_mean_to_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w-]+$", "a_b-c", true),
            (r"^[a&&b]$", "&", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[a]$", "[", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"a{2}", "aa", true),
            (r"a{,2}", "a{,2}", true),
            (r"^a{2,3}$", "aaaa", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"\bfoo\b", "a foo b", true),
            ("}", "}", true),
            ("^ab(?i)+C$", "abbc", true),
        ] {
            assert_eq!(compile(pattern).map(|it| it.is_match(text)), Ok(matches), "{pattern} {text}");
            assert_eq!(fault(pattern), None, "{pattern}");
        }
        for wrong in ["(", "[a", r"\1", "a{1001}", "*", r"\Z", r"\p{Nothing}"] {
            assert!(compile(wrong).is_err() && fault(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn what_is_too_large_is_refused_without_compiling_it() {
        let pattern = r"^(\pL{50}){9}$".repeat(1_000);
        let fault = fault(&pattern).unwrap().to_string();
        assert!(fault.starts_with("error parsing regexp: expression too large: `^("), "{fault}");
        assert!(compile(&pattern).is_err());
    }
}
