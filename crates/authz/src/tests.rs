use atoll_meta::Deadline;
use atoll_store::Key;
use atoll_watch::object::TOMBSTONE;
use atoll_watch::{Facts, Layer, Observer};
use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::binding::GROUP;

const ROOT: Location<'static> = Location { id: "root", steps: &[] };

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": ["", "apps"], "resources": resources })
}

fn subjects(subject: &str) -> Value {
    let (kind, name) = subject.split_once(' ').expect("a kind and a name");
    match name.split_once('/') {
        Some((namespace, name)) => json!([{ "kind": kind, "name": name, "namespace": namespace }]),
        None => json!([{ "kind": kind, "name": name }]),
    }
}

/// The policies of a test.
struct TestPolicies {
    policies: Policies,
}

impl TestPolicies {
    /// The bootstrap layer has a role `reader`, bound to the group `readers`.
    fn new() -> TestPolicies {
        let mut layer = Layer::default();
        let mut add = |resource: &str, name: &str, object: Value| {
            let encoded = Bytes::from(atoll_meta::json::encode_object(&object));
            layer.add(GROUP, resource, "", name, encoded, Facts::default());
        };
        add("clusterroles", "reader", json!({ "rules": [rule(&["get", "list"], &["pods"])] }));
        let role = json!({ "kind": "ClusterRole", "name": "reader" });
        add(
            "clusterrolebindings",
            "readers",
            json!({ "roleRef": role, "subjects": subjects("Group readers") }),
        );
        TestPolicies { policies: Policies::new(&layer) }
    }

    fn write(&self, workspace: &str, resource: &str, namespace: &str, name: &str, object: Option<Value>) {
        let value = object.map(|object| Bytes::from(atoll_meta::json::encode_object(&object)));
        self.policies.changed(&Key::object(GROUP, resource, workspace, namespace, name), value.as_ref(), 2);
    }

    fn role(&self, workspace: &str, namespace: &str, name: &str, rules: Value) {
        let resource = if namespace.is_empty() { "clusterroles" } else { "roles" };
        self.write(workspace, resource, namespace, name, Some(json!({ "rules": rules })));
    }

    fn bind(&self, workspace: &str, namespace: &str, role: &str, subject: &str) {
        let (resource, name) =
            if namespace.is_empty() { ("clusterrolebindings", "b") } else { ("rolebindings", "b") };
        let (kind, role) = role.split_once(' ').expect("a kind and a name");
        let role = json!({ "kind": kind, "name": role });
        let binding = json!({ "roleRef": role, "subjects": subjects(subject) });
        self.write(workspace, resource, namespace, name, Some(binding));
    }

    fn unbind(&self, workspace: &str, namespace: &str) {
        let resource = if namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" };
        self.write(workspace, resource, namespace, "b", None);
    }

    /// Returns the error for an access to Pods in the namespace `n`; empty if it is allowed.
    fn denial(&self, location: Location<'_>, user: &User, verb: &str) -> String {
        let (group, resource, subresource, namespace, name) = ("", "pods", "", "n", "");
        let target = Target::Resource { group, resource, subresource, namespace, name };
        let asked = self.policies.authorizer(location, &Deadline::never()).authorize(&Attributes {
            user,
            verb,
            target,
        });
        asked.err().map(|status| status.message().to_string()).unwrap_or_default()
    }

    fn is_allowed(&self, location: Location<'_>, user: &User, verb: &str) -> bool {
        self.denial(location, user, verb).is_empty()
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    User::authenticated(name.into(), String::new(), groups.iter().map(ToString::to_string).collect())
}

#[test]
fn grants_apply_until_they_are_deleted() {
    let policies = TestPolicies::new();
    let (ann, robot) = (user("ann", &["dev"]), user("system:serviceaccount:n:robot", &[]));
    assert!(!policies.is_allowed(ROOT, &ann, "delete"));
    policies.role("root", "", "deleter", json!([rule(&["delete"], &["pods"])]));
    for (role, namespace, subject, who) in [
        ("ClusterRole deleter", "", "User ann", &ann),
        ("ClusterRole deleter", "", "Group dev", &ann),
        ("ClusterRole deleter", "", "ServiceAccount n/robot", &robot),
        ("ClusterRole deleter", "n", "ServiceAccount robot", &robot),
        ("ClusterRole deleter", "n", "Group system:authenticated", &ann),
    ] {
        policies.bind("root", namespace, role, subject);
        assert!(policies.is_allowed(ROOT, who, "delete"), "{role} {namespace} {subject}");
        policies.unbind("root", namespace);
        assert!(!policies.is_allowed(ROOT, who, "delete"), "{role} {namespace} {subject}");
    }
    for (namespace, subject) in [("m", "User ann"), ("n", "User bob"), ("", "ServiceAccount robot")] {
        policies.bind("root", namespace, "ClusterRole deleter", subject);
        assert!(!policies.is_allowed(ROOT, &ann, "delete") && !policies.is_allowed(ROOT, &robot, "delete"));
        policies.unbind("root", namespace);
    }
    policies.role("root", "n", "own", json!([rule(&["delete"], &["pods"])]));
    policies.bind("root", "n", "Role own", "User ann");
    assert!(policies.is_allowed(ROOT, &ann, "delete"));
    policies.role("root", "n", "own", json!([rule(&["update"], &["pods"])]));
    assert!(!policies.is_allowed(ROOT, &ann, "delete") && policies.is_allowed(ROOT, &ann, "update"));
    policies.write("root", "roles", "n", "own", None);
    assert!(!policies.is_allowed(ROOT, &ann, "update"));
}

#[test]
fn bootstrap_layer_applies_unless_overridden() {
    let policies = TestPolicies::new();
    let reader = user("ann", &["readers"]);
    let other = Location { id: "w", ..ROOT };
    assert!(policies.is_allowed(ROOT, &reader, "get") && policies.is_allowed(other, &reader, "get"));
    let tombstone = Bytes::from_static(TOMBSTONE);
    let key = Key::object(GROUP, "clusterrolebindings", "w", "", "readers");
    policies.policies.changed(&key, Some(&tombstone), 2);
    assert!(policies.is_allowed(ROOT, &reader, "get") && !policies.is_allowed(other, &reader, "get"));
    policies.policies.changed(&key, None, 3);
    assert!(policies.is_allowed(other, &reader, "get"));
    policies.role("w", "", "reader", json!([rule(&["watch"], &["pods"])]));
    assert!(!policies.is_allowed(other, &reader, "get") && policies.is_allowed(other, &reader, "watch"));
    assert!(!policies.is_allowed(ROOT, &reader, "watch"));
    let key = Key::object(GROUP, "clusterroles", "w", "", "reader");
    policies.policies.changed(&key, Some(&tombstone), 4);
    assert!(policies.denial(other, &reader, "get").ends_with(
        "in the namespace \"n\": RBAC: clusterrole.rbac.authorization.k8s.io \"reader\" not found"
    ));
}

#[test]
fn access_and_administration_are_granted_by_ancestors() {
    let policies = TestPolicies::new();
    let step = |parent: &str, name: &str| Step { parent: parent.into(), name: name.into() };
    let steps = [step("root", "org"), step("o", "team")];
    let (org, team) = (Location { id: "o", steps: &steps[..1] }, Location { id: "t", steps: &steps });
    let (ann, master) = (user("ann", &["readers"]), user("root", &[MASTERS]));
    let has_access = |location: Location<'_>, user: &User| {
        policies.policies.authorizer(location, &Deadline::never()).has_access(user)
    };
    assert!(has_access(ROOT, &User::anonymous()) && has_access(team, &master));
    assert!(!has_access(org, &ann) && !has_access(team, &ann));
    assert!(has_access(team, &ann.clone().of_workspace("t")), "a user of the workspace has access");
    assert!(!has_access(team, &ann.clone().of_workspace("o")));
    // A role in one workspace grants nothing in another.
    policies.role("o", "", "all", json!([rule(&["*"], &["*"])]));
    policies.bind("o", "", "ClusterRole all", "User ann");
    assert!(
        policies.is_allowed(org, &ann, "delete")
            && !policies.is_allowed(team, &ann, "delete")
            && !policies.is_allowed(ROOT, &ann, "delete")
    );
    assert!(!has_access(org, &ann), "a role does not imply access");
    let access = json!([{ "verbs": ["access"], "nonResourceURLs": ["/"] }]);
    policies.role("o", "", "all", access);
    assert!(has_access(org, &ann) && !has_access(team, &ann));
    let content = |verb: &str, name: &str| json!([{ "verbs": [verb], "apiGroups": ["atoll.dev"], "resources": ["workspaces/content"], "resourceNames": [name] }]);
    policies.role("o", "", "all", content("access", "team"));
    assert!(!has_access(org, &ann) && has_access(team, &ann) && !policies.is_allowed(team, &ann, "delete"));
    policies.role("o", "", "all", content("admin", "other"));
    assert!(!has_access(team, &ann));
    policies.role("o", "", "all", content("admin", "team"));
    assert!(
        has_access(team, &ann)
            && policies.is_allowed(team, &ann, "delete")
            && !policies.is_allowed(org, &ann, "delete")
    );
    policies.unbind("o", "");
    policies.role("root", "", "all", content("admin", "org"));
    policies.bind("root", "", "ClusterRole all", "User ann");
    for location in [org, team] {
        assert!(has_access(location, &ann) && policies.is_allowed(location, &ann, "delete"));
    }
    assert!(!policies.is_allowed(ROOT, &ann, "delete"));
    let target = Target::Path("/x");
    let Decision::Allowed(grant) = policies
        .policies
        .authorizer(team, &Deadline::never())
        .decide(&Attributes { user: &ann, verb: "get", target })
    else {
        panic!("refused")
    };
    assert_eq!(
        grant.reason(&ann),
        "RBAC: allowed above the workspace \"org\" by ClusterRoleBinding \"b\" of ClusterRole \"all\" to User \"ann\""
    );
}

#[test]
fn refusals_are_worded_as_upstream() {
    let user = User::anonymous();
    let resource = |subresource, namespace, name| Target::Resource {
        group: "apps",
        resource: "deployments",
        subresource,
        namespace,
        name,
    };
    let cases = [
        (
            resource("", "golden", ""),
            "deployments.apps is forbidden: User \"system:anonymous\" cannot list resource \"deployments\" in API group \"apps\" in the namespace \"golden\"",
        ),
        (
            resource("scale", "", "x"),
            "deployments.apps \"x\" is forbidden: User \"system:anonymous\" cannot list resource \"deployments/scale\" in API group \"apps\" at the cluster scope",
        ),
        (Target::Path("/<a>&"), "forbidden: User \"system:anonymous\" cannot list path \"/&lt;a&gt;&amp;\""),
    ];
    for (target, message) in cases {
        let test = TestPolicies::new();
        let status = test.policies.authorizer(ROOT, &Deadline::never()).authorize(&Attributes {
            user: &user,
            verb: "list",
            target,
        });
        assert_eq!(status.unwrap_err().message(), message);
    }
    let missing =
        [MissingRole::Role("a".into()), MissingRole::ClusterRole("b".into()), MissingRole::Role("a".into())];
    assert_eq!(
        reason(&missing),
        "RBAC: [role.rbac.authorization.k8s.io \"a\" not found, clusterrole.rbac.authorization.k8s.io \"b\" not found]"
    );
}

#[test]
fn escalation_is_refused() {
    let policies = TestPolicies::new();
    let ann = user("ann", &["readers"]);
    let check = |user: &User, resource: &str, name: &str, new: Value, old: Option<Value>| {
        let namespace = if resource.starts_with("cluster") { "" } else { "n" };
        let change = RoleChange { user, resource, namespace, name, new: &new, old: old.as_ref() };
        let checked = policies.policies.authorizer(ROOT, &Deadline::never()).check_escalation(&change);
        checked.err().map(|status| status.message().to_string()).unwrap_or_default()
    };
    let role = |rules: Value| json!({ "metadata": { "name": "r" }, "rules": rules });
    let held =
        json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"] }]);
    let more = json!([
        { "verbs": ["get", "delete", "watch"], "apiGroups": [""], "resources": ["pods"] },
        { "verbs": ["get"], "nonResourceURLs": ["/a", "/b"] },
        { "verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["x"] },
    ]);
    assert_eq!(check(&ann, "clusterroles", "", role(held.clone()), None), "");
    let refused = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: user \"ann\" (groups=[\"readers\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
        {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}\n\
        {APIGroups:[\"\"], Resources:[\"pods/log\"], ResourceNames:[\"x\"], Verbs:[\"get\"]}\n\
        {NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}\n\
        {NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}";
    assert_eq!(check(&ann, "clusterroles", "", role(more.clone()), None), refused);
    assert_eq!(check(&user("root", &[MASTERS]), "clusterroles", "", role(more.clone()), None), "");
    // Metadata for garbage collection may change.
    let mut kept = role(more.clone());
    kept["metadata"]["finalizers"] = json!(["a/b"]);
    assert_eq!(check(&ann, "roles", "r", role(more.clone()), Some(kept.clone())), "");
    kept["metadata"]["labels"] = json!({ "a": "b" });
    assert_ne!(check(&ann, "roles", "r", role(more.clone()), Some(kept)), "");
    let mut aggregates = role(json!([]));
    aggregates["aggregationRule"] = json!({ "clusterRoleSelectors": [{}] });
    let message = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: must have cluster-admin privileges to use the aggregationRule";
    assert_eq!(check(&ann, "clusterroles", "", aggregates.clone(), None), message);
    assert_eq!(check(&ann, "clusterroles", "r", role(json!([])), Some(aggregates)), message);
    let many = vec!["x"; 1001];
    let huge = json!([{ "verbs": many, "apiGroups": many, "resources": ["pods"] }]);
    assert!(check(&ann, "roles", "", role(huge), None).contains("more than 1000000"));
    let binding = |kind: &str, name: &str| json!({ "metadata": { "name": "b" }, "roleRef": { "kind": kind, "name": name } });
    assert_eq!(check(&ann, "rolebindings", "", binding("ClusterRole", "reader"), None), "");
    assert_eq!(
        check(&ann, "rolebindings", "", binding("Role", "none"), None),
        "rolebindings.rbac.authorization.k8s.io \"none\" not found"
    );
    policies.role("root", "", "strong", more);
    assert!(check(&ann, "clusterrolebindings", "", binding("ClusterRole", "strong"), None).starts_with(
        "clusterrolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"ann\" (groups="
    ));
    let bind = json!([{ "verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["strong"] }]);
    policies.role("root", "", "binder", bind);
    policies.bind("root", "n", "ClusterRole binder", "User ann");
    assert_eq!(check(&ann, "rolebindings", "", binding("ClusterRole", "strong"), None), "");
    assert_ne!(check(&ann, "clusterrolebindings", "", binding("ClusterRole", "strong"), None), "");
}

#[test]
fn bindings_do_not_apply_to_identities_of_other_workspaces() {
    let policies = TestPolicies::new();
    let steps = [Step { parent: "root".into(), name: "team".into() }];
    let team = Location { id: "t", steps: &steps };
    let everything = json!([
        { "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] },
        { "verbs": ["*"], "nonResourceURLs": ["*"] },
    ]);
    policies.role("root", "", "all", everything.clone());
    let robot = user(
        "system:serviceaccount:n:robot",
        &["system:serviceaccounts", "system:serviceaccounts:n", "dev", "readers"],
    );
    let own = robot.clone().of_workspace("t");
    for subject in [
        "User system:serviceaccount:n:robot",
        "ServiceAccount n/robot",
        "Group system:serviceaccounts",
        "Group system:serviceaccounts:n",
        "Group system:authenticated",
        "Group dev",
    ] {
        policies.bind("root", "", "ClusterRole all", subject);
        assert!(policies.is_allowed(team, &robot, "delete"), "{subject}: a global user");
        assert!(!policies.is_allowed(team, &own, "delete"), "{subject}");
        assert!(!policies.policies.authorizer(team, &Deadline::never()).is_granted_access(&own), "{subject}");
        assert!(!policies.policies.authorizer(team, &Deadline::never()).is_administrator(&own), "{subject}");
        let deadline = Deadline::never();
        let authorizer = policies.policies.authorizer(team, &deadline);
        let (roles, _) = authorizer.roles_of(&own, "n");
        assert!(!roles.contains(&Rule::everything()), "{subject}: {roles:?}");
        policies.unbind("root", "");
    }
    assert!(policies.is_allowed(team, &own, "get"), "the bootstrap layer applies in the own workspace");
    policies.role("t", "", "all", everything);
    policies.bind("t", "", "ClusterRole all", "ServiceAccount n/robot");
    assert!(policies.is_allowed(team, &own, "delete"), "the workspace's own bindings apply");
    assert!(
        !policies.is_allowed(team, &robot.clone().of_workspace("o"), "delete"),
        "only to accounts of this workspace"
    );
    let master = user("root", &[MASTERS]).of_workspace("t");
    assert!(policies.is_allowed(team, &master, "delete") && !is_master(&master));
    assert!(
        !policies.is_allowed(ROOT, &master, "delete"),
        "a master of one workspace has no rights in others"
    );
}

#[test]
fn evaluation_ends_at_its_deadline() {
    let policies = TestPolicies::new();
    let many: Vec<Value> = (0..5000).map(|_| rule(&["get"], &["pods"])).collect();
    policies.role("root", "", "many", many.into());
    policies.bind("root", "", "ClusterRole many", "User ann");
    let ann = User::authenticated("ann".into(), String::new(), Vec::new());
    let target =
        Target::Resource { group: "", resource: "secrets", subresource: "", namespace: "n", name: "" };
    let checks = std::cell::Cell::new(0);
    let is_over = || {
        checks.set(checks.get() + 1);
        checks.get() > 2
    };
    let deadline = Deadline::new(&is_over);
    let authorizer = policies.policies.authorizer(ROOT, &deadline);
    assert!(authorizer.authorize(&Attributes { user: &ann, verb: "get", target }).is_err());
    assert!(deadline.has_passed(), "the rules take more steps than the deadline allows");
    assert_eq!(checks.get(), 3);
}

#[test]
fn a_large_role_is_evaluated_once() {
    let policies = TestPolicies::new();
    let many: Vec<Value> = (0..1000).map(|_| rule(&["get"], &["pods"])).collect();
    policies.role("root", "", "many", many.into());
    for number in 0..1000 {
        let role = json!({ "kind": "ClusterRole", "name": "many" });
        let binding = json!({ "roleRef": role, "subjects": subjects("User ann") });
        policies.write("root", "clusterrolebindings", "", &format!("b{number}"), Some(binding));
    }
    let ann = User::authenticated("ann".into(), String::new(), Vec::new());
    let target =
        Target::Resource { group: "", resource: "secrets", subresource: "", namespace: "n", name: "" };
    let checks = std::cell::Cell::new(0);
    let is_over = || {
        checks.set(checks.get() + 1);
        false
    };
    let deadline = Deadline::new(&is_over);
    let authorizer = policies.policies.authorizer(ROOT, &deadline);
    assert!(authorizer.authorize(&Attributes { user: &ann, verb: "get", target }).is_err());
    // A thousand rules and a thousand bindings, not a million rules.
    assert!(checks.get() < 20, "{}", checks.get());
    assert_eq!(authorizer.roles_of(&ann, "n").0.len(), 1000, "reviews show the role of each binding");
}

/// A token is withheld from Pods if the rights of its account cannot be found out in time.
#[test]
fn accounts_count_as_having_rights_after_the_deadline() {
    let policies = TestPolicies::new();
    for number in 0..5000 {
        let role = json!({ "kind": "ClusterRole", "name": "missing" });
        let binding = json!({ "roleRef": role, "subjects": subjects("Group system:serviceaccounts") });
        policies.write("root", "clusterrolebindings", "", &format!("b{number}"), Some(binding));
    }
    let is_over = || true;
    for (deadline, expected) in [(Deadline::never(), false), (Deadline::new(&is_over), true)] {
        assert_eq!(policies.policies.at("root", &deadline).grants_any("n", "a"), expected);
    }
}
