//! Decides which API definitions clusters share, and which objects a cluster accepts.
//!
//! ```text
//! CustomResourceDefinition ─ ImportedDefinition::from_definition ─┐
//! discovery, OpenAPI v3 ──── openapi::definitions ────────────────┴─ of each cluster ─ negotiate ─┬ offered
//!                                                                                      │          └ verdicts
//! lowest_common_denominator ◄── one version of the offered definition and one cluster ─┘
//! │ compare   merged schema, losses, contradictions, remarks
//! └ Usage     losses of which objects make use
//!
//! object ─ check_object ─ fields that a cluster lacks or refuses
//! object ─ lost_fields ── fields that another version of a built-in kind does not have
//! ```
//!
//! The first import defines the offered schema. A later cluster may narrow it while no object uses the
//! fields or values that would be lost; otherwise that cluster is incompatible. Schemas come from clusters,
//! which may be hostile: sizes and depths are checked first, and every walk has a limit.

pub mod bounds;
mod canonical;
mod check;
mod compare;
mod denominator;
mod difference;
mod discovered;
mod imported;
mod negotiate;
pub mod openapi;
mod schema_path;
mod schema_view;

pub use canonical::canonical_text;
pub use check::{FieldCause, FieldProblem, check_object, lost_fields};
pub use compare::{Comparison, compare};
pub use denominator::{AllUsed, Denominator, Objects, Unused, Usage, lowest_common_denominator};
pub use difference::{Difference, Differences, MOST_LISTED};
pub use discovered::DiscoveredResource;
pub use imported::{ImportedDefinition, ImportedVersion};
pub use negotiate::{
    ClusterDefinition, Load, Negotiated, TimeLimit, Verdict, negotiate, negotiate_loaded, negotiate_own,
};
