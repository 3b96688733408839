//! The scheduler: workloads are placed by default, by annotation and by policy, without a command.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod autoscaling;
mod beyond_policy;
mod blocked_departures;
mod by_annotation;
mod by_command;
mod by_default;
mod by_policy;
mod callers;
mod dividing;
mod draining;
mod endpoints;
mod explaining;
mod fleet;
mod halted_rollouts;
mod helm;
mod kcp_policies;
mod kcp_splitter;
mod killed;
mod kinds;
mod kubectl;
mod late_heartbeats;
mod left_alone;
mod left_out;
mod losses;
mod many_kinds;
mod mounted_claims;
mod moving;
mod other_kinds;
mod other_workloads;
mod outside_of_server;
mod owned;
mod pauses;
mod pending;
mod reapplied;
mod rebalancing;
mod rolling_out;
mod scenario;
mod selecting;
mod simulated;
mod taking_over;
mod what_if;
mod writers;
