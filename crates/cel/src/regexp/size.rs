//! Size estimates of compiled patterns, without compiling them.
//!
//! A compiled pattern is an automaton over bytes: a character takes a state, a class takes a transition for
//! each byte of each sequence of ranges that encodes its characters, and a repeated part is copied for each
//! repetition.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use regex_syntax::hir::{Class, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// A state that consumes one byte or none.
pub const STATE: u64 = 32;
/// One of several transitions of a state.
const TRANSITION: u64 = 16;
/// A class of a few characters.
pub const CLASS: u64 = 6 * TRANSITION;
/// The complement of a small class: all of Unicode in a few ranges.
pub const ANY: u64 = 60 * TRANSITION;
/// Fixed overhead of a pattern.
pub const PATTERN: u64 = 8 << 10;

/// Size of a literal character, or of all its cases.
pub fn character(character: char, ignores_case: bool) -> u64 {
    let own = STATE * character.len_utf8() as u64;
    if ignores_case { 4 * own } else { own }
}

/// Size of a range of characters in a class.
pub fn range(low: char, high: char, ignores_case: bool) -> u64 {
    if high.is_ascii() {
        return if ignores_case { 4 * TRANSITION } else { TRANSITION };
    }
    // Each letter may have another case outside of the range.
    let folded = if ignores_case { u64::from(u32::from(high) - u32::from(low)).min(3_000) } else { 0 };
    TRANSITION * (transitions(low, high) + folded)
}

fn transitions(low: char, high: char) -> u64 {
    Utf8Sequences::new(low, high).map(|sequence| sequence.len() as u64).sum()
}

/// Maximum number of cached class sizes. There are about as many named classes.
const MAX_CACHED_CLASSES: usize = 512;
static CLASSES: Mutex<Option<HashMap<Box<str>, u64>>> = Mutex::new(None);

/// Returns the size of a class such as `\\p{Greek}`, or `None` if there is no such class.
pub fn class(written: &str) -> Option<u64> {
    let known = |classes: &HashMap<Box<str>, u64>| classes.get(written).copied();
    if let Some(size) = CLASSES.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(known) {
        return Some(size);
    }
    let parsed = regex_syntax::parse(written).ok()?;
    let size = match parsed.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let each = class.ranges().iter().map(|range| transitions(range.start(), range.end()));
            TRANSITION * each.sum::<u64>()
        }
        _ => STATE,
    };
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    let classes = classes.get_or_insert_default();
    if classes.len() < MAX_CACHED_CLASSES {
        classes.insert(written.into(), size);
    }
    Some(size)
}

#[cfg(test)]
mod tests {
    use regex::RegexBuilder;

    use crate::regexp;

    /// Returns the smallest size limit under which the crate compiles the pattern.
    fn actual(pattern: &str) -> u64 {
        let translated = super::super::translate::translate(pattern).unwrap();
        let (mut low, mut high) = (0_usize, 64 << 20);
        while high - low > 256 {
            let middle = usize::midpoint(low, high);
            match RegexBuilder::new(&translated.text).size_limit(middle).build() {
                Ok(_) => high = middle,
                Err(_) => low = middle,
            }
        }
        high as u64
    }

    #[test]
    fn estimates_are_close_to_compiled_sizes() {
        for pattern in [
            r"^(\pL{50}){9}$",
            r"^\pL{100}$",
            r"[^\pL]{100}",
            r"^[\p{Greek}\pN]{200}$",
            r"^.{0,1000}$",
            r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,9}$",
            r"(?i)^[a-zß-ž]{500}$",
            r"(?i)abcdefghijklmnopqrstuvwxyz",
            r"(a|b|c|[^d]){300}",
            r"\w{1000}",
            "(é|漢){500}",
        ] {
            let (estimated, actual) = (regexp::size(pattern).unwrap(), actual(pattern));
            let estimated = estimated - super::PATTERN;
            assert!(estimated * 3 >= actual, "{pattern}: {estimated} is much less than {actual}");
            assert!(
                estimated <= actual * 6 || estimated < 64 << 10,
                "{pattern}: {estimated} is much more than {actual}"
            );
        }
    }

    #[test]
    fn sizes_of_repetitions_multiply_without_overflow() {
        let once = regexp::size("(ab)").unwrap() - super::PATTERN;
        let often = regexp::size("((((ab){10}){10}){10})").unwrap() - super::PATTERN;
        assert!(often > 900 * once && often < 3_000 * once, "{once} {often}");
        assert!(regexp::size(&r"(\pL{1000})".repeat(1_000)).unwrap() > 1 << 30);
    }
}
