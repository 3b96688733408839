//! The workspaces in which dialects are enabled, updated with every write.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_store::key::{self, Parts};
use bytes::Bytes;

use super::{MARKER, SharedDialect};
use crate::Registry;
use crate::definitions::{self, Definition};

/// The names in the ConfigMaps of dialects, by workspace id.
#[derive(Default)]
pub(crate) struct EnabledDialects {
    workspaces: RwLock<HashMap<String, Vec<String>>>,
}

impl EnabledDialects {
    /// Handles a write. Returns whether a workspace has enabled or disabled a dialect.
    pub(crate) fn changed(&self, parts: &Parts<'_>, value: Option<&Bytes>) -> bool {
        let is_marker = (parts.group, parts.resource, parts.namespace, parts.name)
            == (key::CORE, "configmaps", SYSTEM_NAMESPACE, MARKER);
        if !is_marker {
            return false;
        }
        let marker = value.and_then(|value| atoll_meta::json::parse(value).ok()).map(|parsed| parsed.value);
        let names = marker.as_ref().and_then(|marker| marker["data"].as_object());
        let names: Vec<String> = names.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let mut workspaces = self.workspaces.write().unwrap_or_else(PoisonError::into_inner);
        let before = match names.is_empty() {
            true => workspaces.remove(parts.workspace),
            false => workspaces.insert(parts.workspace.to_string(), names.clone()),
        };
        before.unwrap_or_default() != names
    }

    /// Whether no workspace enables any dialect.
    fn is_empty(&self) -> bool {
        self.workspaces.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn has(&self, workspace: &str, dialect: &str) -> bool {
        let workspaces = self.workspaces.read().unwrap_or_else(PoisonError::into_inner);
        workspaces.get(workspace).is_some_and(|names| names.iter().any(|name| name == dialect))
    }
}

impl Registry {
    /// Whether a dialect is enabled in a workspace or in one above it.
    pub fn dialect_enabled(&self, workspace: &str, dialect: &str) -> bool {
        let enabled = &self.placements.dialects;
        !enabled.is_empty() && self.ancestry(workspace).iter().any(|id| enabled.has(id, dialect))
    }

    /// The dialects that are enabled in a workspace or in one above it.
    pub fn enabled_dialects(&self, workspace: &str) -> Vec<SharedDialect> {
        if self.placements.dialects.is_empty() {
            return Vec::new();
        }
        let all = self.catalog.dialects.iter().map(|kinds| &kinds.dialect);
        all.filter(|dialect| self.dialect_enabled(workspace, dialect.name())).cloned().collect()
    }

    /// The definition of a dialect's resource, if the dialect is enabled in a workspace; `None` is all of
    /// them.
    pub(crate) fn dialect_definition(
        &self,
        workspace: Option<&str>,
        group: &str,
        resource: &str,
    ) -> Option<Arc<Definition>> {
        self.catalog.dialects.iter().find_map(|kinds| {
            let found = kinds.find(&self.catalog, group, resource)?;
            let is_enabled = workspace.is_none_or(|id| self.dialect_enabled(id, kinds.dialect.name()));
            is_enabled.then(|| found.clone())
        })
    }

    /// All definitions that apply in a workspace, ordered by name: those of dialects, and its own.
    pub fn definitions(&self, workspace: &str) -> Vec<Arc<Definition>> {
        let mut all = definitions::list(&self.snapshot(), workspace);
        let mut is_extended = false;
        for kinds in &self.catalog.dialects {
            if !self.dialect_enabled(workspace, kinds.dialect.name()) {
                continue;
            }
            is_extended = true;
            all.retain(|own| kinds.find(&self.catalog, &own.group, &own.accepted.plural).is_none());
            all.extend(kinds.compiled(&self.catalog).iter().cloned());
        }
        if is_extended {
            all.sort_by_cached_key(|definition| {
                format!("{}.{}", definition.accepted.plural, definition.group)
            });
        }
        all
    }
}
