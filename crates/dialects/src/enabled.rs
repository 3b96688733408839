//! The workspaces that enable dialects, as the API shows them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_informer::{ApiScope, Key, ListWatch, ListWatchEvent, list_and_watch, resources};
use atoll_meta::object;
use atoll_registry::dialect::{DISABLING, MARKER};
use serde_json::Value;
use tokio::sync::watch;

/// The ConfigMaps of dialects, by workspace. Kept up to date by [`EnabledWorkspaces::watch`].
pub struct EnabledWorkspaces {
    markers: Mutex<HashMap<String, Marker>>,
    /// Number of changes.
    changes: watch::Sender<u64>,
    /// Whether all of them have been listed.
    is_listed: watch::Sender<bool>,
}

/// The ConfigMap of one workspace.
#[derive(PartialEq)]
struct Marker {
    uid: String,
    names: HashSet<String>,
    /// Those that are being disabled.
    leaving: HashSet<String>,
}

impl Default for EnabledWorkspaces {
    fn default() -> Self {
        EnabledWorkspaces {
            markers: Mutex::default(),
            changes: watch::Sender::new(0),
            is_listed: watch::Sender::new(false),
        }
    }
}

impl EnabledWorkspaces {
    /// Whether a dialect is enabled in a workspace or in one above it.
    pub fn contains(&self, api: &ApiScope, workspace: &str, dialect: &str) -> bool {
        let markers = self.markers();
        let has = |id: &str| markers.get(id).is_some_and(|marker| marker.names.contains(dialect));
        api.ancestry(workspace).iter().any(|(id, _)| has(id))
    }

    /// Whether a dialect is enabled in a workspace, or in one above or below it.
    pub fn contains_in_line(&self, api: &ApiScope, workspace: &str, dialect: &str) -> bool {
        let is_below = |id: &String| api.ancestry(id).iter().any(|(above, _)| above == workspace);
        let markers = self.markers();
        let mut enabling =
            markers.iter().filter(|(_, marker)| marker.names.contains(dialect)).map(|(id, _)| id);
        if enabling.any(is_below) {
            return true;
        }
        drop(markers);
        self.contains(api, workspace, dialect)
    }

    /// Whether the places of all workspaces that enable a dialect are known.
    pub fn are_known(&self, api: &ApiScope, dialect: &str) -> bool {
        let markers = self.markers();
        let mut enabling = markers.iter().filter(|(_, marker)| marker.names.contains(dialect));
        enabling.all(|(id, _)| api.root(id).is_ok())
    }

    /// Whether a dialect is being disabled in a workspace: no workspace above keeps it enabled there.
    pub fn is_leaving(&self, api: &ApiScope, workspace: &str, dialect: &str) -> bool {
        let markers = self.markers();
        let stays = |id: &str| {
            markers
                .get(id)
                .is_some_and(|marker| marker.names.contains(dialect) && !marker.leaving.contains(dialect))
        };
        !api.ancestry(workspace).iter().any(|(id, _)| stays(id))
    }

    /// Whether any workspace enables a dialect.
    pub fn is_used(&self, dialect: &str) -> bool {
        self.markers().values().any(|marker| marker.names.contains(dialect))
    }

    /// A receiver that is notified of every change.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until all ConfigMaps are known.
    pub async fn synced(&self) {
        let _ = self.is_listed.subscribe().wait_for(|is_listed| *is_listed).await;
    }

    /// Follows the ConfigMaps for as long as it is polled.
    pub async fn watch(&self, api: &ApiScope) {
        let selector =
            format!("metadata.name={MARKER},metadata.namespace={}", atoll_fleet::marks::SYSTEM_NAMESPACE);
        let list_watch = ListWatch::all(&resources::CONFIG_MAPS).field_selector(&selector);
        list_and_watch(api, list_watch, |event| self.handle(event)).await;
    }

    fn handle(&self, event: ListWatchEvent<'_>) {
        let is_list = matches!(event, ListWatchEvent::Listed(..));
        let mut markers = self.markers();
        match event {
            ListWatchEvent::Upserted(object) => {
                markers.insert(Key::of(&object).workspace.to_string(), Marker::of(&object));
            }
            ListWatchEvent::Deleted(object) => drop(markers.remove(&*Key::of(&object).workspace)),
            ListWatchEvent::Listed(present, _) => markers.retain(|_, marker| present.contains(&marker.uid)),
        }
        drop(markers);
        if is_list {
            self.is_listed.send_replace(true);
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn markers(&self) -> MutexGuard<'_, HashMap<String, Marker>> {
        self.markers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marker {
    fn of(object: &Value) -> Marker {
        let data = || object["data"].as_object().into_iter().flatten();
        let leaving = data().filter(|(_, value)| *value == DISABLING).map(|(name, _)| name.clone());
        Marker {
            uid: object::uid(object).to_string(),
            names: data().map(|(name, _)| name.clone()).collect(),
            leaving: leaving.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atoll_informer::Tree;
    use serde_json::json;

    use super::*;

    #[test]
    fn workspaces_inherit_dialects() {
        let (enabled, tree) = (EnabledWorkspaces::default(), Arc::new(Tree::default()));
        let [org, team] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"];
        tree.insert(org, "root", "org");
        tree.insert(team, org, "team");
        struct Nowhere;
        impl atoll_client::Transport for Nowhere {
            fn send(
                &self,
                _: http::Request<bytes::Bytes>,
            ) -> atoll_client::BoxFuture<
                '_,
                Result<http::Response<atoll_client::ResponseBody>, atoll_client::BoxError>,
            > {
                Box::pin(std::future::pending())
            }
        }
        let api = ApiScope::all_workspaces(atoll_client::Client::new(Arc::new(Nowhere)), tree);
        let marker = json!({
            "metadata": { "name": MARKER, "uid": "1", "annotations": { atoll_informer::WORKSPACE: org } },
            "data": { "kcp": "" },
        });
        enabled.handle(ListWatchEvent::Upserted(marker.clone()));
        let has = |workspace: &str, dialect: &str| enabled.contains(&api, workspace, dialect);
        assert!(has(org, "kcp") && has(team, "kcp") && enabled.is_used("kcp"));
        assert!(!has("root", "kcp") && !has(team, "other"));
        let in_line = |workspace: &str| enabled.contains_in_line(&api, workspace, "kcp");
        assert!(in_line("root") && in_line(org) && in_line(team) && !in_line("ccccccccccccccc"));
        assert!(!enabled.is_leaving(&api, team, "kcp"));
        let mut leaving = marker.clone();
        leaving["data"]["kcp"] = DISABLING.into();
        enabled.handle(ListWatchEvent::Upserted(leaving));
        assert!(has(team, "kcp") && enabled.is_leaving(&api, team, "kcp"));
        enabled.handle(ListWatchEvent::Listed(&HashSet::new(), 7));
        assert!(!has(team, "kcp") && !enabled.is_used("kcp"));
    }
}
