//! What people already have, pointed at a real server: kube-rs, kubectl, Helm, the Python client, and whoever reads OpenAPI.

// Clippy takes only functions marked as tests for test code.
#![allow(clippy::unwrap_used)]

mod helm;
mod kube_rs;
mod kubectl;
mod openapi;
mod python;
#[path = "../support/support.rs"]
mod support;
mod tables;
