//! exec, attach, logs, port-forward and proxies, from kubectl through a real server to a kubelet in the test
//! process.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod commands;
mod errors;
mod harness;
mod kubelet;
mod logs;
mod ports;
mod proxies;
#[allow(unused_imports, reason = "this suite uses a part of it")]
#[path = "../support/support.rs"]
mod support;
mod terminals;
