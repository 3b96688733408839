//! Changes one thing in objects of every built-in kind and compares whether both servers accept the result.
//!
//! ```text
//!   objects/<group>/<resource>.yaml ─ samples ─► Sample: a full object and a minimal one
//!                                        │ changes: all possible changes, of which a seed selects some
//!   create (dry run) or update (dry run) ▼
//!   Atoll    ─► WriteVerdict ─┐
//!   upstream ─► WriteVerdict ─┴─ trial ─► Trial: agree or not ─ report ─► counts by kind, list of disagreements
//! ```
//!
//! Two verdicts agree if both servers accept, or if both reject with the same reason and the same set of
//! fields and causes. Messages are not compared here.

pub mod changes;
pub mod pointer;
pub mod report;
pub mod samples;
pub mod trial;
pub mod values;
pub mod verdict;
