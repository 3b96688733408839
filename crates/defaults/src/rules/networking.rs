//! NetworkPolicy.

// upstream: pkg/apis/networking/v1/defaults.go

use crate::object::{ObjectMap, is_empty_list, set};

/// Defaults the policy types: `Ingress`, and `Egress` if there are egress rules.
pub fn network_policy(spec: &mut ObjectMap) {
    if is_empty_list(spec, "policyTypes") {
        let kinds = if is_empty_list(spec, "egress") { vec!["Ingress"] } else { vec!["Ingress", "Egress"] };
        set(spec, "policyTypes", kinds);
    }
}
