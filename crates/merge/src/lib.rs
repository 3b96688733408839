//! Changing objects by patches, without I/O.
//!
//! ```text
//! application/json-patch+json ── json_patch ──┐
//! application/merge-patch+json ─ merge_patch ─┼─▶ Value
//! application/apply-patch+yaml ─ apply ───────┘     │
//!                                 managedFields ◀── record: every other write
//! ```
//!
//! All follow the libraries that the Kubernetes API server uses, also where they depart from the RFCs. Patches that need
//! a schema (strategic merge) belong here too.

pub mod apply;
mod error;
mod json_patch;
mod merge_patch;

pub use error::PatchError;
pub use json_patch::{MAX_COPIED_BYTES, MAX_OPERATIONS, json_patch, unknown_fields};
pub use merge_patch::{check_merge_patch, merge_patch};
