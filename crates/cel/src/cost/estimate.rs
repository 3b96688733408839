//! What an expression may cost.

use super::{CostEstimate, Sizes};
use crate::check::Checked;

/// Estimates the cost of a checked expression.
pub fn estimate(_checked: &Checked, _sizes: &Sizes<'_>) -> CostEstimate {
    CostEstimate { min: 0, max: u64::MAX }
}
