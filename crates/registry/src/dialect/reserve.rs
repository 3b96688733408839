//! Reserves the kinds of a dialect wherever it is enabled.
//!
//! A workspace's own definition of such a kind would serve the same objects without sealing their
//! credentials. It cannot be created where the dialect is enabled, and a dialect cannot be enabled over such
//! a definition, nor over remaining objects of one.

use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_store::key::custom_group;
use atoll_watch::Scope;
use serde_json::Value;

use super::{DialectKinds, MARKER, SYSTEM_NAMESPACE};
use crate::Registry;
use crate::definitions::{GROUP, RESOURCE};
use crate::row::{ObjectRef, Row};

impl Registry {
    /// Refuses enabling a dialect, with the ConfigMap that enables dialects, in a workspace that has a definition
    /// of one of its kinds or has one below it.
    pub(crate) fn check_enabled_dialects(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if (object_ref.namespace, object_ref.name) != (SYSTEM_NAMESPACE, MARKER) {
            return Ok(());
        }
        for kinds in &self.catalog.dialects {
            let has = |marker: &Value| marker["data"].get(kinds.dialect.name()).is_some();
            if has(new) && !old.is_some_and(has) {
                self.check_enabling(row, object_ref, kinds)?;
            }
        }
        Ok(())
    }

    /// Refuses a new definition of a kind of a dialect.
    pub(crate) fn check_definition(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        definition: &Value,
    ) -> Result<(), Status> {
        let name = object::name(definition);
        let is_reserved = |kinds: &&DialectKinds| {
            kinds.names().any(|reserved| reserved == name)
                && self.dialect_enabled(object_ref.workspace, kinds.dialect.name())
        };
        let Some(kinds) = self.catalog.dialects.iter().find(is_reserved) else { return Ok(()) };
        let message = format!(
            "the dialect {} serves {name} here and in all workspaces below; use it without a definition of your own",
            kinds.dialect.name()
        );
        let path = FieldPath::new("spec").child("names").child("plural");
        Err(Status::invalid(&row.group, &row.kind, name, vec![FieldError::forbidden(&path, message)]))
    }

    fn check_enabling(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        kinds: &DialectKinds,
    ) -> Result<(), Status> {
        let workspace = object_ref.workspace;
        let message = self.defined_below(workspace, kinds).or_else(|| self.left_below(workspace, kinds));
        let Some(message) = message else { return Ok(()) };
        let path = FieldPath::new("data").key(kinds.dialect.name());
        Err(Status::invalid(
            &row.group,
            &row.kind,
            object_ref.name,
            vec![FieldError::forbidden(&path, message)],
        ))
    }

    /// The instruction for an existing definition of such a kind in a workspace or below it.
    fn defined_below(&self, top: &str, kinds: &DialectKinds) -> Option<String> {
        let everywhere = Scope::new(GROUP, RESOURCE, None, None);
        let snapshot = self.snapshot();
        let found = snapshot.list_borrowed(&everywhere, None).find(|definition| {
            kinds.names().any(|reserved| reserved == definition.name())
                && self.is_below(definition.workspace(), top)
        })?;
        Some(format!(
            "the workspace {} has a CustomResourceDefinition {} of its own; delete that definition first, which deletes its \
             objects",
            self.workspace_path(found.workspace()),
            found.name(),
        ))
    }

    /// The instruction for an existing object of such a kind in a workspace or below it, where the dialect is
    /// not enabled. It may belong to a deleted definition, and may have annotations that only the dialect
    /// sets.
    fn left_below(&self, top: &str, kinds: &DialectKinds) -> Option<String> {
        let snapshot = self.snapshot();
        kinds.resources().find_map(|(group, plural)| {
            let everywhere = Scope::new(&custom_group(group), plural, None, None);
            let found = snapshot.list_borrowed(&everywhere, None).find(|object| {
                self.is_below(object.workspace(), top)
                    && !self.dialect_enabled(object.workspace(), kinds.dialect.name())
            })?;
            Some(format!(
                "the workspace {} still has {plural}.{group} such as {}; create a CustomResourceDefinition of that name there and \
                 delete it, which deletes them",
                self.workspace_path(found.workspace()),
                found.name(),
            ))
        })
    }

    fn is_below(&self, workspace: &str, top: &str) -> bool {
        self.ancestry(workspace).iter().any(|above| above == top)
    }
}

#[cfg(test)]
mod tests {
    use atoll_store::Key;
    use serde_json::json;

    use super::*;
    use crate::NoAdmission;
    use crate::testing::{EXAMPLE_GROUP, registry};

    /// The result of enabling a dialect in a workspace while another one has a Cluster whose definition was
    /// deleted.
    async fn enabled(workspace_id: &str, left_in: &str, enabled_in: Option<&str>) -> Result<(), String> {
        let workspace = |parent: &str, name: &str, id: &str| {
            let object =
                json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "status": { "id": id } });
            (Key::object("atoll.dev", "workspaces", parent, "", name), object)
        };
        let marker = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": MARKER, "namespace": SYSTEM_NAMESPACE },
            "data": { "example": "" },
        });
        let mut objects = vec![
            workspace("root", "org", "aaaaaaaaaaaaaaa"),
            workspace("aaaaaaaaaaaaaaa", "team", "bbbbbbbbbbbbbbb"),
            (
                Key::custom(EXAMPLE_GROUP, "clusters", left_in, "", "planted"),
                json!({ "metadata": { "name": "planted" } }),
            ),
            (Key::object("", "namespaces", workspace_id, "", SYSTEM_NAMESPACE), json!({ "metadata": {} })),
        ];
        objects.extend(enabled_in.map(|enabled| (super::super::marker(enabled), marker.clone())));
        let registry = registry(&objects).await;
        let row = registry.catalog.find("", "v1", "configmaps").unwrap().clone();
        let object_ref = ObjectRef { workspace: workspace_id, namespace: SYSTEM_NAMESPACE, name: MARKER };
        let outcome = registry.create(&row, &object_ref, marker, None, true, &NoAdmission).await;
        outcome.map(|_| ()).map_err(|status| status.message().to_string())
    }

    #[tokio::test]
    async fn a_dialect_does_not_adopt_remaining_objects() {
        let [org, team] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"];
        for (workspace_id, left_in, enabled_in, expected) in [
            ("root", team, None, Err("root:org:team")),
            (org, team, None, Err("root:org:team")),
            (org, org, None, Err("root:org")),
            (team, org, None, Ok(())),
            // Objects where the dialect is already enabled belong to it.
            (org, team, Some(team), Ok(())),
            (org, team, Some("root"), Ok(())),
            (org, org, Some(team), Err("root:org")),
        ] {
            let outcome = enabled(workspace_id, left_in, enabled_in).await;
            let expected_message = |path: &str| {
                format!("the workspace {path} still has clusters.{EXAMPLE_GROUP} such as planted")
            };
            match expected {
                Ok(()) => assert_eq!(outcome, Ok(()), "{workspace_id} {left_in}"),
                Err(path) => assert!(
                    outcome.unwrap_err().contains(&expected_message(path)),
                    "{workspace_id} {left_in}"
                ),
            }
        }
    }
}
