use serde_json::json;

use super::super::*;
use super::{cluster, of_namespace, parsed};
use crate::intent::Intent;

#[test]
fn intents_beyond_a_policy_are_named() {
    let prod = || json!({ "env": "prod" });
    let clusters = [
        cluster("east", prod(), json!({ "region": "eu" })),
        cluster("west", prod(), json!({ "region": "us" })),
        cluster("test", json!({ "env": "test" }), json!({ "region": "eu" })),
    ];
    let clusters: Vec<&Value> = clusters.iter().collect();
    let of_prod = json!({ "clusters": { "selector": { "matchLabels": { "env": "prod" } } } });
    for (spec, intent, expected) in [
        (json!({}), "east=2,west=1", ""),
        (json!({ "replicas": { "division": "Even" } }), "east=2,west=1", ""),
        (json!({ "replicas": { "division": "None" } }), "none", ""),
        (json!({ "replicas": { "division": "None" } }), "east", "it keeps the object in the control plane"),
        (json!({ "replicas": { "division": "Single" } }), "east", ""),
        (json!({ "replicas": { "division": "Single" } }), "east,west", "it allows at most 1 cluster, not 2"),
        (of_prod.clone(), "east,west", ""),
        (of_prod.clone(), "east,test", "it does not allow the cluster test"),
        // Its labels are not known.
        (of_prod, "elsewhere", ""),
        (
            json!({ "clusters": { "names": ["east"] } }),
            "elsewhere",
            "it does not allow the cluster elsewhere",
        ),
        (
            json!({ "clusters": { "exclude": ["elsewhere"] } }),
            "elsewhere",
            "it does not allow the cluster elsewhere",
        ),
        (
            json!({ "clusters": { "affinity": [{ "names": ["east"] }] } }),
            "west",
            "it does not allow the cluster west",
        ),
        (json!({ "bounds": { "maxClusters": 1 } }), "east,west", "it allows at most 1 cluster, not 2"),
        (
            json!({ "replicas": { "division": "Even" }, "bounds": { "minClusters": 2 } }),
            "east",
            "it requires at least 2 clusters, not 1",
        ),
        (
            json!({ "bounds": { "maxReplicas": 2 } }),
            "east==3,west=1",
            "it allows at most 2 replicas on a cluster, not 3 on east",
        ),
        (
            json!({ "bounds": { "minReplicas": 2 } }),
            "east==1",
            "it requires at least 2 replicas on a cluster, not 1 on east",
        ),
        (
            json!({ "replicas": { "division": "Even" }, "spread": [{ "by": "region", "minDomains": 2 }] }),
            "east,test",
            "it requires at least 2 different values of region, not 1",
        ),
        (
            json!({ "spread": [{ "by": "region", "maxDomains": 1 }] }),
            "east,west",
            "it allows at most 1 value of region, not 2",
        ),
        (
            json!({ "clusters": { "exclude": ["west"] }, "bounds": { "maxClusters": 1 } }),
            "east,west",
            "it does not allow the cluster west; it allows at most 1 cluster, not 2",
        ),
    ] {
        let policy = parsed(&of_namespace("p", spec.clone()));
        let intent = Intent::parse(intent).expect("an intent");
        let excess = policy.check_intent(&intent, &clusters);
        let excess: Vec<String> = excess.iter().map(ToString::to_string).collect();
        assert_eq!(excess.join("; "), expected, "{intent} under {spec}");
    }
}
