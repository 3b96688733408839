//! Dialects: APIs of other systems, served unchanged in workspaces that enable them.
//!
//! ```text
//!   ConfigMap atoll-system/atoll-dialects ─► enables a dialect in a workspace and all below it ─► definitions (kcp)
//!   writes of kcp's Clusters ─► seal: moves the kubeconfig to a Secret
//!   label workloads.kcp.dev/cluster ─► labels: a placement
//! ```

mod evict;
pub mod kcp;
pub mod labels;
mod reserve;
pub mod seal;

use std::sync::Arc;

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_store::Key;

use crate::Registry;
use crate::definitions::{self, Definition};

/// The ConfigMap with the dialects that are enabled in a workspace, one key for each.
pub const MARKER: &str = "atoll-dialects";

/// The key of that ConfigMap.
pub fn marker(workspace: &str) -> Key {
    Key::object("", "configmaps", workspace, SYSTEM_NAMESPACE, MARKER)
}

impl Registry {
    /// Whether a dialect is enabled in a workspace or in one above it.
    pub fn dialect_enabled(&self, workspace: &str, dialect: &str) -> bool {
        let snapshot = self.snapshot();
        self.ancestry(workspace).iter().any(|workspace| {
            let marker = snapshot.get(&marker(workspace)).and_then(|found| crate::parse(&found.json()).ok());
            marker.is_some_and(|marker| marker["data"].get(dialect).is_some())
        })
    }

    /// The definition of a dialect's resource, if the dialect is enabled in a workspace; `None` is all of
    /// them.
    pub(crate) fn dialect_definition(
        &self,
        workspace: Option<&str>,
        group: &str,
        resource: &str,
    ) -> Option<Arc<Definition>> {
        if group != kcp::GROUP {
            return None;
        }
        let known = self.catalog.kcp().iter();
        let found = known.into_iter().find(|definition| definition.accepted.plural == resource)?;
        workspace.is_none_or(|workspace| self.dialect_enabled(workspace, kcp::NAME)).then(|| found.clone())
    }

    /// All definitions that apply in a workspace, ordered by name: those of dialects, and its own.
    pub fn definitions(&self, workspace: &str) -> Vec<Arc<Definition>> {
        let mut all = definitions::list(&self.snapshot(), workspace);
        if self.dialect_enabled(workspace, kcp::NAME) {
            let dialect = self.catalog.kcp();
            let is_spoken = |own: &Arc<Definition>| {
                let is_same = |dialect: &Arc<Definition>| {
                    own.group == dialect.group && own.accepted.plural == dialect.accepted.plural
                };
                dialect.iter().any(is_same)
            };
            all.retain(|own| !is_spoken(own));
            all.extend(dialect.iter().cloned());
            all.sort_by_cached_key(|definition| {
                format!("{}.{}", definition.accepted.plural, definition.group)
            });
        }
        all
    }
}
