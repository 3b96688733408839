//! Who may do what in which workspace, through the program: doors, borders, and ways around them that must not exist.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod aggregation;
mod doors;
mod escalation;
mod people;
#[path = "../support/support.rs"]
mod support;
mod tricks;
