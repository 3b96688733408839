//! Nodes: the status in a create request is kept.

// upstream: pkg/registry/core/node/strategy.go

use serde_json::Value;

use super::{REVALIDATED, Strategy, counted, disabled};

/// Fields of dynamic kubelet configuration, which was removed upstream.
const CONFIGURATION: &[&[&str]] = &[&["spec", "configSource"], &["status", "config"]];

pub static STRATEGY: Strategy = Strategy {
    fields: &[counted("spec.unschedulable", "spec.unschedulable", "false")],
    keeps_status: true,
    prepare_create: |node, _| drop_configuration(node),
    prepare_update: |new, _, _| drop_configuration(new),
    prepare_subresource: |_, new, _, _| drop_configuration(new),
    ..REVALIDATED
};

fn drop_configuration(node: &mut Value) {
    disabled::drop_from(node, CONFIGURATION);
}
