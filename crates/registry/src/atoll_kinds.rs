//! Atoll's own kinds and their schemas. The schemas distinguish unknown fields, refuse values of the wrong
//! type, and describe the kinds in OpenAPI documents.

mod api_import;
mod cluster;
mod object_status;
mod placement_policy;
mod workspace;

use std::sync::Arc;

use atoll_crd::Schema;
use atoll_merge::apply::Kind;
use atoll_meta::FieldError;
use atoll_validation::warnings;
use serde_json::Value;

use crate::catalog::ATOLL;
use crate::row::{Row, Subresource};
use crate::strategy::{self, Strategy};

/// The only version so far.
pub const VERSION: &str = "v1alpha1";

/// One of Atoll's kinds.
struct AtollKind {
    resource: &'static str,
    kind: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    strategy: &'static Strategy,
    schema: fn() -> Value,
    /// Whether only the server itself writes objects of this kind. Users can read and delete them.
    is_internal: bool,
}

/// ApiImports, Clusters, placement policies, ObjectStatuses and Workspaces.
static KINDS: [AtollKind; 6] = [
    AtollKind {
        resource: "apiimports",
        kind: "ApiImport",
        namespaced: false,
        short: &[],
        strategy: &strategy::api_extension::API_IMPORT,
        schema: api_import::schema,
        is_internal: true,
    },
    AtollKind {
        resource: "clusters",
        kind: "Cluster",
        namespaced: false,
        short: &[],
        strategy: &strategy::cluster::STRATEGY,
        schema: cluster::schema,
        is_internal: false,
    },
    AtollKind {
        resource: "clusterplacementpolicies",
        kind: "ClusterPlacementPolicy",
        namespaced: false,
        short: &["cpp"],
        strategy: &strategy::placement_policy::STRATEGY,
        schema: placement_policy::of_workspace,
        is_internal: false,
    },
    AtollKind {
        resource: "objectstatuses",
        kind: "ObjectStatus",
        namespaced: true,
        short: &[],
        strategy: &strategy::cluster::OF_OBJECTS,
        schema: object_status::schema,
        is_internal: true,
    },
    AtollKind {
        resource: "placementpolicies",
        kind: "PlacementPolicy",
        namespaced: true,
        short: &["pp"],
        strategy: &strategy::placement_policy::STRATEGY,
        schema: placement_policy::of_namespace,
        is_internal: false,
    },
    AtollKind {
        resource: "workspaces",
        kind: "Workspace",
        namespaced: false,
        short: &["ws"],
        strategy: &strategy::workspace::STRATEGY,
        schema: workspace::schema,
        is_internal: false,
    },
];

pub(crate) fn rows() -> impl Iterator<Item = Row> {
    KINDS.iter().map(row)
}

/// Kinds and their schemas, in the format of CustomResourceDefinitions.
pub fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    KINDS.iter().map(|own| (own.kind, (own.schema)()))
}

fn row(own: &AtollKind) -> Row {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let schema = Arc::new(Schema::compile(Some(&(own.schema)()), false));
    let is_served = |verb: &&&str| !own.is_internal || !["create", "patch", "update"].contains(*verb);
    let verbs = |all: &[&str]| all.iter().filter(is_served).map(ToString::to_string).collect();
    Row {
        group: ATOLL.into(),
        version: VERSION.into(),
        resource: own.resource.into(),
        singular: own.kind.to_lowercase(),
        kind: own.kind.into(),
        namespaced: own.namespaced,
        verbs: verbs(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
        short_names: owned(own.short),
        categories: Vec::new(),
        storage_version_hash: String::new(),
        subresources: vec![Subresource {
            name: "status".into(),
            kind: own.kind.into(),
            group: String::new(),
            version: String::new(),
            verbs: verbs(&["get", "patch", "update"]),
        }],
        type_id: None,
        schema: Some(schema.clone()),
        view: None,
        strategy: own.strategy,
        defaults: atoll_defaults::defaults_for(ATOLL, VERSION, own.kind),
        checks: atoll_validation::checks_for(ATOLL, own.resource),
        warnings: warnings::warnings_for(ATOLL, own.resource),
        managed: Kind::custom(format!("{ATOLL}/{VERSION}"), own.kind, schema),
        custom: None,
    }
}

impl Row {
    /// Adds the schema errors of an object to `errors`. Unchanged values are not refused.
    pub(crate) fn check_schema(
        &self,
        new: &Value,
        old: Option<&Value>,
        errors: Vec<FieldError>,
    ) -> Vec<FieldError> {
        let Some(schema) = &self.schema else { return errors };
        let mut found = schema.validate_fields(new, old);
        let known: Vec<String> = found.iter().map(|error| error.field().to_string()).collect();
        found.extend(errors.into_iter().filter(|error| !known.iter().any(|field| *field == error.field())));
        found
    }
}

#[cfg(test)]
mod tests {
    use atoll_crd::Origin;
    use atoll_placement::policy::{Division, Mode, Strategy as RolloutStrategy};
    use serde_json::json;

    use super::*;

    /// The status that Atoll writes fits the schema, and nothing of it is pruned.
    #[test]
    fn statuses_written_by_atoll_fit_the_schema() {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "Synced", "message": "", "observedGeneration": 2,
            "lastTransitionTime": "2026-11-16T12:43:15Z",
        });
        let cluster = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": "east" },
            "spec": {
                "mode": "push", "access": "manage", "unschedulable": true, "paused": true, "drift": "report",
                "controllers": "allow", "limits": { "cpu": "100", "pods": 10 },
                "credentials": { "secret": { "namespace": "atoll-system", "name": "cluster-east" } },
                "taints": [{ "key": "atoll.dev/fenced", "effect": "NoExecute" }],
                "overrides": [{
                    "match": { "kinds": ["Deployment"], "namespaces": ["shop"], "labels": { "a": "b" } },
                    "registry": { "from": "docker.io", "to": "mirror" }, "storageClass": { "fast": "gp3" },
                    "env": [{ "name": "A", "value": "" }], "labels": { "a": "b" }, "annotations": { "a": "b" },
                    "patch": [{ "op": "add", "path": "/spec/x", "value": { "y": [1, null] } }],
                }],
            },
            "status": {
                "id": "u", "conditions": [condition], "nodes": { "total": 5, "ready": 4 },
                "capacity": { "cpu": "40" }, "free": [{ "cpu": "8", "nodes": 2, "pods": 110 }],
                "problem": { "reason": "Unreachable", "message": null }, "failures": ["2026-11-16T12:43:15Z"],
                "syncer": { "instance": "push", "version": "0.1.0", "lastHeartbeatTime": "2026-11-16T12:44:49Z" },
                "later": { "unheard": ["of"] },
            },
        });
        let record = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "ObjectStatus", "metadata": { "name": "u.east" },
            "spec": {
                "cluster": "east", "name": "web", "namespace": "shop", "uid": "u",
                "resource": { "group": "apps", "version": "v1", "resource": "deployments" },
            },
            "status": {
                "state": "Applied", "message": "", "generation": 1, "observed": true,
                "status": { "replicas": 1, "conditions": [{ "type": "Available" }] },
            },
        });
        let workspace = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" },
            "spec": { "grain": "pod" }, "status": { "id": "a", "phase": "Ready", "message": "waits" },
        });
        let policy = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "spread" },
            "spec": { "replicas": { "division": "Even" }, "disruption": { "maxMoving": "25%" } },
            "status": {
                "observedGeneration": 1, "matched": 2, "placed": 1,
                "conditions": [{
                    "type": "Matched", "status": "True", "reason": "Objects", "message": "", "observedGeneration": 1,
                    "lastTransitionTime": "2026-11-16T12:43:15Z",
                }],
            },
        });
        // The status of a custom object may be any value.
        let with = |status: Value| {
            let mut record = record.clone();
            record["status"]["status"] = status;
            record
        };
        let odd = [json!(null), json!("fine"), json!([1])].map(with);
        let row = |kind: &str| rows().find(|row| row.kind == kind).expect("a kind");
        for object in [cluster, record.clone(), workspace, policy].into_iter().chain(odd) {
            let row = row(object["kind"].as_str().expect("a kind"));
            let schema = row.schema.as_ref().expect("every kind has a schema");
            let mut read = object.clone();
            assert_eq!(schema.read(&mut read, Origin::Request), Ok(Vec::new()), "{}", row.kind);
            assert_eq!(read, object);
            assert_eq!(row.check_schema(&object, None, Vec::new()), Vec::new());
        }
    }

    /// Every field of a policy is in the schema, and its words are those that policies are read with.
    #[test]
    fn policies_fit_the_schema() {
        let selector = json!({
            "matchLabels": { "a": "b" }, "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }],
        });
        let reaction = json!({ "after": "1m", "mode": "Never" });
        let workloads = json!([{ "kind": "Job", "selector": selector, "by": "zone" }]);
        let object = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "spread" },
            "spec": {
                "objects": [{ "group": "apps", "kind": "Deployment", "name": "web", "selector": selector }],
                "namespaceSelector": selector,
                "clusters": {
                    "selector": selector, "names": ["east"], "exclude": ["west"],
                    "affinity": [{ "selector": selector, "names": ["east"] }],
                    "tolerations": [{ "key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule" }],
                },
                "replicas": {
                    "division": "Weighted",
                    "weights": [{ "cluster": "east", "weight": 2 }, { "selector": selector, "weight": 1 }],
                },
                "bounds": { "minClusters": 1, "maxClusters": 2, "minReplicas": 0, "maxReplicas": 9 },
                "spread": [{ "by": "region", "minDomains": 1, "maxDomains": 2, "maxSkew": 1 }],
                "affinity": workloads, "antiAffinity": workloads, "failover": reaction, "failback": reaction,
                "disruption": { "maxMoving": 1 }, "rollout": { "strategy": "OneByOne", "deadline": "5m" },
            },
        });
        let row = rows().find(|row| row.kind == "ClusterPlacementPolicy").expect("policies");
        let mut read = object.clone();
        let schema = row.schema.as_ref().expect("a schema");
        assert_eq!(schema.read(&mut read, Origin::Request), Ok(Vec::new()));
        assert_eq!(read, object);
        assert_eq!(row.check_schema(&object, None, (row.strategy.validate)(&object)), Vec::new());
        let whole = placement_policy::of_workspace();
        for (path, names) in [
            ("/properties/replicas/properties/division", Division::NAMES),
            ("/properties/failover/properties/mode", Mode::NAMES),
            ("/properties/failback/properties/mode", Mode::NAMES),
            ("/properties/rollout/properties/strategy", RolloutStrategy::NAMES),
        ] {
            let known = whole.pointer(&format!("/properties/spec{path}/enum"));
            assert_eq!(known, Some(&json!(names)), "{path}");
        }
    }

    #[test]
    fn problems_and_failures_of_clusters_are_described() {
        let row = rows().find(|row| row.kind == "Cluster").expect("clusters");
        let new = json!({
            "spec": { "mode": "push", "access": "manage" },
            "status": { "problem": "Unreachable", "failures": ["yesterday"] },
        });
        let errors = row.check_schema(&new, None, Vec::new());
        let fields: Vec<&str> = errors.iter().map(FieldError::field).collect();
        assert_eq!(fields, ["status.failures[0]", "status.problem"]);
    }

    #[test]
    fn each_field_is_reported_once() {
        let row = rows().find(|row| row.kind == "Cluster").expect("clusters");
        let new = json!({ "spec": { "mode": "Push", "taints": {} } });
        let also = strategy::cluster::STRATEGY.validate;
        let errors: Vec<String> =
            row.check_schema(&new, None, also(&new)).iter().map(|error| error.field().to_string()).collect();
        assert_eq!(errors, ["spec.mode", "spec.taints", "spec.access"]);
        assert_eq!(
            row.check_schema(&new, Some(&new), Vec::new()),
            Vec::new(),
            "unchanged values are accepted"
        );
    }
}
