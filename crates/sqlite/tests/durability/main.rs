//! Durability of the SQLite store: power cuts, full and failing disks, killed processes, directories that
//! cannot be opened.

// Clippy regards only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod disk;
mod faults;
mod killed;
mod opening;
mod power;
