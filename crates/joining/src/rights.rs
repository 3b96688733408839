//! The syncer's rights in a cluster: enough to manage placed objects, and no way to gain more.
//!
//! The syncer may not write roles, bindings, webhooks or certificates. The ClusterRole and its binding are
//! owned by Atoll's own namespace: deleting the namespace deletes them all, so that a syncer can clean up
//! without the right to write roles.

use atoll_fleet::agent::AGENT;
use atoll_fleet::marks::{CLAIM, LEASE, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

/// Name of the ServiceAccount, of its roles and of their bindings.
pub const ACCOUNT: &str = "atoll-syncer";

/// Annotation of the ClusterRole: API groups of custom resources that an administrator has added.
pub const GROUPS: &str = "atoll.dev/groups";

const READ_VERBS: [&str; 3] = ["get", "list", "watch"];
const WRITE_VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// For CustomResourceDefinitions, which are never deleted: that would delete all of their objects, including
/// those of other users.
const DEFINITION_VERBS: [&str; 6] = ["get", "list", "watch", "create", "update", "patch"];

const DEFINITIONS: (&str, &[&str]) = ("apiextensions.k8s.io", &["customresourcedefinitions"]);

/// Resources that can be placed, by group.
const PLACEABLE: [(&str, &[&str]); 11] = [
    (
        "",
        &[
            "configmaps",
            "limitranges",
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "replicationcontrollers",
            "resourcequotas",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    DEFINITIONS,
    ("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("networking.k8s.io", &["ingressclasses", "ingresses", "networkpolicies"]),
    ("node.k8s.io", &["runtimeclasses"]),
    ("policy", &["poddisruptionbudgets"]),
    ("resource.k8s.io", &["deviceclasses", "resourceclaims", "resourceclaimtemplates"]),
    ("scheduling.k8s.io", &["priorityclasses"]),
    ("storage.k8s.io", &["storageclasses", "volumeattributesclasses"]),
];

/// Resources that are also read, for the status of objects and of the cluster.
const READABLE: [(&str, &[&str]); 8] = [
    ("", &["endpoints", "events", "nodes", "pods", "podtemplates"]),
    ("apps", &["controllerrevisions"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("events.k8s.io", &["events"]),
    // The usage of placed Pods.
    ("metrics.k8s.io", &["pods"]),
    // Read to verify that a namespace is empty before it is deleted.
    ("coordination.k8s.io", &["leases"]),
    ("rbac.authorization.k8s.io", &["rolebindings", "roles"]),
    ("storage.k8s.io", &["csistoragecapacities"]),
];

/// Resources that are read in an observed cluster: workloads, but neither Secrets nor the contents of
/// ConfigMaps.
const OBSERVED: [(&str, &[&str]); 11] = [
    (
        "",
        &[
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "replicationcontrollers",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apps", &["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("events.k8s.io", &["events"]),
    ("networking.k8s.io", &["ingressclasses", "ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
    ("scheduling.k8s.io", &["priorityclasses"]),
    ("storage.k8s.io", &["storageclasses"]),
];

/// The access mode that a cluster has joined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Manage,
    Observe,
}

impl Access {
    /// The value in `spec.access`.
    pub fn name(self) -> &'static str {
        match self {
            Access::Manage => "manage",
            Access::Observe => "observe",
        }
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn rules(access: Access, groups: &[String]) -> Vec<Value> {
    let table = |table: &[(&str, &[&str])], verbs: &[&str]| -> Vec<Value> {
        table.iter().map(|(group, resources)| rule(group, resources, verbs)).collect()
    };
    match access {
        Access::Manage => {
            let custom = groups.iter().map(|group| rule(group, &["*"], &WRITE_VERBS));
            let verbs = |row: &(&str, &[&str])| {
                if *row == DEFINITIONS { &DEFINITION_VERBS[..] } else { &WRITE_VERBS[..] }
            };
            let mut rules: Vec<Value> = PLACEABLE.iter().map(|row| rule(row.0, row.1, verbs(row))).collect();
            rules.extend(table(&READABLE, &READ_VERBS));
            // To remove marks that controllers have copied. The data of a revision is immutable.
            rules.push(rule("apps", &["controllerrevisions"], &["patch"]));
            rules.extend(custom);
            rules
        }
        Access::Observe => table(&OBSERVED, &READ_VERBS),
    }
}

/// The resources that can be placed, as kubectl names them.
pub fn placeable_resources() -> Vec<String> {
    let all = PLACEABLE
        .iter()
        .flat_map(|(group, resources)| resources.iter().map(move |resource| (group, resource)));
    let placed =
        all.filter(|(_, resource)| **resource != "namespaces").map(|(group, resource)| match *group {
            "" => resource.to_string(),
            group => format!("{resource}.{group}"),
        });
    placed.collect()
}

/// The rights in the whole cluster. `owner` is Atoll's namespace.
pub fn cluster_role(access: Access, groups: &[String], owner: &Value) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": ACCOUNT, "ownerReferences": [owner_reference(owner)] },
        "rules": rules(access, groups),
    });
    if !groups.is_empty() {
        role["metadata"]["annotations"] = json!({ GROUPS: groups.join(",") });
    }
    role
}

/// Lets a syncer list custom resources, to verify that a namespace is empty before it is deleted.
pub fn add_list_rules(role: &mut Value, groups: &[String]) {
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.extend(groups.iter().map(|group| rule(group, &["*"], &["list"])));
    }
}

/// The groups that an administrator has added to a ClusterRole.
pub fn groups_of(role: &Value) -> Vec<String> {
    let text = role["metadata"]["annotations"][GROUPS].as_str().unwrap_or_default();
    text.split(',').filter(|group| !group.is_empty()).map(str::to_string).collect()
}

/// The rights in Atoll's namespace: the claim, a new token for the syncer itself, and in managed clusters the
/// syncer's lease.
pub fn role(access: Access) -> Value {
    let claim = |verbs: &[&str]| json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLAIM], "verbs": verbs });
    let leases = |verbs: &[&str]| {
        let group = "coordination.k8s.io";
        json!({ "apiGroups": [group], "resources": ["leases"], "resourceNames": [LEASE], "verbs": verbs })
    };
    // Without this right, the cluster would have to join again when the first token expires.
    let renewal = json!({
        "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [ACCOUNT],
        "verbs": ["create"],
    });
    let rules = match access {
        Access::Observe => vec![claim(&READ_VERBS), leases(&READ_VERBS), renewal],
        Access::Manage => vec![
            claim(&WRITE_VERBS),
            leases(&WRITE_VERBS),
            // Rules with resource names cannot allow the creation of an object.
            json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] }),
            renewal,
        ],
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE },
        "rules": rules,
    })
}

/// The same for an agent in the cluster, which also keeps its own credential there.
pub fn agent_role(access: Access) -> Value {
    let mut role = role(access);
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.push(json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": [AGENT], "verbs": ["get", "update"],
        }));
    }
    role
}

/// Binds the account to the ClusterRole if `owner` is given, otherwise to the Role of the namespace.
pub fn binding(owner: Option<&Value>) -> Value {
    let (kind, role_kind, metadata) = match owner {
        Some(owner) => (
            "ClusterRoleBinding",
            "ClusterRole",
            json!({ "name": ACCOUNT, "ownerReferences": [owner_reference(owner)] }),
        ),
        None => ("RoleBinding", "Role", json!({ "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE })),
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": ACCOUNT },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE }],
    })
}

fn owner_reference(namespace: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace", "name": SYSTEM_NAMESPACE,
        "uid": namespace["metadata"]["uid"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(access: Access) -> Vec<Value> {
        let role = role(access);
        let mut all = rules(access, &["example.com".into()]);
        all.extend(role["rules"].as_array().cloned().unwrap_or_default());
        all
    }

    fn strings<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    #[test]
    fn rules_have_no_wildcards_or_role_writes() {
        for rule in all(Access::Manage).iter().chain(&all(Access::Observe)) {
            for verb in strings(rule, "verbs") {
                assert!(WRITE_VERBS.contains(&verb), "{rule}");
            }
            for group in strings(rule, "apiGroups") {
                let is_only_read = strings(rule, "verbs") == READ_VERBS;
                assert!(group != "*" && (group != "rbac.authorization.k8s.io" || is_only_read), "{rule}");
                assert!(group == "example.com" || !strings(rule, "resources").contains(&"*"), "{rule}");
            }
        }
    }

    #[test]
    fn observers_only_read_and_no_secrets() {
        for rule in all(Access::Observe) {
            // Except its own token.
            if strings(&rule, "resources") == ["serviceaccounts/token"] {
                assert_eq!(
                    (strings(&rule, "resourceNames"), strings(&rule, "verbs")),
                    (vec![ACCOUNT], vec!["create"])
                );
                continue;
            }
            assert_eq!(strings(&rule, "verbs"), READ_VERBS, "{rule}");
            assert!(!strings(&rule, "resources").contains(&"secrets"), "{rule}");
            let config_maps = strings(&rule, "resources").contains(&"configmaps");
            assert!(!config_maps || strings(&rule, "resourceNames") == [CLAIM], "{rule}");
        }
    }

    #[test]
    fn added_groups_are_kept_in_an_annotation() {
        let groups = ["a.com".to_string(), "b.com".to_string()];
        let owner = json!({ "metadata": { "uid": "u" } });
        let role = cluster_role(Access::Manage, &groups, &owner);
        assert_eq!(groups_of(&role), groups);
        assert_eq!(role["metadata"]["ownerReferences"][0]["uid"], "u");
        assert!(groups_of(&cluster_role(Access::Manage, &[], &owner)).is_empty());
    }
}
