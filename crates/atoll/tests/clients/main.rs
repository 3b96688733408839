//! What people already have, pointed at a real server: kube-rs, kubectl and the Python client.

mod kube_rs;
mod kubectl;
mod python;
#[path = "../support/support.rs"]
mod support;
