//! Controllers that delete other objects: those of deleted owners, namespaces and workspaces.
//!
//! ```text
//!   owner references ─► garbage_collector ─► owned objects
//!   namespace, workspace ─► content ─► everything in it
//! ```

mod content;
pub mod garbage_collector;
pub mod namespace;
pub mod workspace;
