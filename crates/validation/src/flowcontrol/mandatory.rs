//! Mandatory FlowSchemas and PriorityLevelConfigurations, whose specs are fixed.

// upstream: staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go

use std::sync::OnceLock;

use serde_json::{Value, json};

/// Returns the fixed spec of the schema with this name.
pub(super) fn schema(name: &str) -> Option<&'static Value> {
    static EXEMPT: OnceLock<Value> = OnceLock::new();
    static CATCH_ALL: OnceLock<Value> = OnceLock::new();
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let everything = |subjects: Vec<Value>| {
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    match name {
        "exempt" => Some(EXEMPT.get_or_init(|| {
            json!({
                "priorityLevelConfiguration": {"name": "exempt"},
                "matchingPrecedence": 1,
                "rules": everything(vec![group("system:masters")]),
            })
        })),
        "catch-all" => Some(CATCH_ALL.get_or_init(|| {
            json!({
                "priorityLevelConfiguration": {"name": "catch-all"},
                "matchingPrecedence": 10_000,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": everything(vec![group("system:unauthenticated"), group("system:authenticated")]),
            })
        })),
        _ => None,
    }
}

/// Returns the fixed spec of the level with this name, and the message about a different spec.
pub(super) fn level(name: &str) -> Option<(&'static Value, &'static str)> {
    static EXEMPT: OnceLock<Value> = OnceLock::new();
    static CATCH_ALL: OnceLock<Value> = OnceLock::new();
    match name {
        "exempt" => Some((
            EXEMPT.get_or_init(
                || json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
            ),
            "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
        )),
        "catch-all" => Some((
            CATCH_ALL.get_or_init(|| {
                json!({
                    "type": "Limited",
                    "limited": {
                        "nominalConcurrencyShares": 5,
                        "limitResponse": {"type": "Reject"},
                        "lendablePercent": 0,
                    },
                })
            }),
            "spec of 'catch-all' must equal the fixed value",
        )),
        _ => None,
    }
}
