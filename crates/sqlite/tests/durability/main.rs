//! What the SQLite store does when things go wrong: power cuts, full and failing disks, killed processes,
//! directories that cannot be opened.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod disk;
mod faults;
mod killed;
mod opening;
mod power;
