//! What a syncer may do in a cluster: enough to keep there what is placed there, and nothing that would give it more.
//!
//! Roles and bindings stay with the cluster, as do webhooks, certificates and whatever else decides who may do what.
//! The ClusterRole and its binding belong to the namespace that Atoll keeps its own things in: whoever deletes the one
//! deletes all, so that a syncer can leave no trace without being allowed to write roles.

use atoll_fleet::marks::{CLAIM, LEASE, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

/// Name of the ServiceAccount, of its roles and of their bindings.
pub const ACCOUNT: &str = "atoll-syncer";

/// On the ClusterRole: groups of custom resources that an administrator has added.
pub const GROUPS: &str = "atoll.dev/groups";

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// For definitions, which are never deleted: all objects of their types would go with them, those of others included.
const DEFINE: [&str; 6] = ["get", "list", "watch", "create", "update", "patch"];

const DEFINITIONS: (&str, &[&str]) = ("apiextensions.k8s.io", &["customresourcedefinitions"]);

/// What can be placed, by group.
const PLACED: [(&str, &[&str]); 11] = [
    (
        "",
        &[
            "configmaps",
            "limitranges",
            "namespaces",
            "persistentvolumeclaims",
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

/// What is looked at on top of that, for the status of objects and of the cluster.
const SEEN: [(&str, &[&str]); 7] = [
    ("", &["endpoints", "events", "nodes", "persistentvolumes", "pods", "podtemplates"]),
    ("apps", &["controllerrevisions"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("events.k8s.io", &["events"]),
    // A namespace is deleted only after it was seen that nobody else has anything in it.
    ("coordination.k8s.io", &["leases"]),
    ("rbac.authorization.k8s.io", &["rolebindings", "roles"]),
    ("storage.k8s.io", &["csistoragecapacities"]),
];

/// What is looked at where nothing is placed: what runs there, but neither Secrets nor what ConfigMaps say.
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

/// What a cluster has joined for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Manage,
    Observe,
}

impl Access {
    /// As objects say it.
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
            let custom = groups.iter().map(|group| rule(group, &["*"], &WRITE));
            let verbs = |row: &(&str, &[&str])| if *row == DEFINITIONS { &DEFINE[..] } else { &WRITE[..] };
            let mut rules: Vec<Value> = PLACED.iter().map(|row| rule(row.0, row.1, verbs(row))).collect();
            rules.extend(table(&SEEN, &READ));
            // To take our marks off those that controllers copied them to. What is in a revision cannot be changed.
            rules.push(rule("apps", &["controllerrevisions"], &["patch"]));
            rules.extend(custom);
            rules
        }
        Access::Observe => table(&OBSERVED, &READ),
    }
}

/// The resources whose objects can be placed, as kubectl names them.
pub fn placed() -> Vec<String> {
    let all =
        PLACED.iter().flat_map(|(group, resources)| resources.iter().map(move |resource| (group, resource)));
    let placed =
        all.filter(|(_, resource)| **resource != "namespaces").map(|(group, resource)| match *group {
            "" => resource.to_string(),
            group => format!("{resource}.{group}"),
        });
    placed.collect()
}

/// What counts in the whole cluster. `owner` is the namespace.
pub fn cluster_role(access: Access, groups: &[String], owner: &Value) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": ACCOUNT, "ownerReferences": [owned_by(owner)] },
        "rules": rules(access, groups),
    });
    if !groups.is_empty() {
        role["metadata"]["annotations"] = json!({ GROUPS: groups.join(",") });
    }
    role
}

/// Lets a syncer list what others have defined in the cluster: a namespace is deleted only after it was seen to be empty.
pub fn list(role: &mut Value, groups: &[String]) {
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.extend(groups.iter().map(|group| rule(group, &["*"], &["list"])));
    }
}

/// The groups that an administrator has added to a ClusterRole.
pub fn groups_of(role: &Value) -> Vec<String> {
    let text = role["metadata"]["annotations"][GROUPS].as_str().unwrap_or_default();
    text.split(',').filter(|group| !group.is_empty()).map(str::to_string).collect()
}

/// What counts in the namespace that Atoll has there: the claim, a new token of one's own, and for those who sync a sign of life.
pub fn role(access: Access) -> Value {
    let claim = |verbs: &[&str]| json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLAIM], "verbs": verbs });
    let leases = |verbs: &[&str]| {
        let group = "coordination.k8s.io";
        json!({ "apiGroups": [group], "resources": ["leases"], "resourceNames": [LEASE], "verbs": verbs })
    };
    // Who cannot ask for a token of its own has to join again when the first one expires.
    let renewal = json!({
        "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [ACCOUNT],
        "verbs": ["create"],
    });
    let rules = match access {
        Access::Observe => vec![claim(&READ), leases(&READ), renewal],
        Access::Manage => vec![
            claim(&WRITE),
            leases(&WRITE),
            // What does not exist yet has no name to be allowed by.
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

/// Gives the account a role: a ClusterRole if `owner` is there, else the Role of the namespace.
pub fn binding(owner: Option<&Value>) -> Value {
    let (kind, of, metadata) = match owner {
        Some(owner) => (
            "ClusterRoleBinding",
            "ClusterRole",
            json!({ "name": ACCOUNT, "ownerReferences": [owned_by(owner)] }),
        ),
        None => ("RoleBinding", "Role", json!({ "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE })),
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": of, "name": ACCOUNT },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE }],
    })
}

fn owned_by(namespace: &Value) -> Value {
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

    fn words<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    #[test]
    fn nothing_gives_more_than_it_says() {
        for rule in all(Access::Manage).iter().chain(&all(Access::Observe)) {
            for verb in words(rule, "verbs") {
                assert!(WRITE.contains(&verb), "{rule}");
            }
            for group in words(rule, "apiGroups") {
                let is_only_read = words(rule, "verbs") == READ;
                assert!(group != "*" && (group != "rbac.authorization.k8s.io" || is_only_read), "{rule}");
                assert!(group == "example.com" || !words(rule, "resources").contains(&"*"), "{rule}");
            }
        }
    }

    #[test]
    fn whoever_observes_only_reads_and_no_secrets() {
        for rule in all(Access::Observe) {
            // But for its own token.
            if words(&rule, "resources") == ["serviceaccounts/token"] {
                assert_eq!(
                    (words(&rule, "resourceNames"), words(&rule, "verbs")),
                    (vec![ACCOUNT], vec!["create"])
                );
                continue;
            }
            assert_eq!(words(&rule, "verbs"), READ, "{rule}");
            assert!(!words(&rule, "resources").contains(&"secrets"), "{rule}");
            let config_maps = words(&rule, "resources").contains(&"configmaps");
            assert!(!config_maps || words(&rule, "resourceNames") == [CLAIM], "{rule}");
        }
    }

    #[test]
    fn groups_are_remembered() {
        let groups = ["a.com".to_string(), "b.com".to_string()];
        let owner = json!({ "metadata": { "uid": "u" } });
        let role = cluster_role(Access::Manage, &groups, &owner);
        assert_eq!(groups_of(&role), groups);
        assert_eq!(role["metadata"]["ownerReferences"][0]["uid"], "u");
        assert!(groups_of(&cluster_role(Access::Manage, &[], &owner)).is_empty());
    }
}
