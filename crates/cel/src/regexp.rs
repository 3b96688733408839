//! Go's regular expressions on top of the `regex` crate, whose syntax differs slightly.
//!
//! ```text
//! translate   converts Go's syntax to that of the crate, with an estimate (size) of the compiled size
//! cache       recently compiled patterns, bounded, shared by all definitions and expressions
//! ```

// Go standard library: src/regexp/regexp.go

mod cache;
mod size;
mod translate;

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

pub use cache::{Patterns, SHARED};
pub use translate::PatternError;

use crate::error::Error;

/// Maximum memory of a compiled pattern: more than two hundred repetitions of `\pL`.
pub const MAX_COMPILED_SIZE: u64 = 10 << 20;
/// Limit of the crate, which counts exactly. It is larger than the limit for estimates, so that a pattern
/// that passed the estimate never fails.
const HARD_LIMIT: usize = 3 * (10 << 20);

/// Estimates the memory in bytes of a compiled pattern, without compiling it.
///
/// # Errors
///
/// Returns Go's error about an invalid pattern. A pattern that is too large is invalid.
pub fn size(pattern: &str) -> Result<u64, PatternError> {
    Ok(translate::translate(pattern)?.size.saturating_add(size::PATTERN))
}

/// Returns the reason why a pattern cannot be compiled, without compiling it.
pub fn check(pattern: &str) -> Option<PatternError> {
    match size(pattern) {
        Ok(size) if size > MAX_COMPILED_SIZE => Some(PatternError::too_large(pattern)),
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

/// Returns a compiled pattern, from the cache if possible.
///
/// # Errors
///
/// Returns Go's error about an invalid pattern.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, Error> {
    SHARED.get(pattern).map_err(|error| Error::new(error.to_string()))
}

/// Compiles a pattern.
fn build(pattern: &str) -> Result<(Regex, u64), PatternError> {
    let translated = translate::translate(pattern)?;
    let size = translated.size.saturating_add(size::PATTERN);
    if size > MAX_COMPILED_SIZE {
        return Err(PatternError::too_large(pattern));
    }
    match RegexBuilder::new(&translated.text).size_limit(HARD_LIMIT).build() {
        Ok(regex) => Ok((regex, size)),
        Err(_) => Err(PatternError::too_large(pattern)),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, compile};

    #[test]
    fn patterns_match_as_in_go() {
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
            assert_eq!(check(pattern), None, "{pattern}");
        }
        for wrong in ["(", "[a", r"\1", "a{1001}", "*", r"\Z", r"\p{Nothing}"] {
            assert!(compile(wrong).is_err() && check(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn too_large_patterns_are_rejected_without_compiling() {
        let pattern = r"^(\pL{50}){9}$".repeat(1_000);
        let fault = check(&pattern).unwrap().to_string();
        assert!(fault.starts_with("error parsing regexp: expression too large: `^("), "{fault}");
        assert!(compile(&pattern).is_err());
    }
}
