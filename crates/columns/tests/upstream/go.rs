//! Runs upstream's printers, through `upstream/build printers`.

use serde_json::{Value, json};

/// An object and its kind.
pub struct Question {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub object: Value,
}

/// Returns Go's answers, `None` without Go.
pub fn ask(questions: &[Question]) -> Option<Vec<Value>> {
    let questions = questions.iter().map(|Question { group, version, kind, object }| {
        json!({"group": group, "version": version, "kind": kind, "object": object})
    });
    atoll_upstream::ask("printers", questions)
}
