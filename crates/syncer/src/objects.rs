//! Brings placed objects into their desired state in the cluster.
//!
//! ```text
//!   sync view ─► table ─► queue ─► object_worker ─► reconcile (pure) ─► create, apply, replace or delete
//!                  ▲                                  mark, digest       drift, foreign_fields, overlay
//!                  └── observed objects               adoption, unserved
//! ```

pub mod adoption;
pub mod digest;
mod drift;
mod foreign_fields;
pub mod mark;
pub mod object_worker;
mod overlay;
pub mod reconcile;
pub mod table;
pub mod unserved;
