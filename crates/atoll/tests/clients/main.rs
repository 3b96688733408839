//! Existing clients with a real server: kube-rs, kubectl, Helm, the Python client and readers of OpenAPI
//! documents.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod helm;
mod kube_rs;
mod kubectl;
mod openapi;
mod python;
#[path = "../support/support.rs"]
mod support;
mod tables;
