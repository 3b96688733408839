//! Patterns as Go has them, on top of a library with a slightly different language.

mod translate;

use std::cell::RefCell;

use regex::{Regex, RegexBuilder};

pub use translate::PatternError;

use crate::error::Error;

/// The most memory that a compiled pattern may take: four hundred letters of any language, one after the other.
const SIZE: usize = 10 << 20;

/// Compiles a pattern.
///
/// # Errors
///
/// If it is none, in Go's words.
pub fn compile(pattern: &str) -> Result<Regex, Error> {
    read(pattern, SIZE).map_err(|error| Error::new(error.to_string()))
}

/// How many patterns that came from values are remembered.
const REMEMBERED: usize = 4;

thread_local! {
    /// Patterns that were compiled last, and what became of them.
    static RECENT: RefCell<Vec<(String, Result<Regex, Error>)>> = const { RefCell::new(Vec::new()) };
}

/// The same for a pattern that comes from a value: in a loop it is often the same one.
///
/// # Errors
///
/// If it is none, in Go's words.
pub fn recent(pattern: &str) -> Result<Regex, Error> {
    RECENT.with_borrow_mut(|recent| {
        if let Some((_, known)) = recent.iter().find(|(known, _)| known == pattern) {
            return known.clone();
        }
        let compiled = compile(pattern);
        if recent.len() == REMEMBERED {
            drop(recent.remove(0));
        }
        recent.push((pattern.to_owned(), compiled.clone()));
        compiled
    })
}

/// Compiles a pattern that may take so much memory.
///
/// # Errors
///
/// If it is none, or too large.
pub fn read(pattern: &str, most: usize) -> Result<Regex, PatternError> {
    let translated = translate::translate(pattern)?;
    let built = RegexBuilder::new(&translated).size_limit(most).build();
    built.map_err(|_| PatternError::too_large(pattern))
}

#[cfg(test)]
mod tests {
    use super::{REMEMBERED, compile, recent};

    #[test]
    fn recent_patterns_are_remembered_and_forgotten() {
        for round in 0..3 {
            for number in 0..=REMEMBERED {
                let pattern = format!("^{number}$");
                assert_eq!(recent(&pattern).map(|it| it.is_match(&number.to_string())), Ok(true), "{round}");
                assert_eq!(recent(&pattern).map(|it| it.is_match("x")), Ok(false), "{round}");
            }
            assert!(recent("(").is_err() && recent("(").is_err());
        }
    }

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
        }
        for wrong in ["(", "[a", r"\1", "a{1001}", "*", r"\Z"] {
            assert!(compile(wrong).is_err(), "{wrong}");
        }
    }
}
