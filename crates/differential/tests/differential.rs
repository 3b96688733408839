//! Runs all cases against Atoll and kube-apiserver. Their responses must be equal, except for the cases in
//! `known.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use atoll_differential::compare::Comparator;
use atoll_differential::script::Case;
use atoll_differential::servers::{atoll_client, start_atoll, upstream_client};
use atoll_differential::side::Side;
use atoll_differential::{known, script};
use atoll_testkit::Upstream;

/// Returns the cases by file, sorted by file name.
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
fn case_names_are_unique_and_known_differences_exist() {
    let mut names = BTreeSet::new();
    for (_, cases) in cases() {
        for case in cases {
            assert!(names.insert(case.name.clone()), "two cases have the name {:?}", case.name);
        }
    }
    for name in known_differences().keys() {
        assert!(names.contains(name), "known.txt lists {name:?}, which is not a case");
    }
    assert!(names.len() >= 350, "{} cases are too few", names.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_match_upstream() {
    let Some(real) = Upstream::shared() else { return };
    // kube-apiserver has no controllers either.
    let atoll = start_atoll(&[]);
    let (mut atoll_side, mut upstream_side) =
        (Side::new(atoll_client(&atoll)), Side::new(upstream_client(real)));
    let mut comparator = Comparator::default();
    let known = known_differences();
    let (mut same, mut expected, mut wrong) = (0, 0, Vec::new());
    let only = std::env::var("DIFFERENTIAL_FILE").ok();
    for (file, cases) in cases() {
        // A single file can be selected; each file has a namespace of its own.
        if only.as_ref().is_some_and(|only| *only != file) {
            continue;
        }
        for case in cases {
            let (atoll_response, upstream_response) =
                tokio::join!(atoll_side.run(&case), upstream_side.run(&case));
            let differences = match (atoll_response, upstream_response) {
                (Ok(atoll_response), Ok(upstream_response)) => {
                    comparator.differences(case.comparison, &atoll_response, &upstream_response)
                }
                (atoll_response, upstream_response) => {
                    vec![format!("{atoll_response:?} instead of {upstream_response:?}")]
                }
            };
            match (differences.is_empty(), known.get(&case.name)) {
                (true, None) => same += 1,
                (false, Some(_)) => expected += 1,
                (true, Some(_)) => {
                    wrong.push(format!("{} no longer differs: remove it from known.txt", case.name))
                }
                (false, None) => {
                    wrong.push(format!("{file}: {}\n    {}", case.name, differences.join("\n    ")))
                }
            }
        }
    }
    println!("{same} responses are equal, {expected} differ as listed, {} differ unexpectedly", wrong.len());
    assert!(wrong.is_empty(), "{} unexpected:\n{}", wrong.len(), wrong.join("\n"));
}
