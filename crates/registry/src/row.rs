//! A row of the catalog: names, verbs, storage and strategy of one resource.

use std::sync::Arc;

use atoll_crd::Schema;
use atoll_defaults::Defaults;
use atoll_merge::apply::Kind;
use atoll_meta::Status;
use atoll_schema::{TypeId, Types};
use atoll_store::Key;
use atoll_validation::Checks;
use atoll_validation::warnings::{self, Warnings};
use atoll_watch::Scope;
use serde_json::{Map, Value};

use crate::definitions::CustomVersion;
use crate::strategy::Strategy;
use crate::views::View;

/// One served resource in one version.
#[derive(Clone, Debug)]
pub struct Row {
    pub group: String,
    pub version: String,
    /// Plural, as in URLs.
    pub resource: String,
    pub singular: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub storage_version_hash: String,
    pub subresources: Vec<Subresource>,
    /// The type of built-in kinds; `None` leaves fields as they are.
    pub type_id: Option<TypeId>,
    /// The schema of Atoll's own kinds, which have no type.
    pub schema: Option<Arc<Schema>>,
    /// Set if objects are stored as another kind.
    pub view: Option<&'static View>,
    pub strategy: &'static Strategy,
    /// Defaults of the kind.
    pub defaults: Defaults,
    /// Validation of the kind.
    pub checks: &'static Checks,
    /// Warnings of the kind.
    pub warnings: &'static Warnings,
    /// Managed fields of the kind.
    pub managed: Kind,
    /// Set for custom resources.
    pub custom: Option<Arc<CustomVersion>>,
}

#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: String,
    pub kind: String,
    /// Group of the subresource's kind; group and version are empty if they are the row's.
    pub group: String,
    pub version: String,
    pub verbs: Vec<String>,
}

/// A reference to one object, which may not exist.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// Workspace id, not a path.
    pub workspace: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Row {
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The group under which objects are stored.
    pub(crate) fn storage_group(&self) -> &str {
        self.view.map_or(&self.group, |view| view.group)
    }

    /// The group in the keys of its objects. Custom objects have a prefix, so that they never alias built-in
    /// ones.
    fn key_group(&self) -> &str {
        self.custom.as_ref().map_or_else(|| self.storage_group(), |custom| &custom.key_group)
    }

    /// The resource in the keys of its objects: that of the stored kind if this one is another spelling.
    fn key_resource(&self) -> &str {
        let spelling = self.custom.as_ref().and_then(|custom| custom.dialect.spelling.as_ref());
        spelling.map_or(&self.resource, |spelling| &spelling.stored.resource)
    }

    pub fn key(&self, object_ref: &ObjectRef<'_>) -> Key {
        Key::object(
            self.key_group(),
            self.key_resource(),
            object_ref.workspace,
            object_ref.namespace,
            object_ref.name,
        )
    }

    /// The scope of all objects of this row in a workspace (`None`: in all of them) and, if given, a
    /// namespace.
    pub fn scope(&self, workspace: Option<&str>, namespace: &str) -> Scope {
        // Cluster-scoped objects have an empty namespace in their keys; all namespaces are `None`.
        let namespace = match (self.namespaced, namespace) {
            (true, "") => None,
            (true, namespace) => Some(namespace),
            (false, _) => Some(""),
        };
        Scope::new(self.key_group(), self.key_resource(), workspace, namespace)
    }

    /// The scope of one object.
    pub fn object_scope(&self, object_ref: &ObjectRef<'_>) -> Scope {
        Scope::object(
            self.key_group(),
            self.key_resource(),
            object_ref.workspace,
            object_ref.namespace,
            object_ref.name,
        )
    }

    pub fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|own| own.name == name)
    }

    /// Warnings about an object, or one of its subresources, that is about to be written.
    pub fn write_warnings(&self, subresource: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        if let Some(custom) = &self.custom {
            return custom.write_warnings(subresource, new, old);
        }
        match subresource {
            "" => (self.warnings.object)(new, old),
            "status" => (self.warnings.status)(new),
            _ => Vec::new(),
        }
    }

    /// Warnings about an object as the client sent it, without defaults.
    pub fn request_warnings(&self, given: &Value) -> Vec<String> {
        (self.warnings.input)(given)
    }

    /// The deprecation warning for every request.
    pub fn deprecation(&self) -> Option<&str> {
        if let Some(custom) = &self.custom {
            return custom.deprecation.as_deref();
        }
        warnings::deprecated(&self.group, &self.version, &self.resource)
    }

    /// The kind of a list.
    pub fn list_kind(&self) -> String {
        self.custom
            .as_ref()
            .map_or_else(|| format!("{}List", self.kind), |custom| custom.list_kind.to_string())
    }

    /// The kind in error messages: for custom objects, the kind in the object.
    pub(crate) fn error_kind<'a>(&'a self, object: &'a Value) -> &'a str {
        if self.custom.is_some() { atoll_meta::object::kind(object) } else { &self.kind }
    }

    /// Applies the defaults to an object of a request.
    pub(crate) fn fill_defaults(&self, object: &mut Value) -> Result<(), Status> {
        self.defaults.apply(object);
        match self.custom.as_ref().is_none_or(|custom| custom.fill(object)) {
            true => Ok(()),
            false => Err(Status::request_entity_too_large(
                "the object is too large after applying the defaults of its CustomResourceDefinition",
            )),
        }
    }

    /// Whether there is a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Clears the status of a new object; built-in kinds get the empty status that Go encodes.
    pub(crate) fn clear_status(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else { return };
        if self.custom.is_some() {
            fields.remove("status");
            return;
        }
        let types = Types::get();
        let slot = self.stored_type().and_then(|id| types[id].slot("status")).map(|(_, slot)| slot);
        match slot {
            Some(slot) if slot.pointer || slot.omit_zero => drop(fields.remove("status")),
            Some(slot) => drop(fields.insert("status".into(), types.zero(slot.kind))),
            None => {
                if let Some(status) = fields.get_mut("status") {
                    *status = Value::Object(Map::new());
                }
            }
        }
    }
}

/// A row that is shared by everything that handles a request.
pub type SharedRow = Arc<Row>;
