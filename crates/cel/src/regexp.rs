//! Patterns as Go has them, on top of a library with a slightly different language.

mod translate;

use regex::{Regex, RegexBuilder};

pub use translate::PatternError;

use crate::error::Error;

/// The most memory that a compiled pattern may take.
const SIZE: usize = 4 << 20;

/// Compiles a pattern.
///
/// # Errors
///
/// If it is none, in Go's words.
pub fn compile(pattern: &str) -> Result<Regex, Error> {
    compiled(pattern).map_err(|error| Error::new(error.to_string()))
}

fn compiled(pattern: &str) -> Result<Regex, PatternError> {
    let translated = translate::translate(pattern)?;
    let built = RegexBuilder::new(&translated).size_limit(SIZE).dfa_size_limit(SIZE).build();
    built.map_err(|_| PatternError::too_large(pattern))
}

#[cfg(test)]
mod tests {
    use super::compile;

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
        ] {
            assert_eq!(compile(pattern).map(|it| it.is_match(text)), Ok(matches), "{pattern} {text}");
        }
        for wrong in ["(", "[a", r"\1", "a{1001}", "*", r"\Z"] {
            assert!(compile(wrong).is_err(), "{wrong}");
        }
    }
}
