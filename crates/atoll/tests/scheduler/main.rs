//! The scheduler: workloads are placed by default, by annotation and by policy, without a command.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod beyond_policy;
mod by_annotation;
mod by_command;
mod by_default;
mod by_policy;
mod draining;
mod explaining;
mod fleet;
mod kinds;
mod late_heartbeats;
mod losses;
mod moving;
mod outside;
mod pauses;
mod pending;
mod rebalancing;
mod rolling_out;
mod selecting;
mod standing;
mod taking_over;
mod what_if;
mod writers;
