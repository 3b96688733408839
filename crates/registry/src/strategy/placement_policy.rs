//! PlacementPolicies and ClusterPlacementPolicies.

use atoll_meta::{FieldError, names};
use atoll_placement::policy::Policy;
use serde_json::Value;

use super::{Strategy, spec_differs};

pub static STRATEGY: Strategy = Strategy {
    // Placements and events name the policy that decided.
    name_rule: names::name_is_dns_label,
    generation: true,
    raises_generation: spec_differs,
    validate,
    validate_update: |new, _| validate(new),
    ..Strategy::GENERIC
};

fn validate(policy: &Value) -> Vec<FieldError> {
    Policy::parse(policy).err().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_are_validated_by_kind() {
        let spec = json!({ "namespaceSelector": {}, "replicas": { "division": "All" } });
        for (kind, expected) in [
            ("PlacementPolicy", vec!["spec.namespaceSelector", "spec.replicas.division"]),
            ("ClusterPlacementPolicy", vec!["spec.replicas.division"]),
        ] {
            let errors = validate(&json!({ "kind": kind, "spec": spec }));
            assert_eq!(errors.iter().map(FieldError::field).collect::<Vec<_>>(), expected, "{kind}");
        }
    }
}
