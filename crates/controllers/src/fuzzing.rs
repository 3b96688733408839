//! Exports private parsers for the targets in `fuzz/`.

pub use crate::workloads::cron_job::schedule::{NEVER, Schedule};
pub use crate::workloads::job::indexes::Indexes;
