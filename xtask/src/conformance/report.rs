//! What e2e.test says of its tests.

use std::fmt::Write;

use serde_json::Value;

/// Of one test that was tried.
pub struct Outcome {
    name: String,
    state: String,
    /// Why it failed.
    problem: String,
}

impl Outcome {
    pub fn passed(&self) -> bool {
        self.state == "passed"
    }
}

/// The outcomes in a report of Ginkgo's, without the tests that nobody asked for.
pub fn read(text: &str) -> Result<Vec<Outcome>, String> {
    let suites: Value = serde_json::from_str(text).map_err(|error| format!("the report: {error}"))?;
    let specs = suites.as_array().into_iter().flatten();
    let specs = specs.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    let outcomes: Vec<Outcome> = specs.filter_map(outcome).collect();
    if outcomes.is_empty() { Err("no test was tried".to_owned()) } else { Ok(outcomes) }
}

fn outcome(spec: &Value) -> Option<Outcome> {
    let state = spec["State"].as_str().unwrap_or_default();
    let test = spec["LeafNodeType"] == "It";
    // What prepares the suite is told of only if it fails.
    if matches!(state, "skipped" | "pending" | "") || (!test && state == "passed") {
        return None;
    }
    let texts = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let mut name: Vec<&str> = texts.filter_map(Value::as_str).collect();
    name.push(spec["LeafNodeText"].as_str().filter(|text| !text.is_empty()).unwrap_or("preparation"));
    let problem = spec["Failure"]["Message"].as_str().unwrap_or_default();
    let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Outcome { name: name.join(" "), state: state.to_owned(), problem })
}

/// A test that was tried more than once counts once, and passed only if it always did.
pub fn without_repetitions(outcomes: &mut Vec<Outcome>) {
    outcomes.sort_by(|a, b| (&a.name, a.passed()).cmp(&(&b.name, b.passed())));
    outcomes.dedup_by(|later, first| later.name == first.name);
}

/// Counts, then each that did not pass with the reason.
pub fn summary(outcomes: &[Outcome]) -> String {
    /// As much of a reason as fits into a few lines.
    const LONG: usize = 400;
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed()).collect();
    let mut text = format!(
        "{} tests: {} passed, {} failed\n",
        outcomes.len(),
        outcomes.len() - failed.len(),
        failed.len()
    );
    for outcome in failed {
        let problem: String = outcome.problem.chars().take(LONG).collect();
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {}\n    {problem}", outcome.state, outcome.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_were_tried_count() {
        let text = r#"[{"SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"LeafNodeType": "It", "State": "passed", "ContainerHierarchyTexts": ["[sig-a]", "Things"], "LeafNodeText": "work"},
            {"LeafNodeType": "It", "State": "skipped", "ContainerHierarchyTexts": ["[sig-a]"], "LeafNodeText": "others"},
            {"LeafNodeType": "It", "State": "failed", "ContainerHierarchyTexts": ["[sig-b]"], "LeafNodeText": "break",
             "Failure": {"Message": "expected\n  this"}}
        ]}]"#;
        let mut outcomes = read(text).unwrap();
        outcomes.extend(read(text).unwrap());
        without_repetitions(&mut outcomes);
        let expected = "2 tests: 1 passed, 1 failed\nfailed: [sig-b] break\n    expected this\n";
        assert_eq!(summary(&outcomes), expected);
    }

    #[test]
    fn a_run_without_tests_is_no_success() {
        assert!(read(r#"[{"SpecReports": null}]"#).is_err());
    }
}
