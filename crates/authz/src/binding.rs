//! RoleBindings and ClusterRoleBindings.

// upstream: pkg/registry/rbac/validation/rule.go

use std::sync::Arc;

use atoll_authn::User;
use atoll_meta::quote::quote;
use serde_json::Value;

pub const GROUP: &str = "rbac.authorization.k8s.io";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

#[derive(Debug, PartialEq, Eq)]
pub struct Binding {
    /// Empty for a ClusterRoleBinding.
    pub namespace: Box<str>,
    pub name: Arc<str>,
    pub role: RoleRef,
    pub subjects: Box<[Subject]>,
}

/// The role that a binding refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    pub group: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Subject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
}

/// The user or group that a subject refers to.
pub enum Principal<'a> {
    User(Box<str>),
    Group(&'a str),
}

impl RoleRef {
    pub fn of(binding: &Value) -> RoleRef {
        let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default().into();
        let group: Box<str> = text("apiGroup");
        let group = if group.is_empty() { GROUP.into() } else { group };
        RoleRef { group, kind: text("kind"), name: text("name") }
    }
}

impl Binding {
    pub fn parse(namespace: &str, name: &str, binding: &Value) -> Binding {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let subjects = subjects.map(|subject| {
            let text = |field: &str| subject[field].as_str().unwrap_or_default().into();
            Subject { kind: text("kind"), name: text("name"), namespace: text("namespace") }
        });
        Binding {
            namespace: namespace.into(),
            name: name.into(),
            role: RoleRef::of(binding),
            subjects: subjects.collect(),
        }
    }

    /// Returns the users and groups of the binding. Subjects of unknown kinds are skipped.
    pub fn principals(&self) -> impl Iterator<Item = Principal<'_>> {
        self.subjects.iter().filter_map(|subject| match &*subject.kind {
            "User" => Some(Principal::User(subject.name.clone())),
            "Group" => Some(Principal::Group(&subject.name)),
            "ServiceAccount" => {
                let namespace = self.namespace_of(subject);
                let user = || format!("{ACCOUNT_PREFIX}{namespace}:{}", subject.name);
                (!namespace.is_empty()).then(|| Principal::User(user().into()))
            }
            _ => None,
        })
    }

    /// A ServiceAccount without a namespace is in the binding's own.
    fn namespace_of<'a>(&'a self, account: &'a Subject) -> &'a str {
        if account.namespace.is_empty() { &self.namespace } else { &account.namespace }
    }

    fn is_for(&self, subject: &Subject, user: &User) -> bool {
        match &*subject.kind {
            "User" => *user.name == *subject.name,
            "Group" => user.is_in(&subject.name),
            "ServiceAccount" => {
                let namespace = self.namespace_of(subject);
                let rest = user.name.strip_prefix(ACCOUNT_PREFIX).filter(|_| !namespace.is_empty());
                let rest = rest.and_then(|rest| rest.strip_prefix(namespace));
                rest.and_then(|rest| rest.strip_prefix(':')) == Some(&subject.name)
            }
            _ => false,
        }
    }

    /// Describes how the binding grants access to this user.
    pub fn describe(&self, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| self.is_for(subject, user));
        let subject = subject.map(|subject| {
            let name = match &*subject.kind {
                "ServiceAccount" => format!("{}/{}", subject.name, self.namespace_of(subject)),
                _ => subject.name.to_string(),
            };
            format!("{} {}", subject.kind, quote(&name))
        });
        let (kind, name) = match &*self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let RoleRef { kind: role_kind, name: role, .. } = &self.role;
        let subject = subject.unwrap_or_default();
        format!("{kind} {} of {role_kind} {} to {subject}", quote(&name), quote(role))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grants_are_described_as_upstream() {
        let binding = |namespace: &str, subjects: Value| {
            let role = json!({ "kind": "ClusterRole", "name": "view" });
            Binding::parse(namespace, "b", &json!({ "roleRef": role, "subjects": subjects }))
        };
        let user = User::authenticated("system:serviceaccount:n:a".into(), String::new(), vec!["dev".into()]);
        let cases = [
            (
                "",
                json!([{ "kind": "Group", "name": "dev" }]),
                "ClusterRoleBinding \"b\" of ClusterRole \"view\" to Group \"dev\"",
            ),
            (
                "n",
                json!([{ "kind": "ServiceAccount", "name": "a" }]),
                "RoleBinding \"b/n\" of ClusterRole \"view\" to ServiceAccount \"a/n\"",
            ),
            (
                "m",
                json!([{ "kind": "ServiceAccount", "name": "a" }, { "kind": "ServiceAccount", "name": "a", "namespace": "n" }]),
                "RoleBinding \"b/m\" of ClusterRole \"view\" to ServiceAccount \"a/n\"",
            ),
            (
                "",
                json!([{ "kind": "User", "name": "x" }, { "kind": "User", "name": "system:serviceaccount:n:a" }, { "kind": "Group", "name": "dev" }]),
                "ClusterRoleBinding \"b\" of ClusterRole \"view\" to User \"system:serviceaccount:n:a\"",
            ),
        ];
        for (namespace, subjects, described) in cases {
            assert_eq!(binding(namespace, subjects).describe(&user), described);
        }
        let nobody =
            binding("", json!([{ "kind": "ServiceAccount", "name": "a" }, { "kind": "Robot", "name": "a" }]));
        assert_eq!(nobody.principals().count(), 0);
    }
}
