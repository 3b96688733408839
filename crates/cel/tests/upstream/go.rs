//! Runs the API server's own CEL through `upstream/build expressions`.

use serde_json::{Value, json};

/// Returns Go's results for expressions over one value, or `None` without Go.
pub fn run(schema: &Value, value: &Value, expressions: &[String]) -> Option<Vec<Value>> {
    let questions = expressions
        .iter()
        .map(|expression| json!({"schema": schema, "value": value, "expression": expression}));
    atoll_upstream::ask("expressions", questions)
}
