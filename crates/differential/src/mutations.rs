//! Objects of every built-in kind with one thing changed, and whether both servers say the same to them.
//!
//! ```text
//!   objects/<group>/<resource>.yaml ─ samples ─► Sample: a full object and a minimal one
//!                                        │ changes: every way to change one thing, drawn from with a seed
//!   create (dry run) or update (dry run) ▼
//!   Atoll ─► Verdict ─┐
//!   real  ─► Verdict ─┴─ trial ─► Trial: agree or not ─ report ─► figures by kind, a listing of disagreements
//! ```
//!
//! Two verdicts agree when both servers accept, or when both refuse with the same reason and the same set of fields and
//! causes. Words are not compared here.

pub mod changes;
pub mod pointer;
pub mod report;
pub mod samples;
pub mod trial;
pub mod values;
pub mod verdict;
