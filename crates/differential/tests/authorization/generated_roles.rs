//! Generates roles, bindings and questions about them from a seed.

use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";
/// Namespaces of roles and bindings.
pub const NAMESPACES: [&str; 2] = ["rbac-one", "rbac-two"];

const USERS: [&str; 5] = ["rbac-ann", "rbac-bob", "rbac-eve", "rbac <odd> & \"quoted\"", "rbac-nobody"];
const GROUPS: [&str; 4] = ["rbac-dev", "rbac-ops", "rbac-audit", "system:authenticated"];
const ACCOUNTS: [&str; 3] = ["robot", "builder", "default"];
const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "approve",
    "*",
];
const API_GROUPS: [&str; 5] = ["", "apps", "batch", GROUP, "*"];
const RESOURCES: [&str; 12] = [
    "pods",
    "pods/log",
    "pods/*",
    "*/scale",
    "*/status",
    "deployments",
    "deployments/scale",
    "secrets",
    "configmaps",
    "namespaces",
    "clusterroles",
    "*",
];
const NAMES: [&str; 3] = ["first", "second", "third"];
const PATHS: [&str; 7] = ["/logs", "/logs/*", "/metrics", "/api*", "/x/*", "/x/y", "*"];
/// Users and groups that the bootstrap roles grant something to.
const BOOTSTRAP_USERS: [(&str, &[&str]); 8] = [
    ("system:kube-scheduler", &["system:authenticated"]),
    ("system:kube-controller-manager", &["system:authenticated"]),
    (
        "system:serviceaccount:kube-system:deployment-controller",
        &["system:serviceaccounts", "system:authenticated"],
    ),
    ("system:serviceaccount:kube-system:namespace-controller", &["system:serviceaccounts"]),
    ("system:node:n1", &["system:nodes", "system:authenticated"]),
    ("system:anonymous", &["system:unauthenticated"]),
    ("root", &["system:masters"]),
    ("prometheus", &["system:monitoring", "system:authenticated"]),
];

/// A pseudorandom generator (xorshift).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Returns one to `most` of the values.
    fn some<'a>(&mut self, of: &[&'a str], most: usize) -> Vec<&'a str> {
        let count = 1 + self.below(most);
        let mut drawn: Vec<&str> = (0..count).map(|_| self.one(of)).collect();
        drawn.dedup();
        drawn
    }

    fn rules(&mut self, with_paths: bool) -> Value {
        let rules = (0..1 + self.below(3)).map(|_| {
            if with_paths && self.below(4) == 0 {
                return json!({ "verbs": self.some(&VERBS[..3], 2), "nonResourceURLs": self.some(&PATHS, 2) });
            }
            let mut rule = json!({
                "verbs": self.some(&VERBS, 4),
                "apiGroups": self.some(&API_GROUPS, 2),
                "resources": self.some(&RESOURCES, 3),
            });
            if self.below(4) == 0 {
                rule["resourceNames"] = json!(self.some(&NAMES, 2));
            }
            rule
        });
        Value::Array(rules.collect())
    }

    fn subject(&mut self) -> Value {
        match self.below(3) {
            0 => json!({ "kind": "User", "name": self.one(&USERS[..4]), "apiGroup": GROUP }),
            1 => json!({ "kind": "Group", "name": self.one(&GROUPS[..3]), "apiGroup": GROUP }),
            _ => {
                json!({ "kind": "ServiceAccount", "name": self.one(&ACCOUNTS), "namespace": self.one(&NAMESPACES) })
            }
        }
    }
}

/// The path of a collection, and an object to create in it.
pub type PathAndObject = (String, Value);

/// Generates namespaces, roles and bindings. Some bindings refer to missing roles.
pub fn objects(draw: &mut Draw) -> Vec<PathAndObject> {
    let core =
        NAMESPACES.map(|name| ("/api/v1/namespaces".to_string(), json!({ "metadata": { "name": name } })));
    let mut objects = Vec::from(core);
    let base = format!("/apis/{GROUP}/v1");
    for number in 0..14 {
        let role = json!({ "metadata": { "name": format!("rbac-{number}") }, "rules": draw.rules(true) });
        objects.push((format!("{base}/clusterroles"), role));
    }
    // These users may write roles and bindings, but must not grant more than they have.
    let write = json!([{ "verbs": ["create", "update", "patch"], "apiGroups": [GROUP], "resources": ["*"] }]);
    objects.push((
        format!("{base}/clusterroles"),
        json!({ "metadata": { "name": "rbac-writer" }, "rules": write }),
    ));
    objects.push((
        format!("{base}/clusterrolebindings"),
        json!({
            "metadata": { "name": "rbac-writer" },
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": "rbac-writer" },
            "subjects": USERS[..3].iter().map(|name| json!({ "kind": "User", "name": name })).collect::<Vec<_>>(),
        }),
    ));
    for namespace in NAMESPACES {
        for number in 0..5 {
            let role =
                json!({ "metadata": { "name": format!("rbac-{number}") }, "rules": draw.rules(false) });
            objects.push((format!("{base}/namespaces/{namespace}/roles"), role));
        }
    }
    for number in 0..12 {
        objects.push((format!("{base}/clusterrolebindings"), binding(draw, number, "ClusterRole", 16)));
    }
    for namespace in NAMESPACES {
        for number in 0..8 {
            let (kind, roles) = if draw.below(2) == 0 { ("ClusterRole", 16) } else { ("Role", 6) };
            objects.push((
                format!("{base}/namespaces/{namespace}/rolebindings"),
                binding(draw, number, kind, roles),
            ));
        }
    }
    objects
}

fn binding(draw: &mut Draw, number: usize, kind: &str, roles: usize) -> Value {
    let role = format!("rbac-{}", draw.below(roles));
    let subjects: Vec<Value> = (0..1 + draw.below(3)).map(|_| draw.subject()).collect();
    json!({
        "metadata": { "name": format!("rbac-{number}") },
        "roleRef": { "apiGroup": GROUP, "kind": kind, "name": role },
        "subjects": subjects,
    })
}

/// A question whether a user may do something.
#[derive(Clone, Debug)]
pub struct Question {
    pub user: String,
    pub groups: Vec<String>,
    pub verb: String,
    pub attributes: Attributes,
}

#[derive(Clone, Debug)]
pub enum Attributes {
    Resource { group: String, resource: String, subresource: String, namespace: String, name: String },
    Path(String),
}

/// Returns the path of a served version of a group.
pub fn version(group: &str) -> &'static str {
    match group {
        "" => "/api/v1",
        "apps" => "/apis/apps/v1",
        "batch" => "/apis/batch/v1",
        _ => "/apis/rbac.authorization.k8s.io/v1",
    }
}

impl Question {
    pub fn draw(draw: &mut Draw) -> Question {
        let (user, groups): (String, Vec<String>) = match draw.below(8) {
            0 => {
                let (user, groups) = BOOTSTRAP_USERS[draw.below(BOOTSTRAP_USERS.len())];
                (user.into(), groups.iter().map(ToString::to_string).collect())
            }
            1 | 2 => {
                let (namespace, name) = (draw.one(&NAMESPACES), draw.one(&ACCOUNTS));
                let own = format!("system:serviceaccounts:{namespace}");
                let groups = vec!["system:serviceaccounts".into(), own, "system:authenticated".into()];
                (format!("system:serviceaccount:{namespace}:{name}"), groups)
            }
            _ => {
                let groups = draw.some(&GROUPS, 3).into_iter().map(String::from).collect();
                (draw.one(&USERS).into(), groups)
            }
        };
        let attributes = if draw.below(6) == 0 {
            Attributes::Path(
                draw.one(&["/logs", "/logs/a", "/metrics", "/api", "/apix", "/x/y/z", "/", "/healthz"])
                    .into(),
            )
        } else {
            let (group, resource) = draw.one_pair();
            let subresource = if draw.below(3) == 0 { draw.one(&["log", "scale", "status"]) } else { "" };
            let namespace = if draw.below(3) == 0 { "" } else { draw.one(&NAMESPACES) };
            let name = if draw.below(2) == 0 { draw.one(&NAMES) } else { "" };
            let text = |text: &str| text.to_string();
            Attributes::Resource {
                group: text(group),
                resource: text(resource),
                subresource: text(subresource),
                namespace: text(namespace),
                name: text(name),
            }
        };
        let verb = match attributes {
            Attributes::Path(_) => draw.one(&["get", "list", "post"]),
            Attributes::Resource { .. } => draw.one(&VERBS[..11]),
        };
        Question { user, groups, verb: verb.into(), attributes }
    }

    pub fn review(&self) -> Value {
        let mut spec = json!({ "user": self.user, "groups": self.groups });
        match &self.attributes {
            Attributes::Path(path) => {
                spec["nonResourceAttributes"] = json!({ "verb": self.verb, "path": path })
            }
            Attributes::Resource { group, resource, subresource, namespace, name } => {
                spec["resourceAttributes"] = json!({
                    "verb": self.verb, "group": group, "resource": resource, "subresource": subresource,
                    "namespace": namespace, "name": name,
                });
            }
        }
        json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec })
    }

    /// Returns the request that corresponds to the question, if there is one.
    pub fn request(&self) -> Option<(&'static str, String)> {
        let method = |verb: &str, has_name: bool| match (verb, has_name) {
            ("get", true) | ("list", false) => Some("GET"),
            ("create", false) => Some("POST"),
            ("update", true) => Some("PUT"),
            ("patch", true) => Some("PATCH"),
            ("delete", true) => Some("DELETE"),
            _ => None,
        };
        match &self.attributes {
            Attributes::Path(path) => match self.verb.as_str() {
                "get" => Some(("GET", path.clone())),
                "post" => Some(("POST", path.clone())),
                _ => None,
            },
            Attributes::Resource { group, resource, subresource, namespace, name } => {
                let method = method(&self.verb, !name.is_empty())?;
                if !subresource.is_empty() && name.is_empty() {
                    return None;
                }
                let mut path = version(group).to_string();
                if !namespace.is_empty() {
                    path.push_str(&format!("/namespaces/{namespace}"));
                }
                path.push_str(&format!("/{resource}"));
                for part in [name, subresource].into_iter().filter(|part| !part.is_empty()) {
                    path.push_str(&format!("/{part}"));
                }
                Some((method, path))
            }
        }
    }
}

impl Draw {
    fn one_pair(&mut self) -> (&'static str, &'static str) {
        let pairs = [
            ("", "pods"),
            ("", "pods"),
            ("", "secrets"),
            ("", "configmaps"),
            ("apps", "deployments"),
            ("apps", "statefulsets"),
            ("batch", "jobs"),
            (GROUP, "clusterroles"),
            (GROUP, "roles"),
        ];
        pairs[self.below(pairs.len())]
    }

    /// Generates a role or binding, and the user who tries to create it.
    pub fn attempt(&mut self, number: usize) -> (String, Vec<String>, String, Value) {
        let user = self.one(&USERS[..3]).to_string();
        let groups = self.some(&GROUPS, 2).into_iter().map(String::from).collect();
        let base = format!("/apis/{GROUP}/v1");
        let namespace = self.one(&NAMESPACES);
        let name = format!("rbac-attempt-{number}");
        let (path, mut object) = match self.below(4) {
            0 => (format!("{base}/clusterroles"), json!({ "rules": self.rules(true) })),
            1 => (format!("{base}/namespaces/{namespace}/roles"), json!({ "rules": self.rules(false) })),
            2 => (format!("{base}/clusterrolebindings"), binding(self, number, "ClusterRole", 16)),
            _ => {
                let (kind, roles) = if self.below(2) == 0 { ("ClusterRole", 16) } else { ("Role", 6) };
                (format!("{base}/namespaces/{namespace}/rolebindings"), binding(self, number, kind, roles))
            }
        };
        if path.ends_with("/clusterroles") && self.below(5) == 0 {
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] });
        }
        object["metadata"] = json!({ "name": name });
        (user, groups, path, object)
    }
}
