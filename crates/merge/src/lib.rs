//! Patches and server-side apply as pure functions.
//!
//! ```text
//! application/json-patch+json ─────────────────────── json_patch ───┐
//! application/merge-patch+json ────────────────────── merge_patch ──┼─▶ Value
//! application/strategic-merge-patch+json ─ types ─ strategic_merge ─┤
//! application/apply-patch+yaml ─────────── types ─ apply ───────────┘
//!                                  managedFields ◀─ record ── every other write
//! ```
//!
//! All follow the libraries that the Kubernetes API server uses, including their deviations from the RFCs.

pub mod apply;
mod error;
mod json_patch;
mod merge_patch;
mod strategic_merge;

pub use error::PatchError;
pub use json_patch::{
    MAX_COPIED_BYTES, MAX_MOVED_ELEMENTS, MAX_OPERATIONS, PatchCost, json_patch, json_patch_within,
    unknown_fields,
};
pub use merge_patch::{check_merge_patch, merge_patch};
pub use strategic_merge::{print_map, strategic_merge};
