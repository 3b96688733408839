//! Default values of built-in kinds, and other changes that objects undergo in conversion to and from
//! upstream's internal types.
//!
//! ```text
//! defaults_for(group, version, kind) ─ Defaults::apply     one walk over the object
//!            │
//!          plan.rs     for each type: literals, functions, and the fields with nested plans
//!            │
//!         rules.rs     the rules of each type; rules/ contains the functions, by API group
//! ```
//!
//! Objects must be normalised (see `atoll_schema::normalise`) and stay so. Defaulting is idempotent.

mod image;
mod object;
mod plan;
mod resources;
mod rules;

use serde_json::Value;

/// The defaults of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Defaults(Option<u16>);

impl Defaults {
    /// No defaults.
    pub const NONE: Defaults = Defaults(None);

    pub fn apply(self, object: &mut Value) {
        if let (Defaults(Some(index)), Value::Object(fields)) = (self, object) {
            plan::get().apply(index, fields);
        }
    }
}

/// Returns the defaults of a kind in a version. Many kinds have none.
pub fn defaults_for(group: &str, version: &str, kind: &str) -> Defaults {
    Defaults(plan::get().by_kind(group, version, kind))
}
