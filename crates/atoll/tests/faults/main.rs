//! What a server keeps when it is killed, when its disk fails it, and when its data is not its own.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod directory;
mod disk;
mod killed;
#[path = "../support/support.rs"]
mod support;
