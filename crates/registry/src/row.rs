//! A kind is a row: its names, its verbs, where it is kept, and the strategy where upstream has one.

use std::sync::Arc;

use atoll_defaults::Defaults;
use atoll_extension::Schema;
use atoll_merge::apply::Kind;
use atoll_meta::Status;
use atoll_schema::{TypeId, Types};
use atoll_store::Key;
use atoll_validation::Checks;
use atoll_validation::warnings::{self, Warnings};
use atoll_watch::Scope;
use serde_json::{Map, Value};

use crate::definitions::Custom;
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
    /// What is known of the fields; `None` leaves them as they are.
    pub type_id: Option<TypeId>,
    /// What is known of the fields of Atoll's own kinds, which have no type.
    pub schema: Option<Arc<Schema>>,
    /// Set for what is stored as another kind.
    pub view: Option<&'static View>,
    pub strategy: &'static Strategy,
    /// Fills in what clients leave out.
    pub defaults: Defaults,
    /// What is refused about this kind.
    pub checks: &'static Checks,
    /// What is taken, but remarked on.
    pub warnings: &'static Warnings,
    /// Keeps account of who manages which fields.
    pub managed: Kind,
    /// Set for what a definition in the workspace defines.
    pub custom: Option<Arc<Custom>>,
}

#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: String,
    pub kind: String,
    /// Of the subresource's own kind; both empty if they are the row's.
    pub group: String,
    pub version: String,
    pub verbs: Vec<String>,
}

/// Where one object is, or would be.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Id, never a path.
    pub workspace: &'a str,
    /// Empty for what is cluster-scoped.
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

    /// The group that objects are kept under.
    pub(crate) fn storage_group(&self) -> &str {
        self.view.map_or(&self.group, |view| view.group)
    }

    /// The group in the keys of its objects: that of custom objects has a mark, so that they never alias built-in ones.
    fn key_group(&self) -> &str {
        self.custom.as_ref().map_or_else(|| self.storage_group(), |custom| &custom.key_group)
    }

    pub fn key(&self, place: &Place<'_>) -> Key {
        Key::object(self.key_group(), &self.resource, place.workspace, place.namespace, place.name)
    }

    /// Every object of this row in a workspace (`None`: in all of them) and, if given, a namespace.
    pub fn scope(&self, workspace: Option<&str>, namespace: &str) -> Scope {
        // What is cluster-scoped has an empty namespace in its key; everything in all namespaces has none.
        let namespace = match (self.namespaced, namespace) {
            (true, "") => None,
            (true, namespace) => Some(namespace),
            (false, _) => Some(""),
        };
        Scope::new(self.key_group(), &self.resource, workspace, namespace)
    }

    /// One object only.
    pub fn object_scope(&self, place: &Place<'_>) -> Scope {
        Scope::object(self.key_group(), &self.resource, place.workspace, place.namespace, place.name)
    }

    pub fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|own| own.name == name)
    }

    /// What is remarked on about an object, or one of its subresources, that is about to be written.
    pub fn remarks(&self, subresource: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        if let Some(custom) = &self.custom {
            return custom.remarks(subresource, new, old);
        }
        match subresource {
            "" => (self.warnings.object)(new, old),
            "status" => (self.warnings.status)(new),
            _ => Vec::new(),
        }
    }

    /// What is remarked on about an object that a client sends, before anything is filled in.
    pub fn remarks_on_given(&self, given: &Value) -> Vec<String> {
        (self.warnings.given)(given)
    }

    /// What every request about this resource is told.
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

    /// The kind that errors are about: of custom objects, the one that they say they are.
    pub(crate) fn named_kind<'a>(&'a self, object: &'a Value) -> &'a str {
        if self.custom.is_some() { atoll_meta::object::kind(object) } else { &self.kind }
    }

    /// Fills in what goes without saying in a request.
    pub(crate) fn fill_defaults(&self, object: &mut Value) -> Result<(), Status> {
        self.defaults.apply(object);
        match self.custom.as_ref().is_none_or(|custom| custom.fill(object)) {
            true => Ok(()),
            false => Err(Status::request_entity_too_large(
                "with the defaults of its definition the object is too large",
            )),
        }
    }

    /// Whether status is written apart from the rest.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// A new object has no status yet; typed kinds show it as Go writes it then.
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

/// Rows are shared by everything that handles a request.
pub type SharedRow = Arc<Row>;
