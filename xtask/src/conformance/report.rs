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
    fn passed(&self) -> bool {
        self.state == "passed"
    }
}

/// What one run of e2e.test did.
pub struct Report {
    /// Without those that nobody asked for.
    outcomes: Vec<Outcome>,
    /// How many were asked for.
    wanted: u64,
}

impl Report {
    /// Whether all were tried and passed.
    pub fn complete(&self) -> bool {
        self.outcomes.len() as u64 >= self.wanted && self.outcomes.iter().all(Outcome::passed)
    }
}

/// A report of Ginkgo's.
pub fn read(text: &str) -> Result<Report, String> {
    let suites: Value = serde_json::from_str(text).map_err(|error| format!("the report: {error}"))?;
    let suites = suites.as_array().into_iter().flatten();
    let wanted = suites.clone().filter_map(|suite| suite["PreRunStats"]["SpecsThatWillRun"].as_u64()).sum();
    let specs = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    let outcomes: Vec<Outcome> = specs.filter_map(outcome).collect();
    if outcomes.is_empty() { Err("no test was tried".to_owned()) } else { Ok(Report { outcomes, wanted }) }
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

/// Of several runs at once. A test that was tried more than once counts once, and passed only if it always did.
pub fn together(reports: Vec<Report>) -> Report {
    let mut whole = Report { outcomes: Vec::new(), wanted: 0 };
    for report in reports {
        whole.outcomes.extend(report.outcomes);
        whole.wanted += report.wanted;
    }
    let tried = whole.outcomes.len();
    whole.outcomes.sort_by(|a, b| (&a.name, a.passed()).cmp(&(&b.name, b.passed())));
    whole.outcomes.dedup_by(|later, first| later.name == first.name);
    whole.wanted = whole.wanted.saturating_sub((tried - whole.outcomes.len()) as u64);
    whole
}

/// Counts, then each that did not pass with the reason.
pub fn summary(report: &Report) -> String {
    /// As much of a reason as fits into a few lines.
    const LONG: usize = 400;
    let failed: Vec<&Outcome> = report.outcomes.iter().filter(|outcome| !outcome.passed()).collect();
    let (tried, wanted) = (report.outcomes.len(), report.wanted);
    let mut text = format!(
        "{wanted} tests: {} passed, {} failed, {} not run for lack of time\n",
        tried - failed.len(),
        failed.len(),
        wanted.saturating_sub(tried as u64)
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
        let text = r#"[{"PreRunStats": {"SpecsThatWillRun": 3}, "SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"LeafNodeType": "It", "State": "passed", "ContainerHierarchyTexts": ["[sig-a]", "Things"], "LeafNodeText": "work"},
            {"LeafNodeType": "It", "State": "skipped", "ContainerHierarchyTexts": ["[sig-a]"], "LeafNodeText": "others"},
            {"LeafNodeType": "It", "State": "failed", "ContainerHierarchyTexts": ["[sig-b]"], "LeafNodeText": "break",
             "Failure": {"Message": "expected\n  this"}}
        ]}]"#;
        let report = together(vec![read(text).unwrap(), read(text).unwrap()]);
        let expected = "4 tests: 1 passed, 1 failed, 2 not run for lack of time\nfailed: [sig-b] break\n    expected this\n";
        assert_eq!(summary(&report), expected);
    }

    #[test]
    fn a_run_without_tests_is_no_success() {
        assert!(read(r#"[{"SpecReports": null}]"#).is_err());
    }
}
