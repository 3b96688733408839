//! Compiled patterns, each once for all who have it. What was not used for longest goes when they take too much.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::Regex;

use super::translate::PatternError;

/// What all patterns may take together.
const CAPACITY: u64 = 64 << 20;

/// For everybody in this process.
pub static SHARED: LazyLock<Patterns> = LazyLock::new(|| Patterns::new(CAPACITY));

/// Compiled patterns by their text.
pub struct Patterns {
    state: Mutex<State>,
    capacity: u64,
}

#[derive(Default)]
struct State {
    known: HashMap<Box<str>, Known>,
    /// What all that are known take.
    size: u64,
    /// Counts uses.
    time: u64,
}

struct Known {
    regex: Arc<Regex>,
    size: u64,
    used: u64,
}

impl Patterns {
    pub fn new(capacity: u64) -> Patterns {
        Patterns { state: Mutex::default(), capacity }
    }

    /// The compiled pattern. It is compiled outside the lock: if two do so at once, both are good.
    ///
    /// # Errors
    ///
    /// If it is none, or too large.
    pub fn get(&self, pattern: &str) -> Result<Arc<Regex>, PatternError> {
        if let Some(known) = self.state().find(pattern) {
            return Ok(known);
        }
        let (regex, size) = super::build(pattern)?;
        let regex = Arc::new(regex);
        self.state().insert(pattern, regex.clone(), size, self.capacity);
        Ok(regex)
    }

    /// What all that are kept take, estimated.
    pub fn size(&self) -> u64 {
        self.state().size
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&mut self, pattern: &str) -> Option<Arc<Regex>> {
        self.time += 1;
        let known = self.known.get_mut(pattern)?;
        known.used = self.time;
        Some(known.regex.clone())
    }

    fn insert(&mut self, pattern: &str, regex: Arc<Regex>, size: u64, capacity: u64) {
        if self.size + size > capacity {
            self.shrink(capacity / 2);
        }
        let known = Known { regex, size, used: self.time };
        self.size += size;
        if let Some(before) = self.known.insert(pattern.into(), known) {
            self.size -= before.size;
        }
    }

    /// Forgets what was not used for longest until all else takes at most so much.
    fn shrink(&mut self, size: u64) {
        let mut used: Vec<(u64, u64)> = self.known.values().map(|known| (known.used, known.size)).collect();
        used.sort_unstable();
        let mut oldest = 0;
        for (used, freed) in used {
            if self.size <= size {
                break;
            }
            self.size -= freed;
            oldest = used;
        }
        self.known.retain(|_, known| known.used > oldest);
        self.size = self.known.values().map(|known| known.size).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let one = crate::regexp::size("^0$").unwrap();
        let patterns = Patterns::new(20 * one);
        let first = patterns.get("^0$").unwrap();
        for number in 1..100 {
            assert!(patterns.get(&format!("^{number}$")).unwrap().is_match(&number.to_string()));
            let again = patterns.get("^0$").unwrap();
            assert!(Arc::ptr_eq(&first, &again), "it was used a moment ago");
            assert!(patterns.size() <= 20 * one + one, "{} are kept", patterns.size());
        }
        assert!(patterns.get("(").is_err());
    }
}
