//! kcp's physical clusters of 2022: `Cluster`, and soon after `WorkloadCluster`, in the group
//! `workload.kcp.dev`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::definitions::{self, Definition};

/// The name of the dialect.
pub const NAME: &str = "kcp";
pub const GROUP: &str = "workload.kcp.dev";
pub const VERSION: &str = "v1alpha1";
/// Both names of the kind: plural and kind.
pub const SPELLINGS: [(&str, &str); 2] = [("clusters", "Cluster"), ("workloadclusters", "WorkloadCluster")];

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

impl Catalog {
    /// The definitions of the kcp dialect, compiled on first use.
    pub(crate) fn kcp(&self) -> &[Arc<Definition>] {
        self.kcp.get_or_init(|| {
            let made = SPELLINGS
                .map(|(plural, kind)| definitions::compile::definition(self, &definition(plural, kind)));
            made.into()
        })
    }
}

/// kcp's definition, except that the kubeconfig is optional: it is not stored, and later versions had none.
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
            "description": "A physical cluster, as defined by kcp.",
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
        "description": "Connection and scheduling settings of the cluster.",
        "type": "object",
        "properties": {
            "kubeconfig": {
                "description": "A kubeconfig with all credentials inline. It is moved to a Secret, and the field is then empty.",
                "type": "string",
            },
            "unschedulable": {
                "description": "Whether no new objects are placed on the cluster.", "type": "boolean", "default": false,
            },
            "evictAfter": {
                "description": "Time from which objects are removed from the cluster and no new ones are placed on it.",
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
        "description": "Observed state of the cluster.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "Conditions of the cluster, such as Ready.",
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
                "description": "Resources that are synced to the cluster.", "type": "array", "items": text,
            },
            "capacity": quantities("Total resources of all nodes."),
            "allocatable": quantities("Resources that are available to Pods."),
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
    fn both_kinds_are_served() {
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
