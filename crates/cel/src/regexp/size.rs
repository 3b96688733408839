//! How large a pattern is when it is compiled, estimated before anything is compiled.
//!
//! A compiled pattern is an automaton over bytes: a character takes a state, a class takes a transition for each byte of each
//! sequence of ranges that its characters are encoded as, and what is repeated is there once for each repetition.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use regex_syntax::hir::{Class, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// One state that looks at one byte or at none.
pub const STATE: u64 = 32;
/// One transition of a state that has many.
const TRANSITION: u64 = 16;
/// A class of a few characters.
pub const CLASS: u64 = 6 * TRANSITION;
/// A class that is the complement of a small one: all of Unicode in a few ranges.
pub const ANY: u64 = 60 * TRANSITION;
/// What compiling any pattern at all takes.
pub const PATTERN: u64 = 8 << 10;

/// A character that stands for itself, or for all of its cases.
pub fn character(character: char, ignores_case: bool) -> u64 {
    let own = STATE * character.len_utf8() as u64;
    if ignores_case { 4 * own } else { own }
}

/// A range of characters in a class.
pub fn range(low: char, high: char, ignores_case: bool) -> u64 {
    if high.is_ascii() {
        return if ignores_case { 4 * TRANSITION } else { TRANSITION };
    }
    // Each letter may have another case elsewhere.
    let folded = if ignores_case { u64::from(u32::from(high) - u32::from(low)).min(3_000) } else { 0 };
    TRANSITION * (transitions(low, high) + folded)
}

fn transitions(low: char, high: char) -> u64 {
    Utf8Sequences::new(low, high).map(|sequence| sequence.len() as u64).sum()
}

/// As many classes are remembered; there are about as many that have a name.
const REMEMBERED: usize = 512;
static CLASSES: Mutex<Option<HashMap<Box<str>, u64>>> = Mutex::new(None);

/// The class that is written like this, as `\\p{Greek}`. `None` if there is no such class.
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
    if classes.len() < REMEMBERED {
        classes.insert(written.into(), size);
    }
    Some(size)
}

#[cfg(test)]
mod tests {
    use regex::RegexBuilder;

    use crate::regexp;

    /// What the library says that a pattern takes: the least limit under which it compiles.
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
    fn estimates_are_near_what_is_compiled() {
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
