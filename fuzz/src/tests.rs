//! Every seed holds, every target is reached, and there is nothing that belongs to no target.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names of what is in a directory, without what comes after a dot.
fn listed(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect()
}

#[test]
fn targets_stand_in_order() {
    assert!(TARGETS.is_sorted_by(|one, next| one.name < next.name));
    assert!(Target::named("json").is_some() && Target::named("jso").is_none());
}

#[test]
fn seeds_and_dictionaries_belong_to_targets() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(listed(&directory("seeds")), targets, "every target has seeds, and nothing else has");
    let astray: Vec<String> = listed(&directory("dictionaries")).difference(&targets).cloned().collect();
    assert!(astray.is_empty(), "dictionaries of no target: {astray:?}");
}

#[test]
fn every_seed_holds_and_some_are_accepted() {
    for target in TARGETS {
        let seeds = directory("seeds").join(target.name);
        let mut accepted = Vec::new();
        for entry in fs::read_dir(&seeds).expect("a directory of seeds") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            let bytes = fs::read(&path).expect("a seed");
            // Half of it is an input, too.
            (target.run)(&bytes[..bytes.len() / 2]);
            accepted.extend((target.run)(&bytes));
        }
        assert!(!accepted.is_empty(), "{} accepts none of its seeds: nothing is asked of it", target.name);
    }
}

#[test]
fn odd_inputs_hold() {
    let deep = "[".repeat(20_000);
    let inputs = [&b""[..], b"\0", b"\xff\xfe", b"\n\n\n", b"{}", b"null", deep.as_bytes(), &[0xff; 300]];
    for target in TARGETS {
        for input in inputs {
            (target.run)(input);
        }
    }
}
