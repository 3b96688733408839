//! exec, attach, logs, port-forward and proxies, from kubectl through a real server to a kubelet that this test is.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod commands;
mod kubelet;
mod logs;
mod ports;
mod proxies;
mod refusals;
#[path = "../support/support.rs"]
mod support;
mod terminals;
mod world;
