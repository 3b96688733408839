//! Limits of the server: overload, malformed requests and timeouts.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod bodies;
mod concurrency;
mod connections;
mod drain;
mod flood;
mod health_check;
mod inflight;
mod pages;
mod quotas;
mod selectors;
#[path = "../support/support.rs"]
mod support;
mod timeouts;
mod watchers;
