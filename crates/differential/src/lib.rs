//! The same requests to Atoll and to kube-apiserver, and what is different about the answers.
//!
//! ```text
//!   cases/*.txt ─ script ─► Case ─┬─► Side (Atoll)    ─► Seen ─┐
//!                                 └─► Side (upstream) ─► Seen ─┴─ compare ─► differences ─ known.txt
//!                                        └ mask: uids, revisions, times and such become comparable
//! ```
//!
//! Cases run in order, each against both servers at once. `known.txt` names the cases that may differ and why; a
//! case in it that no longer differs is as much a failure as a new difference.
//!
//! `mutations` is the second way to compare: objects of every kind with one thing changed, and what each server says to them.

pub mod compare;
pub mod known;
pub mod mask;
pub mod message;
pub mod mutations;
pub mod script;
pub mod side;
