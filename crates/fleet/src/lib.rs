//! Data model of the fleet: placements, shapes, marks and the sync view, shared by control plane and syncers.
//!
//! ```text
//!   object ─ placement ─► view of a cluster ─ lines ─► syncer ─ marks ─► object below
//!                               ▲                        │
//!                               └──────── records ◄──────┘
//! ```
//!
//! Pure: no I/O, no clock, no async. Servers build sync views with it, syncers read them.

pub mod adoption;
pub mod allowance;
pub mod brake;
pub mod closed;
pub mod controllers;
pub mod definitions;
pub mod happening;
pub mod health;
pub mod heartbeat;
pub mod keep;
pub mod labels;
pub mod marks;
pub mod namespaces;
pub mod order;
pub mod overrides;
pub mod placed;
pub mod placement;
pub mod pod_security;
pub mod references;
pub mod release;
pub mod shape;
pub mod sum;
pub mod view;
pub mod workspaces;

pub use brake::Brake;
pub use namespaces::Locator;
pub use overrides::Overrides;
pub use placement::Placement;
pub use references::{Reference, references};
pub use release::release;
pub use shape::shape;
pub use sum::sum;
