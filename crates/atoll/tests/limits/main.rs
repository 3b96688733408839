//! What a server does with more than it can take, with nonsense, and with too little time.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod bodies;
mod connections;
mod drain;
mod flood;
mod inflight;
mod pages;
mod quotas;
mod selectors;
#[path = "../support/support.rs"]
mod support;
mod timeouts;
mod together;
mod unharmed;
mod watchers;
