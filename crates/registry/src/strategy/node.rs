//! Nodes: they register with a status.

use serde_json::Value;

use super::{Strategy, WITH_THE_WHOLE, counted, disabled};

/// The configuration of kubelets through the API is gone, but not its fields.
const CONFIGURATION: &[&[&str]] = &[&["spec", "configSource"], &["status", "config"]];

pub static STRATEGY: Strategy = Strategy {
    fields: &[counted("spec.unschedulable", "spec.unschedulable", "false")],
    keeps_status: true,
    prepare_create: |node, _| drop_configuration(node),
    prepare_update: |new, _, _| drop_configuration(new),
    prepare_subresource: |_, new, _, _| drop_configuration(new),
    ..WITH_THE_WHOLE
};

fn drop_configuration(node: &mut Value) {
    disabled::drop_from(node, CONFIGURATION);
}
