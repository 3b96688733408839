//! The request as plugins see it.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go
// upstream: staging/src/k8s.io/apiserver/pkg/admission/errors.go

use atoll_authn::User;
use atoll_authz::{Step, Target};
use atoll_meta::{Status, json, object};
use atoll_registry::{DeleteOptions, Registry, Row};
use atoll_store::Key;
use atoll_watch::{Object, Scope, Snapshot};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// The options of the request.
#[derive(Clone, Copy, Debug)]
pub enum AdmissionOptions<'a> {
    Write {
        /// The field manager.
        manager: &'a str,
        dry_run: bool,
    },
    Delete(&'a DeleteOptions),
    Connect,
}

pub struct Request<'a> {
    pub operation: Operation,
    pub row: &'a Row,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The workspace ID.
    pub workspace: &'a str,
    /// The step from the parent to this workspace, `None` for root.
    pub step: Option<&'a Step>,
    pub namespace: &'a str,
    /// Empty if it is to be generated.
    pub name: &'a str,
    pub user: &'a User,
    /// The existing object.
    pub old: Option<&'a Value>,
    pub options: AdmissionOptions<'a>,
    /// The current state.
    pub snapshot: &'a Snapshot,
    /// For a plugin's own writes, the clock, and the catalog.
    pub registry: &'a Registry,
    /// Whether the user has a permission in the workspace.
    pub authorize: &'a (dyn Fn(&str, Target<'_>) -> bool + Sync),
    /// Whether the user has a permission in a workspace above: 1 is the parent, 0 the workspace itself.
    pub authorize_above: &'a (dyn Fn(usize, &str, Target<'_>) -> bool + Sync),
    /// Adds a warning to the response.
    pub warn: &'a (dyn Fn(String) + Sync),
}

impl<'a> Request<'a> {
    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        match self.options {
            AdmissionOptions::Write { dry_run, .. } => dry_run,
            AdmissionOptions::Delete(options) => options.dry_run,
            AdmissionOptions::Connect => false,
        }
    }

    /// Whether the request is for this resource and subresource.
    pub fn is_about(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.row.resource == resource && self.subresource == subresource && self.row.group == group
    }

    pub fn creates(&self, group: &str, resource: &str) -> bool {
        self.operation == Operation::Create && self.is_about(group, resource, "")
    }

    /// Returns the usual error of plugins about `object`.
    pub fn forbidden(&self, object: &Value, message: impl AsRef<str>) -> Status {
        Status::forbidden(&self.row.group, &self.row.resource, self.display_name(object), message)
    }

    /// Returns the name of the object in errors. If it is to be generated, its prefix is used.
    pub fn display_name<'v>(&self, object: &'v Value) -> &'v str
    where
        'a: 'v,
    {
        let candidates = [self.name, object::name(object), object::generate_name(object), "Unknown"];
        candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
    }

    /// Returns an object of this workspace.
    pub fn find(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<StoredObject> {
        let key = Key::object(group, resource, self.workspace, namespace, name);
        self.snapshot.get(&key).map(StoredObject)
    }

    /// Returns the namespace of the request.
    pub fn namespace_object(&self) -> Option<StoredObject> {
        self.find("", "namespaces", "", self.namespace)
    }

    /// Lists the objects of a resource in a namespace of this workspace, or cluster-scoped ones.
    pub fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<StoredObject> {
        let scope = Scope::new(group, resource, Some(self.workspace), Some(namespace));
        self.snapshot.list(&scope, None).map(StoredObject).collect()
    }
}

/// A stored object.
pub struct StoredObject(pub std::sync::Arc<Object>);

impl StoredObject {
    pub fn parse(&self) -> Result<Value, Status> {
        let parsed = json::parse(&self.0.json());
        parsed
            .map(|parsed| parsed.value)
            .map_err(|error| Status::internal_error(format!("stored object: {error}")))
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.0.facts.label(key)
    }

    /// Returns a selectable field, if it is not empty.
    pub fn field(&self, name: &str) -> Option<&str> {
        Some(self.0.field(name)).filter(|value| !value.is_empty())
    }

    /// Whether the JSON contains a text: faster than parsing irrelevant objects.
    pub fn contains_text(&self, text: &str) -> bool {
        let (whole, text) = (self.0.json_cow(), text.as_bytes());
        whole.len() >= text.len() && whole.windows(text.len()).any(|part| part == text)
    }
}
