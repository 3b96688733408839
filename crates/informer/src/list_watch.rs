//! Lists a resource and then watches it, as client-go's reflector does.

// upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go

use std::collections::HashSet;
use std::time::Duration;

use atoll_client::memory_limits::{Charge, is_too_large};
use atoll_client::path::encoded;
use atoll_client::{Watch, WatchEvent};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::backoff::{Backoff, FIRST_PAUSE};
use crate::{ApiScope, Pages, Resource};

/// Memory to remember the presence of an object, in addition to its uid.
const PRESENT: usize = 64;
/// Longest pause before a watch that ended without any event is started again.
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// The workspaces that are listed and watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    AllWorkspaces,
    /// The workspace with this id.
    Workspace(String),
    /// The workspace with this id and those below it. Of a custom resource, those that have the same definition.
    Below(String),
}

impl Scope {
    /// The workspace of an object in a list or watch: those of one workspace do not name it.
    pub fn workspace_of<'a>(&'a self, named: &'a str) -> &'a str {
        match self {
            Scope::Workspace(id) => id,
            Scope::AllWorkspaces | Scope::Below(_) => named,
        }
    }

    /// The workspace that defines the resources of the scope, if one does.
    pub fn defining(&self) -> Option<&str> {
        match self {
            Scope::Workspace(id) | Scope::Below(id) => Some(id),
            Scope::AllWorkspaces => None,
        }
    }
}

/// A resource to list and watch, with selectors.
#[derive(Clone, Copy, Debug)]
pub struct ListWatch<'a> {
    pub resource: &'a Resource,
    pub scope: &'a Scope,
    /// Field selector; empty for all objects.
    pub fields: &'a str,
    /// Label selector; empty for all objects.
    pub labels: &'a str,
    /// Whether to request only the metadata of objects.
    pub metadata_only: bool,
    /// Whether the resource was found through discovery, and may disappear again.
    pub by_discovery: bool,
}

impl<'a> ListWatch<'a> {
    /// Complete objects of a resource in all workspaces.
    pub fn all(resource: &'a Resource) -> Self {
        ListWatch {
            resource,
            scope: &Scope::AllWorkspaces,
            fields: "",
            labels: "",
            metadata_only: false,
            by_discovery: false,
        }
    }

    /// Selects objects by fields.
    pub fn field_selector(self, fields: &'a str) -> Self {
        ListWatch { fields, ..self }
    }

    /// Selects objects by labels.
    pub fn label_selector(self, labels: &'a str) -> Self {
        ListWatch { labels, ..self }
    }

    /// Requests only the metadata.
    pub fn metadata_only(self) -> Self {
        ListWatch { metadata_only: true, ..self }
    }

    /// Marks the resource as found through discovery.
    pub fn discovered(self) -> Self {
        ListWatch { by_discovery: true, ..self }
    }

    /// Restricts the watch to a scope.
    pub fn within(self, scope: &'a Scope) -> Self {
        ListWatch { scope, ..self }
    }

    /// Returns the path with the query parameters that all requests share.
    fn path(&self, api: &ApiScope) -> Result<String, Status> {
        let path = match self.scope {
            Scope::AllWorkspaces => api.everywhere(self.resource),
            Scope::Workspace(id) => api.collection(self.resource, id, "")?,
            Scope::Below(id) => api.below(self.resource, id)?,
        };
        let mut path = format!("{path}?");
        for (name, selector) in [("fieldSelector", self.fields), ("labelSelector", self.labels)] {
            if !selector.is_empty() {
                path.push_str(&format!("{name}={}&", encoded(selector)));
            }
        }
        Ok(path)
    }

    async fn list(&self, api: &ApiScope, path: &str) -> Result<Value, Status> {
        match self.metadata_only {
            true => api.client().list_metadata(path).await,
            false => api.client().get(path).await,
        }
    }

    async fn watch(&self, api: &ApiScope, path: &str) -> Result<Watch, Status> {
        match self.metadata_only {
            true => api.client().watch_metadata(path).await,
            false => api.client().watch(path).await,
        }
    }
}

/// An event of a list or watch.
pub enum ListWatchEvent<'a> {
    Upserted(Value),
    Deleted(Value),
    /// The list is complete: the uids of all objects in it, and its revision.
    Listed(&'a HashSet<String>, u64),
}

/// Lists and watches for as long as the future is polled. A resource that is not served, or that may not be
/// listed, is retried with backoff.
pub async fn list_and_watch(
    api: &ApiScope,
    list_watch: ListWatch<'_>,
    mut show: impl FnMut(ListWatchEvent<'_>) + Send,
) {
    let mut backoff = Backoff::new(api, list_watch.resource, list_watch.by_discovery);
    loop {
        match list_and_watch_once(api, &list_watch, &mut backoff, &mut show).await {
            // The watch history is lost; list again.
            Ok(()) => tokio::time::sleep(FIRST_PAUSE).await,
            Err(status) => tokio::time::sleep(backoff.after(&status)).await,
        }
    }
}

/// Lists once, then watches from that revision, across watches that end normally, until a new list is needed.
async fn list_and_watch_once(
    api: &ApiScope,
    list_watch: &ListWatch<'_>,
    backoff: &mut Backoff,
    show: &mut (impl FnMut(ListWatchEvent<'_>) + Send),
) -> Result<(), Status> {
    let path = list_watch.path(api)?;
    let mut revision = list(api, list_watch, &path, show).await?;
    let mut pause = FIRST_PAUSE;
    loop {
        let requests =
            format!("{path}watch=true&allowWatchBookmarks=true&resourceVersion={}", encoded(&revision));
        let mut watch = match list_watch.watch(api, &requests).await {
            Ok(watch) => watch,
            Err(status) if status.code() == 410 => return Ok(()),
            Err(status) if status.code() == 404 => return Err(status),
            Err(status) => {
                tokio::time::sleep(backoff.after(&status)).await;
                continue;
            }
        };
        backoff.reset();
        let mut is_silent = true;
        while let Some(event) = watch.next().await {
            is_silent = false;
            let seen = match &event {
                // The revision is too old, or the server reports another error.
                WatchEvent::Error(status) => {
                    tracing::debug!(%status, resource = %list_watch.resource.plural, "the watch ended with an error");
                    return Ok(());
                }
                WatchEvent::Added(object)
                | WatchEvent::Modified(object)
                | WatchEvent::Deleted(object)
                | WatchEvent::Bookmark(object) => object::resource_version(object),
            };
            if !seen.is_empty() {
                revision.replace_range(.., seen);
            }
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    show(ListWatchEvent::Upserted(object))
                }
                WatchEvent::Deleted(object) => show(ListWatchEvent::Deleted(object)),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
            }
        }
        pause = if is_silent { (pause * 2).min(LAST_PAUSE) } else { FIRST_PAUSE };
        tokio::time::sleep(pause).await;
    }
}

/// Lists all objects and returns the revision of the list.
async fn list(
    api: &ApiScope,
    list_watch: &ListWatch<'_>,
    path: &str,
    show: &mut (impl FnMut(ListWatchEvent<'_>) + Send),
) -> Result<String, Status> {
    let (mut token, mut present) = (String::new(), HashSet::new());
    let (mut pages, mut charge) = (Pages::default(), Charge::new(api.client().budget().cloned()));
    loop {
        let (from, mut left_out) = (&encoded(&token), false);
        let page = pages.next(api.client(), |limit| async move {
            list_watch.list(api, &format!("{path}limit={limit}&continue={from}")).await
        });
        let page = match page.await {
            // Skip an object that exceeds the memory limit; the budget records it. Its metadata lead to the
            // next page.
            Err(status) if is_too_large(&status) => {
                let one = format!("{path}limit=1&continue={from}");
                let page = api.client().list_metadata(&one).await?;
                left_out = true;
                page
            }
            page => page?,
        };
        let Value::Object(mut page) = page else {
            return Err(Status::internal_error("the response is not a list"));
        };
        let metadata = page.remove("metadata").unwrap_or_default();
        if let Some(Value::Array(items)) = page.remove("items") {
            for item in items {
                charge.grow(object::uid(&item).len() + PRESENT)?;
                present.insert(object::uid(&item).to_string());
                if !left_out {
                    show(ListWatchEvent::Upserted(item));
                }
            }
        }
        token = metadata["continue"].as_str().unwrap_or_default().to_string();
        if token.is_empty() {
            let revision = metadata["resourceVersion"].as_str().unwrap_or_default();
            show(ListWatchEvent::Listed(&present, revision.parse().unwrap_or(0)));
            return Ok(revision.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
