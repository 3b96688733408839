//! A way in, for the targets in `fuzz/`, to parsers that are nobody else's business.

use serde_json::Value;

/// Whether a container of a pod comes to an end by itself.
pub fn is_ending(container: &Value, pod: &Value) -> bool {
    crate::program::of(container, pod).ends.is_some()
}
