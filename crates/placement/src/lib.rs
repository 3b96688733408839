//! Decides which clusters run an object, and how many replicas each: policies, ledger, apportionment, reasons.
//!
//! ```text
//!   intents, policies ─► rules ─┐
//!   Clusters ─► fleet, ledger ──┼─► decide ─► shares and a reason for every cluster ─► moves ─► next step
//!   object ─► demand ───────────┘
//! ```
//!
//! Pure: no I/O, no clock, no async. The scheduler and admission use it.

mod apportion;
pub mod budgets;
mod candidates;
pub mod cluster;
mod completions;
pub mod decide;
pub mod demand;
pub mod failover;
mod filters;
pub mod fleet;
pub mod intent;
mod ledger;
pub mod moves;
pub mod needs;
pub mod node;
mod ordinals;
pub mod policy;
pub mod resources;
pub mod rollout;
pub mod rules;
mod scores;
