//! Exports private parsers for the targets in `fuzz/`.

pub use crate::cron_job::schedule::{NEVER, Schedule};
pub use crate::job::indexes::Indexes;
