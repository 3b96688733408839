//! An index of the roles and bindings of one workspace, or of the bootstrap layer.

use std::sync::Arc;

use imbl::OrdMap;

use crate::binding::{Binding, Principal};
use crate::rule::Rule;

/// By namespace; cluster-scoped objects have an empty one.
#[derive(Clone, Default)]
pub struct Index {
    levels: OrdMap<Arc<str>, Level>,
}

/// The roles and bindings of one namespace, or the cluster-scoped ones. `None` stands for an object of the
/// bootstrap layer that was deleted in this workspace.
#[derive(Clone, Default)]
pub struct Level {
    roles: OrdMap<Arc<str>, Option<Arc<[Rule]>>>,
    bindings: OrdMap<Arc<str>, Option<Arc<Binding>>>,
    users: BindingsByPrincipal,
    groups: BindingsByPrincipal,
}

/// Bindings by user or group, sorted by name.
type BindingsByPrincipal = OrdMap<Arc<str>, Arc<[Arc<Binding>]>>;

impl Index {
    pub fn level(&self, namespace: &str) -> Option<&Level> {
        self.levels.get(namespace)
    }

    /// Returns all levels: each namespace, and the cluster-scoped one.
    pub fn levels(&self) -> impl Iterator<Item = &Level> {
        self.levels.values()
    }

    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Changes one level, which is removed when it becomes empty.
    pub fn change(&mut self, namespace: &str, change: impl FnOnce(&mut Level)) {
        let mut level = self.levels.get(namespace).cloned().unwrap_or_default();
        change(&mut level);
        if level.roles.is_empty() && level.bindings.is_empty() {
            self.levels.remove(namespace);
        } else {
            self.levels.insert(namespace.into(), level);
        }
    }
}

impl Level {
    /// Returns a role; `Some(None)` if it was deleted.
    pub fn role(&self, name: &str) -> Option<Option<&Arc<[Rule]>>> {
        self.roles.get(name).map(Option::as_ref)
    }

    /// Whether a binding of the bootstrap layer is overridden or deleted here.
    pub fn hides(&self, binding: &Binding) -> bool {
        self.bindings.contains_key(&*binding.name)
    }

    pub fn of_user(&self, name: &str) -> &[Arc<Binding>] {
        self.users.get(name).map_or(&[], |bindings| bindings)
    }

    pub fn of_group(&self, name: &str) -> &[Arc<Binding>] {
        self.groups.get(name).map_or(&[], |bindings| bindings)
    }

    pub fn put_role(&mut self, name: &str, rules: Option<Arc<[Rule]>>) {
        self.roles.insert(name.into(), rules);
    }

    pub fn remove_role(&mut self, name: &str) {
        self.roles.remove(name);
    }

    pub fn put_binding(&mut self, name: &str, binding: Option<Arc<Binding>>) {
        self.remove_binding(name);
        for principal in binding.iter().flat_map(|binding| binding.principals()) {
            let (holders, name) = match &principal {
                Principal::User(name) => (&mut self.users, &**name),
                Principal::Group(name) => (&mut self.groups, *name),
            };
            let held = holders.get(name).map_or(&[][..], |held| held);
            let Some(binding) = binding.as_ref().filter(|own| held.iter().all(|held| held.name != own.name))
            else {
                continue;
            };
            let position = held.partition_point(|held| held.name < binding.name);
            let (before, behind) = held.split_at(position);
            let all = before.iter().chain([binding]).chain(behind).cloned().collect();
            holders.insert(name.into(), all);
        }
        self.bindings.insert(name.into(), binding);
    }

    pub fn remove_binding(&mut self, name: &str) {
        let Some(Some(binding)) = self.bindings.remove(name) else { return };
        for principal in binding.principals() {
            let (holders, principal) = match &principal {
                Principal::User(name) => (&mut self.users, &**name),
                Principal::Group(name) => (&mut self.groups, *name),
            };
            let Some(held) = holders.get(principal) else { continue };
            let left: Arc<[_]> = held.iter().filter(|held| &*held.name != name).cloned().collect();
            if left.is_empty() {
                holders.remove(principal);
            } else {
                holders.insert(principal.into(), left);
            }
        }
    }
}
