//! The roles and bindings of all workspaces, updated with every write.
//!
//! An object is parsed once, when it is written or loaded. The index is updated before readers see a change,
//! so a completed write of a grant takes effect at once. A workspace without roles and bindings of its own
//! has no entry: only the bootstrap layer applies.

use std::sync::Arc;

use arc_swap::ArcSwap;
use atoll_meta::{Deadline, json};
use atoll_store::{Key, Revision};
use atoll_watch::object::TOMBSTONE;
use atoll_watch::{Layer, Observer};
use bytes::Bytes;
use imbl::OrdMap;
use serde_json::Value;

use crate::binding::{Binding, GROUP};
use crate::index::Index;
use crate::rule::Rule;
use crate::workspace_policies::WorkspacePolicies;

type Workspaces = OrdMap<Arc<str>, Index>;

pub struct Policies {
    layer: Index,
    workspaces: ArcSwap<Workspaces>,
}

/// The relevant kinds of this group.
enum Kind {
    Role,
    Binding,
}

impl Policies {
    pub fn new(layer: &Layer) -> Self {
        let mut index = Index::default();
        for (resource, namespace, name, encoded) in layer.of_group(GROUP) {
            if let Some(kind) = Kind::of(resource) {
                put(&mut index, &kind, namespace, name, Some(encoded));
            }
        }
        Policies { layer: index, workspaces: ArcSwap::default() }
    }

    /// Returns the current roles and bindings of a workspace.
    pub fn at<'a>(&'a self, workspace: &'a str, deadline: &'a Deadline<'a>) -> WorkspacePolicies<'a> {
        let own = self.workspaces.load().get(workspace).cloned();
        WorkspacePolicies { workspace, layer: &self.layer, own, deadline }
    }

    fn change(&self, workspace: &str, change: impl Fn(&mut Index)) {
        self.workspaces.rcu(|workspaces| {
            let mut workspaces = Workspaces::clone(workspaces);
            let mut index = workspaces.get(workspace).cloned().unwrap_or_default();
            change(&mut index);
            if index.is_empty() {
                workspaces.remove(workspace);
            } else {
                workspaces.insert(workspace.into(), index);
            }
            workspaces
        });
    }
}

impl Observer for Policies {
    fn changed(&self, key: &Key, value: Option<&Bytes>, _: Revision) {
        let Some(parts) = key.parts().filter(|parts| parts.group == GROUP) else { return };
        let Some(kind) = Kind::of(parts.resource) else { return };
        self.change(parts.workspace, |index| match value {
            Some(value) => {
                let value = (value != TOMBSTONE).then_some(value);
                put(index, &kind, parts.namespace, parts.name, value);
            }
            None => index.change(parts.namespace, |level| match kind {
                Kind::Role => level.remove_role(parts.name),
                Kind::Binding => level.remove_binding(parts.name),
            }),
        });
    }
}

impl Kind {
    fn of(resource: &str) -> Option<Kind> {
        match resource {
            "roles" | "clusterroles" => Some(Kind::Role),
            "rolebindings" | "clusterrolebindings" => Some(Kind::Binding),
            _ => None,
        }
    }
}

/// Puts a role or binding into an index. Invalid objects grant nothing.
fn put(index: &mut Index, kind: &Kind, namespace: &str, name: &str, value: Option<&Bytes>) {
    let object = value.map(|value| json::parse(value).map_or(Value::Null, |parsed| parsed.value));
    index.change(namespace, |level| match kind {
        Kind::Role => level.put_role(name, object.map(|role| Rule::all_of(&role).into())),
        Kind::Binding => {
            level.put_binding(name, object.map(|own| Arc::new(Binding::parse(namespace, name, &own))));
        }
    });
}
