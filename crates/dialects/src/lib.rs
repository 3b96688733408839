//! The dialects of Atoll: APIs of other systems, served in workspaces that enable them.
//!
//! ```text
//!   all ─► Registration ─┬─ Dialect (hooks, pure) ──► registry and server call it
//!                        └─ controllers ────────────► the API: enabled (where), intents (label to placement),
//!                                                     placed (what is on a cluster), sealed_secrets (deletes
//!                                                     unused ones), and a dialect's own
//!   kcp: Clusters with a kubeconfig, labels that place objects
//! ```
//!
//! The registry defines the hooks and knows no dialect. A new one is a module here and a row in [`all`].

mod controller;
mod enabled;
mod events;
pub mod intents;
pub mod kcp;
mod placed;
mod resources;
mod sealed_secrets;

use atoll_registry::dialect::SharedDialect;
use serde_json::Value;

pub use controller::{ControllerContext, DialectController, run};
pub use enabled::EnabledWorkspaces;

/// A dialect with its controllers.
#[derive(Clone)]
pub struct Registration {
    pub dialect: SharedDialect,
    pub controllers: &'static [DialectController],
}

/// All dialects of this program. A new one is added here.
pub fn all() -> Vec<Registration> {
    vec![kcp::registration()]
}

/// The parts of an object that name clusters in any dialect, such as `label example.com/cluster`, with these
/// names.
pub fn named_clusters(object: &Value) -> Vec<(String, String)> {
    let dialects = all();
    let intents = dialects.iter().flat_map(|registration| registration.dialect.intents(object));
    intents.map(|intent| (intent.source.to_string(), intent.cluster.to_string())).collect()
}
