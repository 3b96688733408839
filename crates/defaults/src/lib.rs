//! What goes without saying: the fields that Kubernetes fills in when a client leaves them out, and what else happens to
//! an object on its way through the server's own types.
//!
//! ```text
//! of(group, version, kind) ─ Defaults::apply     one walk over the object
//!            │
//!          plan.rs     for each type: literals, functions, and the fields that lead to more
//!            │
//!         rules.rs     which type has which; rules/ are the functions, by API group
//! ```
//!
//! Objects come as Go writes them (see `atoll_schema::normalise`) and leave so. Applying twice changes nothing more.

mod image;
mod object;
mod plan;
mod resources;
mod rules;

use serde_json::Value;

/// Fills in the objects of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Defaults(Option<u16>);

impl Defaults {
    /// Nothing goes without saying.
    pub const NONE: Defaults = Defaults(None);

    pub fn apply(self, object: &mut Value) {
        if let (Defaults(Some(place)), Value::Object(fields)) = (self, object) {
            plan::get().apply(place, fields);
        }
    }
}

/// The defaults of a kind in a version; many kinds have none.
pub fn of(group: &str, version: &str, kind: &str) -> Defaults {
    Defaults(plan::get().of_kind(group, version, kind))
}
