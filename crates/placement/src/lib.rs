//! Decides which clusters run an object, and how many replicas each: policies, ledger, apportionment, reasons.
//!
//! ```text
//!   intents, policies ─► rules ─┐
//!   Clusters ─► fleet, ledger ──┼─► decide ─► shares and a reason for every cluster
//!   object ─► demand ───────────┘
//! ```
//!
//! Pure: no I/O, no clock, no async. The scheduler and admission use it.

pub mod intent;
pub mod policy;
