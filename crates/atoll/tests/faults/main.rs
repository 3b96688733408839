//! Durability when a server is killed, when its disk fails, and when its data directory is not usable.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod directory;
mod disk;
mod killed;
#[path = "../support/support.rs"]
mod support;
