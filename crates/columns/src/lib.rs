//! Objects as tables: the columns that `kubectl get` shows for each kind.

use std::cmp::Ordering;

use atoll_meta::time::Timestamp;
use serde_json::Value;

/// One column.
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub format: &'static str,
    pub description: &'static str,
    pub priority: u8,
}

/// How objects of a kind are shown.
pub struct Printer {
    pub columns: &'static [Column],
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
    pub conditions: fn(&Value) -> Option<Value>,
    pub order: Option<fn(&Value, &Value) -> Ordering>,
    pub always_headed: bool,
    pub null_when_empty: bool,
}

static NONE: Printer = Printer { columns: &[], cells: |_, _| Vec::new(), conditions: |_| None, order: None, always_headed: false, null_when_empty: true };

pub fn printer(_group: &str, _kind: &str) -> &'static Printer {
    &NONE
}
