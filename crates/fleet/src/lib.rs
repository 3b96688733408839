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
pub mod agent;
pub mod aggregate;
pub mod api_access;
pub mod api_groups;
pub mod autoscaling;
pub mod cluster;
pub mod definitions;
pub mod event;
pub mod explanation;
pub mod health;
pub mod heartbeat;
pub mod held;
pub mod int_or_percent;
pub mod keep_annotation;
pub mod marks;
pub mod namespaces;
pub mod node_shapes;
pub mod overrides;
pub mod owners;
pub mod pause;
pub mod placed_by;
pub mod placed_condition;
pub mod placement;
pub mod placement_refusal;
pub mod pod_security;
pub mod rate_limit;
pub mod references;
pub mod release;
pub mod report_order;
pub mod scheduled;
pub mod selecting;
pub mod service_account;
pub mod shape;
pub mod view;
pub mod what_if;
pub mod workloads;
pub mod workspaces;

pub use aggregate::aggregate;
pub use cluster::ClusterView;
pub use namespaces::Locator;
pub use overrides::Overrides;
pub use pause::Pause;
pub use placement::Placement;
pub use references::{Reference, references};
pub use release::release;
pub use shape::shape;
