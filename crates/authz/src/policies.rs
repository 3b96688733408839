//! The roles and bindings of all workspaces, kept up to date with every write.
//!
//! An object is read once, when it is written or loaded. The index is told of a change before readers are, so whoever has
//! been answered that a grant is written, or gone, finds it so. A workspace that has written nothing has no entry: it shows
//! what lies under all of them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use atoll_meta::json;
use atoll_store::{Key, Revision};
use atoll_watch::object::TOMBSTONE;
use atoll_watch::{Layer, Observer};
use bytes::Bytes;
use imbl::OrdMap;
use serde_json::Value;

use crate::binding::{Binding, GROUP};
use crate::index::Index;
use crate::rule::Rule;
use crate::site::Site;

type Workspaces = OrdMap<Arc<str>, Index>;

pub struct Policies {
    layer: Index,
    workspaces: ArcSwap<Workspaces>,
}

/// An object of this group, as far as it matters.
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

    /// What counts in a workspace, as it stands.
    pub fn at<'a>(&'a self, workspace: &'a str) -> Site<'a> {
        let own = self.workspaces.load().get(workspace).cloned();
        Site { workspace, layer: &self.layer, own }
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

/// What cannot be read grants nothing.
fn put(index: &mut Index, kind: &Kind, namespace: &str, name: &str, value: Option<&Bytes>) {
    let object = value.map(|value| json::parse(value).map_or(Value::Null, |parsed| parsed.value));
    index.change(namespace, |level| match kind {
        Kind::Role => level.put_role(name, object.map(|role| Rule::all_of(&role).into())),
        Kind::Binding => {
            level.put_binding(name, object.map(|own| Arc::new(Binding::parse(namespace, name, &own))));
        }
    });
}
