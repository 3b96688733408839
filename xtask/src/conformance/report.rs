//! Parses the reports of e2e.test.

use std::fmt::Write;

use serde_json::Value;

/// Result of one test that was run.
pub struct TestResult {
    name: String,
    state: String,
    /// Reason of the failure.
    reason: String,
}

impl TestResult {
    fn passed(&self) -> bool {
        self.state == "passed"
    }
}

/// Results of one run of e2e.test.
pub struct ConformanceReport {
    /// Results of the tests that ran. Skipped tests are left out.
    results: Vec<TestResult>,
    /// Number of selected tests.
    selected: u64,
}

impl ConformanceReport {
    /// Whether all selected tests ran and passed.
    pub fn all_passed(&self) -> bool {
        self.results.len() as u64 >= self.selected && self.results.iter().all(TestResult::passed)
    }
}

/// Parses Ginkgo's JSON report.
pub fn parse(text: &str) -> Result<ConformanceReport, String> {
    let suites: Value =
        serde_json::from_str(text).map_err(|error| format!("cannot parse the report: {error}"))?;
    let suites = suites.as_array().into_iter().flatten();
    let selected = suites.clone().filter_map(|suite| suite["PreRunStats"]["SpecsThatWillRun"].as_u64()).sum();
    let specs = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    let results: Vec<TestResult> = specs.filter_map(test_result).collect();
    if results.is_empty() {
        Err("no test was run".to_owned())
    } else {
        Ok(ConformanceReport { results, selected })
    }
}

fn test_result(spec: &Value) -> Option<TestResult> {
    let state = spec["State"].as_str().unwrap_or_default();
    let test = spec["LeafNodeType"] == "It";
    // Setup steps of the suite are listed only if they fail.
    if matches!(state, "skipped" | "pending" | "") || (!test && state == "passed") {
        return None;
    }
    let texts = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let mut name: Vec<&str> = texts.filter_map(Value::as_str).collect();
    name.push(spec["LeafNodeText"].as_str().filter(|text| !text.is_empty()).unwrap_or("suite setup"));
    let reason = spec["Failure"]["Message"].as_str().unwrap_or_default();
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(TestResult { name: name.join(" "), state: state.to_owned(), reason })
}

/// Merges the reports of several runs. A test that ran more than once counts once, and passed only if all
/// runs passed.
pub fn merge(reports: Vec<ConformanceReport>) -> ConformanceReport {
    let mut merged = ConformanceReport { results: Vec::new(), selected: 0 };
    for report in reports {
        merged.results.extend(report.results);
        merged.selected += report.selected;
    }
    let ran = merged.results.len();
    merged.results.sort_by(|a, b| (&a.name, a.passed()).cmp(&(&b.name, b.passed())));
    merged.results.dedup_by(|later, first| later.name == first.name);
    merged.selected = merged.selected.saturating_sub((ran - merged.results.len()) as u64);
    merged
}

/// Returns the counts, then each failed test with its reason.
pub fn summary(report: &ConformanceReport) -> String {
    /// Maximum length of a reason in characters.
    const REASON_LENGTH: usize = 400;
    let failed: Vec<&TestResult> = report.results.iter().filter(|result| !result.passed()).collect();
    let (ran, selected) = (report.results.len(), report.selected);
    let mut text = format!(
        "{selected} tests: {} passed, {} failed, {} not run because of the timeout\n",
        ran - failed.len(),
        failed.len(),
        selected.saturating_sub(ran as u64)
    );
    for result in failed {
        let reason: String = result.reason.chars().take(REASON_LENGTH).collect();
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {}\n    {reason}", result.state, result.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_ran_count() {
        let text = r#"[{"PreRunStats": {"SpecsThatWillRun": 3}, "SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"LeafNodeType": "It", "State": "passed", "ContainerHierarchyTexts": ["[sig-a]", "Things"], "LeafNodeText": "work"},
            {"LeafNodeType": "It", "State": "skipped", "ContainerHierarchyTexts": ["[sig-a]"], "LeafNodeText": "others"},
            {"LeafNodeType": "It", "State": "failed", "ContainerHierarchyTexts": ["[sig-b]"], "LeafNodeText": "break",
             "Failure": {"Message": "expected\n  this"}}
        ]}]"#;
        let report = merge(vec![parse(text).unwrap(), parse(text).unwrap()]);
        let expected = "4 tests: 1 passed, 1 failed, 2 not run because of the timeout\nfailed: [sig-b] break\n    expected this\n";
        assert_eq!(summary(&report), expected);
    }

    #[test]
    fn a_run_without_tests_fails() {
        assert!(parse(r#"[{"SpecReports": null}]"#).is_err());
    }
}
