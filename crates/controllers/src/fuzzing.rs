//! A way in, for the targets in `fuzz/`, to parsers that are nobody else's business.

pub use crate::cron_job::schedule::{NEVER, Schedule};
pub use crate::job::indexes::Indexes;
