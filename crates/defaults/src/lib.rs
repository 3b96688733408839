//! What goes without saying: the fields that Kubernetes fills in when a client leaves them out.
//!
//! ```text
//! of(group, version, kind) ─ fn(&mut Value)     one function a kind, made of those of its parts
//! ```

use serde_json::Value;

/// Fills in one object.
pub type Defaults = fn(&mut Value);

/// The defaults of a kind in a version; most kinds have none.
pub fn of(_group: &str, _version: &str, _kind: &str) -> Defaults {
    |_| {}
}
