//! Decides which clusters run an object, and how many replicas each: policies, ledger, apportionment, reasons.
//!
//! ```text
//!   intents, policies ─► rules ─┐
//!   Clusters ─► fleet, ledger ──┼─► decide ─► shares and a reason for every cluster ─► moves ─► next step
//!   object ─► demand ───────────┘
//! ```
//!
//! Pure: no I/O, no clock, no async. The scheduler and admission use it.

pub mod budgets;
pub mod cluster;
pub mod decide;
pub mod demand;
pub mod failover;
pub mod fleet;
pub mod intent;
pub mod moves;
pub mod node;
pub mod policy;
pub mod resources;
pub mod rules;
