//! Atoll answers as kube-apiserver does, case by case, but for what `known.txt` lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use atoll_differential::compare::Pairs;
use atoll_differential::script::Case;
use atoll_differential::side::Side;
use atoll_differential::{known, script};
use atoll_testkit::{Atoll, Upstream};

/// Cases by file, in the order of the files' names.
fn cases() -> Vec<(String, Vec<Case>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let entries = std::fs::read_dir(&directory).expect("there are cases");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the directory can be read").path()).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("cases are text");
        let cases = script::parse(&text).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        files.push((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), cases));
    }
    files
}

fn known_differences() -> BTreeMap<String, String> {
    known::parse(include_str!("../known.txt")).unwrap_or_else(|problem| panic!("known.txt: {problem}"))
}

#[test]
fn names_are_unique_and_known_ones_exist() {
    let mut names = BTreeSet::new();
    for (_, cases) in cases() {
        for case in cases {
            assert!(names.insert(case.name.clone()), "{:?} is the name of two cases", case.name);
        }
    }
    for name in known_differences().keys() {
        assert!(names.contains(name), "known.txt names {name:?}, which is no case");
    }
    assert!(names.len() >= 350, "{} cases are too few", names.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn atoll_answers_as_kube_apiserver_does() {
    let Some(real) = Upstream::shared() else { return };
    // Like kube-apiserver, which has its controllers elsewhere.
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let (mut ours, mut theirs) = (Side::new(atoll.client()), Side::new(real.client()));
    let mut pairs = Pairs::default();
    let known = known_differences();
    let (mut same, mut expected, mut wrong) = (0, 0, Vec::new());
    let only = std::env::var("DIFFERENTIAL_FILE").ok();
    for (file, cases) in cases() {
        // One file alone while working on it: each has a namespace of its own.
        if only.as_ref().is_some_and(|only| *only != file) {
            continue;
        }
        for case in cases {
            let (own, their) = tokio::join!(ours.play(&case), theirs.play(&case));
            let differences = match (own, their) {
                (Ok(own), Ok(their)) => pairs.differences(case.comparison, &own, &their),
                (own, their) => vec![format!("{own:?} instead of {their:?}")],
            };
            match (differences.is_empty(), known.get(&case.name)) {
                (true, None) => same += 1,
                (false, Some(_)) => expected += 1,
                (true, Some(_)) => {
                    wrong.push(format!("{} does not differ any more: take it off known.txt", case.name))
                }
                (false, None) => {
                    wrong.push(format!("{file}: {}\n    {}", case.name, differences.join("\n    ")))
                }
            }
        }
    }
    println!("{same} answers are the same, {expected} differ as listed, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{} unexpected:\n{}", wrong.len(), wrong.join("\n"));
}
