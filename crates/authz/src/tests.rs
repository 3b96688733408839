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
struct World {
    policies: Policies,
}

impl World {
    /// The bootstrap layer has a role `reader`, bound to the group `readers`.
    fn new() -> World {
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
        World { policies: Policies::new(&layer) }
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
    fn asks(&self, location: Location<'_>, user: &User, verb: &str) -> String {
        let (group, resource, subresource, namespace, name) = ("", "pods", "", "n", "");
        let target = Target::Resource { group, resource, subresource, namespace, name };
        let asked = self.policies.here(location).authorize(&Attributes { user, verb, target });
        asked.err().map(|status| status.message().to_string()).unwrap_or_default()
    }

    fn may(&self, location: Location<'_>, user: &User, verb: &str) -> bool {
        self.asks(location, user, verb).is_empty()
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    User::authenticated(name.into(), String::new(), groups.iter().map(ToString::to_string).collect())
}

#[test]
fn grants_apply_until_they_are_deleted() {
    let world = World::new();
    let (ann, robot) = (user("ann", &["dev"]), user("system:serviceaccount:n:robot", &[]));
    assert!(!world.may(ROOT, &ann, "delete"));
    world.role("root", "", "deleter", json!([rule(&["delete"], &["pods"])]));
    for (role, namespace, subject, who) in [
        ("ClusterRole deleter", "", "User ann", &ann),
        ("ClusterRole deleter", "", "Group dev", &ann),
        ("ClusterRole deleter", "", "ServiceAccount n/robot", &robot),
        ("ClusterRole deleter", "n", "ServiceAccount robot", &robot),
        ("ClusterRole deleter", "n", "Group system:authenticated", &ann),
    ] {
        world.bind("root", namespace, role, subject);
        assert!(world.may(ROOT, who, "delete"), "{role} {namespace} {subject}");
        world.unbind("root", namespace);
        assert!(!world.may(ROOT, who, "delete"), "{role} {namespace} {subject}");
    }
    for (namespace, subject) in [("m", "User ann"), ("n", "User bob"), ("", "ServiceAccount robot")] {
        world.bind("root", namespace, "ClusterRole deleter", subject);
        assert!(!world.may(ROOT, &ann, "delete") && !world.may(ROOT, &robot, "delete"));
        world.unbind("root", namespace);
    }
    world.role("root", "n", "own", json!([rule(&["delete"], &["pods"])]));
    world.bind("root", "n", "Role own", "User ann");
    assert!(world.may(ROOT, &ann, "delete"));
    world.role("root", "n", "own", json!([rule(&["update"], &["pods"])]));
    assert!(!world.may(ROOT, &ann, "delete") && world.may(ROOT, &ann, "update"));
    world.write("root", "roles", "n", "own", None);
    assert!(!world.may(ROOT, &ann, "update"));
}

#[test]
fn bootstrap_layer_applies_unless_overridden() {
    let world = World::new();
    let reader = user("ann", &["readers"]);
    let other = Location { id: "w", ..ROOT };
    assert!(world.may(ROOT, &reader, "get") && world.may(other, &reader, "get"));
    let tombstone = Bytes::from_static(TOMBSTONE);
    let key = Key::object(GROUP, "clusterrolebindings", "w", "", "readers");
    world.policies.changed(&key, Some(&tombstone), 2);
    assert!(world.may(ROOT, &reader, "get") && !world.may(other, &reader, "get"));
    world.policies.changed(&key, None, 3);
    assert!(world.may(other, &reader, "get"));
    world.role("w", "", "reader", json!([rule(&["watch"], &["pods"])]));
    assert!(!world.may(other, &reader, "get") && world.may(other, &reader, "watch"));
    assert!(!world.may(ROOT, &reader, "watch"));
    let key = Key::object(GROUP, "clusterroles", "w", "", "reader");
    world.policies.changed(&key, Some(&tombstone), 4);
    assert!(world.asks(other, &reader, "get").ends_with(
        "in the namespace \"n\": RBAC: clusterrole.rbac.authorization.k8s.io \"reader\" not found"
    ));
}

#[test]
fn access_and_administration_are_granted_by_ancestors() {
    let world = World::new();
    let step = |parent: &str, name: &str| Step { parent: parent.into(), name: name.into() };
    let steps = [step("root", "org"), step("o", "team")];
    let (org, team) = (Location { id: "o", steps: &steps[..1] }, Location { id: "t", steps: &steps });
    let (ann, master) = (user("ann", &["readers"]), user("root", &[MASTERS]));
    let enters = |location: Location<'_>, user: &User| world.policies.here(location).may_enter(user);
    assert!(enters(ROOT, &User::anonymous()) && enters(team, &master));
    assert!(!enters(org, &ann) && !enters(team, &ann));
    assert!(enters(team, &ann.clone().of_workspace("t")), "a user of the workspace has access");
    assert!(!enters(team, &ann.clone().of_workspace("o")));
    // A role in one workspace grants nothing in another.
    world.role("o", "", "all", json!([rule(&["*"], &["*"])]));
    world.bind("o", "", "ClusterRole all", "User ann");
    assert!(
        world.may(org, &ann, "delete")
            && !world.may(team, &ann, "delete")
            && !world.may(ROOT, &ann, "delete")
    );
    assert!(!enters(org, &ann), "a role does not imply access");
    let access = json!([{ "verbs": ["access"], "nonResourceURLs": ["/"] }]);
    world.role("o", "", "all", access);
    assert!(enters(org, &ann) && !enters(team, &ann));
    let content = |verb: &str, name: &str| json!([{ "verbs": [verb], "apiGroups": ["atoll.dev"], "resources": ["workspaces/content"], "resourceNames": [name] }]);
    world.role("o", "", "all", content("access", "team"));
    assert!(!enters(org, &ann) && enters(team, &ann) && !world.may(team, &ann, "delete"));
    world.role("o", "", "all", content("admin", "other"));
    assert!(!enters(team, &ann));
    world.role("o", "", "all", content("admin", "team"));
    assert!(enters(team, &ann) && world.may(team, &ann, "delete") && !world.may(org, &ann, "delete"));
    world.unbind("o", "");
    world.role("root", "", "all", content("admin", "org"));
    world.bind("root", "", "ClusterRole all", "User ann");
    for location in [org, team] {
        assert!(enters(location, &ann) && world.may(location, &ann, "delete"));
    }
    assert!(!world.may(ROOT, &ann, "delete"));
    let target = Target::Path("/x");
    let Decision::Allowed(grant) =
        world.policies.here(team).decide(&Attributes { user: &ann, verb: "get", target })
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
        let here = World::new();
        let status = here.policies.here(ROOT).authorize(&Attributes { user: &user, verb: "list", target });
        assert_eq!(status.unwrap_err().message(), message);
    }
    let missing = [Missing::Role("a".into()), Missing::ClusterRole("b".into()), Missing::Role("a".into())];
    assert_eq!(
        reason(&missing),
        "RBAC: [role.rbac.authorization.k8s.io \"a\" not found, clusterrole.rbac.authorization.k8s.io \"b\" not found]"
    );
}

#[test]
fn escalation_is_refused() {
    let world = World::new();
    let ann = user("ann", &["readers"]);
    let check = |user: &User, resource: &str, name: &str, new: Value, old: Option<Value>| {
        let namespace = if resource.starts_with("cluster") { "" } else { "n" };
        let change = Change { user, resource, namespace, name, new: &new, old: old.as_ref() };
        let checked = world.policies.here(ROOT).check_escalation(&change);
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
    let mut gathers = role(json!([]));
    gathers["aggregationRule"] = json!({ "clusterRoleSelectors": [{}] });
    let message = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: must have cluster-admin privileges to use the aggregationRule";
    assert_eq!(check(&ann, "clusterroles", "", gathers.clone(), None), message);
    assert_eq!(check(&ann, "clusterroles", "r", role(json!([])), Some(gathers)), message);
    let many = vec!["x"; 1001];
    let huge = json!([{ "verbs": many, "apiGroups": many, "resources": ["pods"] }]);
    assert!(check(&ann, "roles", "", role(huge), None).contains("more than 1000000"));
    let binding = |kind: &str, name: &str| json!({ "metadata": { "name": "b" }, "roleRef": { "kind": kind, "name": name } });
    assert_eq!(check(&ann, "rolebindings", "", binding("ClusterRole", "reader"), None), "");
    assert_eq!(
        check(&ann, "rolebindings", "", binding("Role", "none"), None),
        "rolebindings.rbac.authorization.k8s.io \"none\" not found"
    );
    world.role("root", "", "strong", more);
    assert!(check(&ann, "clusterrolebindings", "", binding("ClusterRole", "strong"), None).starts_with(
        "clusterrolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"ann\" (groups="
    ));
    let bind = json!([{ "verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["strong"] }]);
    world.role("root", "", "binder", bind);
    world.bind("root", "n", "ClusterRole binder", "User ann");
    assert_eq!(check(&ann, "rolebindings", "", binding("ClusterRole", "strong"), None), "");
    assert_ne!(check(&ann, "clusterrolebindings", "", binding("ClusterRole", "strong"), None), "");
}

#[test]
fn bindings_do_not_apply_to_identities_of_other_workspaces() {
    let world = World::new();
    let steps = [Step { parent: "root".into(), name: "team".into() }];
    let team = Location { id: "t", steps: &steps };
    let everything = json!([
        { "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] },
        { "verbs": ["*"], "nonResourceURLs": ["*"] },
    ]);
    world.role("root", "", "all", everything.clone());
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
        world.bind("root", "", "ClusterRole all", subject);
        assert!(world.may(team, &robot, "delete"), "{subject}: a global user");
        assert!(!world.may(team, &own, "delete"), "{subject}");
        assert!(!world.policies.here(team).may_enter_as(&own), "{subject}");
        assert!(!world.policies.here(team).is_administrator(&own), "{subject}");
        let (rules, _) = world.policies.here(team).rules_for(&own, "n");
        assert!(!rules.iter().any(|rule| Rule::everything().contains(rule)), "{subject}: {rules:?}");
        world.unbind("root", "");
    }
    assert!(world.may(team, &own, "get"), "the bootstrap layer applies in the own workspace");
    world.role("t", "", "all", everything);
    world.bind("t", "", "ClusterRole all", "ServiceAccount n/robot");
    assert!(world.may(team, &own, "delete"), "the workspace's own bindings apply");
    assert!(
        !world.may(team, &robot.clone().of_workspace("o"), "delete"),
        "only to accounts of this workspace"
    );
    let master = user("root", &[MASTERS]).of_workspace("t");
    assert!(world.may(team, &master, "delete") && !is_master(&master));
    assert!(!world.may(ROOT, &master, "delete"), "a master of one workspace has no rights in others");
}
