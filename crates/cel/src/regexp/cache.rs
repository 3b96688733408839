//! A shared cache of compiled patterns. The least recently used ones are evicted when the total size exceeds
//! the capacity.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::Regex;

use super::translate::PatternError;

/// Maximum total size.
const CAPACITY: u64 = 64 << 20;

/// The cache of this process.
pub static SHARED: LazyLock<Patterns> = LazyLock::new(|| Patterns::new(CAPACITY));

/// Compiled patterns by their source.
pub struct Patterns {
    state: Mutex<CacheState>,
    capacity: u64,
}

#[derive(Default)]
struct CacheState {
    patterns: HashMap<Box<str>, CachedPattern>,
    /// Total size of the cached patterns.
    size: u64,
    /// Logical time of the last use.
    time: u64,
}

struct CachedPattern {
    regex: Arc<Regex>,
    size: u64,
    used: u64,
}

impl Patterns {
    pub fn new(capacity: u64) -> Patterns {
        Patterns { state: Mutex::default(), capacity }
    }

    /// Returns the compiled pattern. It is compiled outside the lock; concurrent compilations of the same
    /// pattern are harmless.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is invalid or too large.
    pub fn get(&self, pattern: &str) -> Result<Arc<Regex>, PatternError> {
        if let Some(patterns) = self.state().find(pattern) {
            return Ok(patterns);
        }
        let (regex, size) = super::build(pattern)?;
        let regex = Arc::new(regex);
        self.state().insert(pattern, regex.clone(), size, self.capacity);
        Ok(regex)
    }

    /// Estimates the total size of the cached patterns.
    pub fn size(&self) -> u64 {
        self.state().size
    }

    fn state(&self) -> std::sync::MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn find(&mut self, pattern: &str) -> Option<Arc<Regex>> {
        self.time += 1;
        let patterns = self.patterns.get_mut(pattern)?;
        patterns.used = self.time;
        Some(patterns.regex.clone())
    }

    fn insert(&mut self, pattern: &str, regex: Arc<Regex>, size: u64, capacity: u64) {
        if self.size + size > capacity {
            self.shrink(capacity / 2);
        }
        let patterns = CachedPattern { regex, size, used: self.time };
        self.size += size;
        if let Some(before) = self.patterns.insert(pattern.into(), patterns) {
            self.size -= before.size;
        }
    }

    /// Evicts the least recently used patterns until the total size is at most `size`.
    fn shrink(&mut self, size: u64) {
        let mut used: Vec<(u64, u64)> =
            self.patterns.values().map(|patterns| (patterns.used, patterns.size)).collect();
        used.sort_unstable();
        let mut oldest = 0;
        for (used, freed) in used {
            if self.size <= size {
                break;
            }
            self.size -= freed;
            oldest = used;
        }
        self.patterns.retain(|_, patterns| patterns.used > oldest);
        self.size = self.patterns.values().map(|patterns| patterns.size).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_patterns_are_evicted() {
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
