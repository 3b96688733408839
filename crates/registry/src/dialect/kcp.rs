//! What kcp called a physical cluster in 2022: `Cluster`, and soon after `WorkloadCluster`, in the group `workload.kcp.dev`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::definitions::{self, Definition};

/// As the dialect is called.
pub const NAME: &str = "kcp";
pub const GROUP: &str = "workload.kcp.dev";
pub const VERSION: &str = "v1alpha1";
/// Both spellings: plural and kind.
pub const SPELLINGS: [(&str, &str); 2] = [("clusters", "Cluster"), ("workloadclusters", "WorkloadCluster")];

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

impl Catalog {
    /// What kcp has of its own, made when somebody first asks.
    pub(crate) fn kcp(&self) -> &[Arc<Definition>] {
        self.kcp.get_or_init(|| {
            let made = SPELLINGS.map(|(plural, kind)| {
                definitions::compile::definition(&self.definitions, &definition(plural, kind))
            });
            made.into()
        })
    }
}

/// As kcp defined it, but that nobody has to say a kubeconfig: it does not stay, and later versions had none.
fn definition(plural: &str, kind: &str) -> Value {
    let names = json!({
        "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"),
        "categories": ["kcp"],
    });
    let columns = json!([
        { "name": "Location", "type": "string", "priority": 1, "jsonPath": ".metadata.name" },
        { "name": "Ready", "type": "string", "priority": 2, "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
        { "name": "Synced API resources", "type": "string", "priority": 3, "jsonPath": ".status.syncedResources" },
    ]);
    let version = json!({
        "name": VERSION, "served": true, "storage": true,
        "additionalPrinterColumns": columns,
        "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": {
            "description": "A physical cluster, in the words of kcp.",
            "type": "object",
            "properties": {
                "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "metadata": { "type": "object" },
                "spec": spec(), "status": status(),
            },
        } },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP, "names": names, "scope": "Cluster", "versions": [version],
            "conversion": { "strategy": "None" },
        },
        "status": {
            "acceptedNames": names,
            "conditions": [{ "type": "NamesAccepted", "status": "True" }, { "type": "Established", "status": "True" }],
            "storedVersions": [VERSION],
        },
    })
}

fn spec() -> Value {
    json!({
        "description": "How the cluster is reached, and whether it gets anything new.",
        "type": "object",
        "properties": {
            "kubeconfig": {
                "description": "A kubeconfig with everything inline. It is taken in and kept in a Secret; the field is empty then.",
                "type": "string",
            },
            "unschedulable": {
                "description": "Whether nothing new is to be placed there.", "type": "boolean", "default": false,
            },
            "evictAfter": {
                "description": "From this time on nothing is placed there, and what was leaves it.",
                "type": "string", "format": "date-time",
            },
        },
    })
}

fn status() -> Value {
    let quantities = |what: &str| {
        json!({
            "description": what,
            "type": "object",
            "additionalProperties": {
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "pattern": QUANTITY, "x-kubernetes-int-or-string": true,
            },
        })
    };
    let time = json!({ "type": "string", "format": "date-time" });
    let text = json!({ "type": "string" });
    json!({
        "description": "How the cluster is.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "Whether it is Ready, and why not.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["lastTransitionTime", "status", "type"],
                    "properties": {
                        "type": text, "status": text, "severity": text, "reason": text, "message": text,
                        "lastTransitionTime": time, "lastHeartbeatTime": time,
                    },
                },
            },
            "syncedResources": {
                "description": "Resources whose objects are copied there.", "type": "array", "items": text,
            },
            "capacity": quantities("What all of its nodes have."),
            "allocatable": quantities("What of that is for Pods."),
            "lastSyncerHeartbeatTime": time,
            "virtualWorkspaces": {
                "type": "array",
                "items": { "type": "object", "required": ["url"], "properties": { "url": text } },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn both_spellings_are_served() {
        let catalog = Catalog::new(Profile::Minimal);
        let made: Vec<_> = catalog.kcp().iter().collect();
        for ((plural, kind), definition) in SPELLINGS.iter().zip(made) {
            assert!(definition.is_served && definition.is_established);
            let row = definition.row(VERSION).expect("it is served");
            assert_eq!((row.resource.as_str(), row.kind.as_str(), row.namespaced), (*plural, *kind, false));
            assert!(row.has_status());
            let columns: Vec<String> =
                row.custom.as_ref().unwrap().columns().iter().map(|column| column.name.to_string()).collect();
            assert_eq!(columns, ["Location", "Ready", "Synced API resources"]);
        }
    }
}
