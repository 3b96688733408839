//! Sends the same requests to Atoll and to kube-apiserver, and compares the responses.
//!
//! ```text
//!   cases/*.txt ─ script ─► Case ─┬─► Side (Atoll)    ─► ObservedResponse ─┐
//!                                 └─► Side (upstream) ─► ObservedResponse ─┴─ compare ─► differences ─ known.txt
//!                                        └ mask: makes uids, revisions, times and similar values comparable
//! ```
//!
//! Cases run in order, each against both servers. `known.txt` lists the cases that may differ, with reasons.
//! A listed case that no longer differs is a failure, like a new difference.
//!
//! `mutations` is a second comparison: it changes one thing in objects of every kind and compares whether
//! both servers accept them.

pub mod compare;
pub mod known;
pub mod mask;
pub mod message;
pub mod mutations;
pub mod script;
pub mod servers;
pub mod side;
