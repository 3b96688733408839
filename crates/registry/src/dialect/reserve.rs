//! Kinds that a dialect protects belong to it wherever it is spoken.
//!
//! A workspace's own definition of such a kind would serve the same objects without sealing what is secret in them. It cannot
//! be created where the dialect is spoken, and a dialect cannot be enabled over one.

use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_store::Key;
use atoll_watch::Scope;
use serde_json::Value;

use super::{MARKER, SYSTEM_NAMESPACE, kcp};
use crate::Registry;
use crate::definitions::{self, GROUP, RESOURCE};
use crate::row::{Place, Row};

impl Registry {
    /// Refuses a definition of a kind that a dialect protects, and a dialect in a workspace that has such a definition, or
    /// below which there is one.
    pub(crate) fn check_reserved(
        &self,
        row: &Row,
        place: &Place<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if definitions::defines(row) && old.is_none() {
            return self.check_definition(row, place, new);
        }
        let is_marker = row.group.is_empty()
            && row.resource == "configmaps"
            && (place.namespace, place.name) == (SYSTEM_NAMESPACE, MARKER);
        let speaks = |marker: &Value| marker["data"].get(kcp::NAME).is_some();
        match is_marker && speaks(new) && !old.is_some_and(speaks) {
            true => self.check_enabling(row, place),
            false => Ok(()),
        }
    }

    fn check_definition(&self, row: &Row, place: &Place<'_>, definition: &Value) -> Result<(), Status> {
        let name = object::name(definition);
        if !protected().any(|protected| protected == name) || !self.speaks(place.workspace, kcp::NAME) {
            return Ok(());
        }
        let message = format!(
            "the dialect {} serves {name} here and in all workspaces below; use it without a definition of your own",
            kcp::NAME
        );
        let path = FieldPath::new("spec").child("names").child("plural");
        Err(Status::invalid(&row.group, &row.kind, name, vec![FieldError::forbidden(&path, message)]))
    }

    fn check_enabling(&self, row: &Row, place: &Place<'_>) -> Result<(), Status> {
        let everywhere = Scope::new(GROUP, RESOURCE, None, None);
        let snapshot = self.snapshot();
        let is_below = |key: &Key| {
            let workspace = key.parts().map(|parts| parts.workspace.to_string()).unwrap_or_default();
            self.line(&workspace).iter().any(|above| above == place.workspace)
        };
        let found = snapshot.look(&everywhere, None).find(|definition| {
            protected().any(|protected| protected == definition.name()) && is_below(&definition.key)
        });
        let Some(found) = found else { return Ok(()) };
        let message = format!(
            "the workspace {} has a CustomResourceDefinition {} of its own; delete that definition first, which deletes its \
             objects",
            self.path_of(found.workspace()),
            found.name(),
        );
        let path = FieldPath::new("data").key(kcp::NAME);
        Err(Status::invalid(&row.group, &row.kind, place.name, vec![FieldError::forbidden(&path, message)]))
    }
}

/// The names of definitions of kinds that a dialect protects.
fn protected() -> impl Iterator<Item = String> {
    kcp::SPELLINGS.iter().map(|(plural, _)| format!("{plural}.{}", kcp::GROUP))
}
