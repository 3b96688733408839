//! Runs the API server's own defaulting through `upstream/build defaults`.

use serde_json::{Value, json};

/// An object and its kind.
pub struct Case {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub object: Value,
}

/// Returns Go's results, or `None` without Go.
pub fn run(cases: &[Case]) -> Option<Vec<Value>> {
    let questions = cases.iter().map(|Case { group, version, kind, object }| {
        json!({"group": group, "version": version, "kind": kind, "object": object})
    });
    atoll_upstream::ask("defaults", questions)
}
