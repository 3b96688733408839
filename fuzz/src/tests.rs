//! Runs all targets over all seeds, and checks that every target has seeds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the names of the files in a directory, without extensions.
fn listed(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect()
}

#[test]
fn targets_are_sorted() {
    assert!(TARGETS.is_sorted_by(|one, next| one.name < next.name));
    assert!(Target::named("json").is_some() && Target::named("jso").is_none());
}

#[test]
fn seeds_and_dictionaries_belong_to_targets() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(listed(&directory("seeds")), targets, "seeds without a target, or a target without seeds");
    let extra: Vec<String> = listed(&directory("dictionaries")).difference(&targets).cloned().collect();
    assert!(extra.is_empty(), "dictionaries without a target: {extra:?}");
}

#[test]
fn seeds_pass_and_some_are_accepted() {
    for target in TARGETS {
        let seeds = directory("seeds").join(target.name);
        let mut accepted = Vec::new();
        for entry in fs::read_dir(&seeds).expect("a directory of seeds") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            let bytes = fs::read(&path).expect("a seed");
            // A truncated seed must not panic either.
            (target.run)(&bytes[..bytes.len() / 2]);
            accepted.extend((target.run)(&bytes));
        }
        assert!(!accepted.is_empty(), "{} rejects all of its seeds", target.name);
    }
}

#[test]
fn unusual_inputs_pass() {
    let deep = "[".repeat(20_000);
    let inputs = [&b""[..], b"\0", b"\xff\xfe", b"\n\n\n", b"{}", b"null", deep.as_bytes(), &[0xff; 300]];
    for target in TARGETS {
        for input in inputs {
            (target.run)(input);
        }
    }
}

/// Number of changed inputs per seed in every test run; `ATOLL_FUZZ_ROUNDS` overrides it.
const ROUNDS: u64 = 40;

#[test]
fn changed_seeds_pass() {
    let number = |name: &str, usual: u64| {
        let given = std::env::var(name).ok();
        given.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
    };
    let (rounds, seed) = (number("ATOLL_FUZZ_ROUNDS", ROUNDS), number("ATOLL_SEED", 1));
    for target in TARGETS {
        let mut paths: Vec<PathBuf> = fs::read_dir(directory("seeds").join(target.name))
            .expect("a directory of seeds")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort_unstable();
        let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a seed")).collect();
        let mut random = Random(seed);
        for bytes in &seeds {
            for _ in 0..rounds {
                let changed = random.change(bytes, &seeds);
                let held = std::panic::catch_unwind(|| (target.run)(&changed));
                assert!(held.is_ok(), "{} fails for {:?}", target.name, String::from_utf8_lossy(&changed));
            }
        }
    }
}

/// A pseudorandom generator (linear congruential).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Returns `bytes` with a few changes that typically break parsers.
    fn change(&mut self, bytes: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        const ODD: &[u8] = b"\0\x01\x7f\x80\xff09-+.,:;/\\\"'[]{}()<>*?=%&$#@ \n\taZ";
        let mut changed = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(changed.len() + 1);
            let end = (at + 1 + self.below(8)).min(changed.len()).max(at);
            match self.below(7) {
                0 if at < changed.len() => changed[at] ^= 1 << self.below(8),
                1 if at < changed.len() => changed[at] = ODD[self.below(ODD.len())],
                2 => changed.insert(at, ODD[self.below(ODD.len())]),
                3 => drop(changed.drain(at..end)),
                4 => {
                    let piece = changed[at..end].repeat(1 + self.below(40));
                    changed.splice(at..at, piece);
                }
                5 => changed.truncate(at),
                _ => {
                    let other = &others[self.below(others.len())];
                    let from = self.below(other.len() + 1);
                    changed.splice(at..end, other[from..(from + 20).min(other.len())].iter().copied());
                }
            }
        }
        changed
    }
}
