//! Object counts for each prefix that can be listed, so that a page of a list can report the remaining count
//! without iterating.

use std::collections::HashMap;
use std::sync::Arc;

use imbl::OrdMap;

/// Counts by `group/resource/`, `group/resource/workspace/` and, for namespaced objects,
/// `group/resource/workspace/namespace/`. Clones share everything but their differences.
#[derive(Clone, Default)]
pub(crate) struct Counts(OrdMap<Arc<str>, usize>);

impl Counts {
    /// The number of objects whose keys begin with `prefix`, which ends in a slash.
    pub fn of(&self, prefix: &str) -> usize {
        // The namespace of cluster-scoped objects is empty: they are counted under their workspace.
        let prefix = if prefix.ends_with("//") { &prefix[..prefix.len() - 1] } else { prefix };
        self.0.get(prefix).copied().unwrap_or(0)
    }

    pub fn add(&mut self, key: &str) {
        prefixes(key).for_each(|prefix| self.raise(prefix, 1));
    }

    /// Adds many keys; cheaper than one by one, because most share their prefixes.
    pub fn add_all<'a>(&mut self, keys: impl Iterator<Item = &'a str>) {
        let mut sums: HashMap<&str, usize> = HashMap::new();
        keys.flat_map(prefixes).for_each(|prefix| *sums.entry(prefix).or_default() += 1);
        sums.into_iter().for_each(|(prefix, count)| self.raise(prefix, count));
    }

    fn raise(&mut self, prefix: &str, by: usize) {
        match self.0.get_mut(prefix) {
            Some(count) => *count += by,
            None => drop(self.0.insert(prefix.into(), by)),
        }
    }

    pub fn subtract(&mut self, key: &str) {
        for prefix in prefixes(key) {
            match self.0.get_mut(prefix) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.0.remove(prefix)),
            }
        }
    }
}

fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    let slashes = key.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(position, _)| position);
    let prefixes = slashes.skip(1).take(3).map(|position| &key[..=position]);
    prefixes.filter(|prefix| !prefix.ends_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_has_a_count() {
        let mut counts = Counts::default();
        let keys =
            ["core/pods/w/n/a", "core/pods/w/n/b", "core/pods/w/m/a", "core/pods/v/n/a/b", "core/nodes/w//a"];
        keys.iter().for_each(|key| counts.add(key));
        let seen = |counts: &Counts| {
            let prefixes = [
                "core/pods/",
                "core/pods/w/",
                "core/pods/w/n/",
                "core/pods/v/n/",
                "core/nodes/w//",
                "core/nodes/",
            ];
            prefixes.map(|prefix| counts.of(prefix))
        };
        assert_eq!(seen(&counts), [4, 3, 2, 1, 1, 1]);
        let mut together = Counts::default();
        keys.chunks(2).for_each(|some| together.add_all(some.iter().copied()));
        assert_eq!(together.0, counts.0);
        let before = counts.clone();
        counts.subtract("core/pods/w/n/a");
        counts.subtract("core/nodes/w//a");
        assert_eq!(seen(&counts), [3, 2, 1, 1, 0, 0]);
        assert_eq!(seen(&before), [4, 3, 2, 1, 1, 1], "a snapshot never changes");
        keys.iter().for_each(|key| counts.subtract(key));
        assert!(counts.0.is_empty(), "empty prefixes use no memory");
    }
}
