//! Looks at what there is and follows what becomes of it, for those who keep objects and for those who do not.

use std::collections::HashSet;
use std::time::Duration;

use atoll_client::memory::{Charge, is_too_large};
use atoll_client::{Watch, WatchEvent};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::patience::{FIRST_PAUSE, Patience};
use crate::{Pages, Resource, World};

/// What it takes to remember that an object is there, beside its uid.
const PRESENT: usize = 64;
/// Watches that end without a word are begun again after no longer than this.
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// Where objects are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Everywhere,
    /// In the workspace with this id.
    Workspace(String),
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub resource: &'a Resource,
    pub scope: &'a Scope,
    /// Which of them, as a field selector; empty for all.
    pub fields: &'a str,
    /// The same as a label selector.
    pub labels: &'a str,
    /// Whether only what all objects have is of interest.
    pub metadata_only: bool,
    /// Whether it was found by discovery, and may go as it has come.
    pub by_discovery: bool,
}

impl<'a> Look<'a> {
    /// Whole objects, wherever they are.
    pub fn everywhere(resource: &'a Resource) -> Self {
        Look {
            resource,
            scope: &Scope::Everywhere,
            fields: "",
            labels: "",
            metadata_only: false,
            by_discovery: false,
        }
    }

    /// Only those whose fields are as this selector says.
    pub fn selecting(self, fields: &'a str) -> Self {
        Look { fields, ..self }
    }

    /// Only those whose labels are as this selector says.
    pub fn labelled(self, labels: &'a str) -> Self {
        Look { labels, ..self }
    }

    /// Only their metadata.
    pub fn metadata(self) -> Self {
        Look { metadata_only: true, ..self }
    }

    /// Told of it by discovery.
    pub fn discovered(self) -> Self {
        Look { by_discovery: true, ..self }
    }

    /// Only in this scope.
    pub fn within(self, scope: &'a Scope) -> Self {
        Look { scope, ..self }
    }

    /// Where they are, up to the parameters that all requests share.
    fn path(&self, world: &World) -> Result<String, Status> {
        let path = match self.scope {
            Scope::Everywhere => world.everywhere(self.resource),
            Scope::Workspace(id) => world.collection(self.resource, id, "")?,
        };
        let mut path = format!("{path}?");
        for (name, selector) in [("fieldSelector", self.fields), ("labelSelector", self.labels)] {
            if !selector.is_empty() {
                path.push_str(&format!("{name}={}&", crate::world::encoded(selector)));
            }
        }
        Ok(path)
    }

    async fn list(&self, world: &World, path: &str) -> Result<Value, Status> {
        match self.metadata_only {
            true => world.client().list_metadata(path).await,
            false => world.client().get(path).await,
        }
    }

    async fn watch(&self, world: &World, path: &str) -> Result<Watch, Status> {
        match self.metadata_only {
            true => world.client().watch_metadata(path).await,
            false => world.client().watch(path).await,
        }
    }
}

/// What was seen.
pub enum Sight<'a> {
    There(Value),
    Gone(Value),
    /// All have been shown that are there: those with these uids, at this revision.
    All(&'a HashSet<String>, u64),
}

/// Shows what there is, and what changes, for as long as it is polled. What is not served, or not allowed, is asked for
/// again now and then, and costs next to nothing until it is.
pub async fn follow(world: &World, look: Look<'_>, mut show: impl FnMut(Sight<'_>) + Send) {
    let mut patience = Patience::new(world, look.resource, look.by_discovery);
    loop {
        match follow_once(world, &look, &mut patience, &mut show).await {
            // What happened meanwhile is no longer known.
            Ok(()) => tokio::time::sleep(FIRST_PAUSE).await,
            Err(status) => tokio::time::sleep(patience.after(&status)).await,
        }
    }
}

/// Lists, then watches from there, through watches that end by themselves, until that cannot go on.
async fn follow_once(
    world: &World,
    look: &Look<'_>,
    patience: &mut Patience,
    show: &mut (impl FnMut(Sight<'_>) + Send),
) -> Result<(), Status> {
    let path = look.path(world)?;
    let mut revision = list(world, look, &path, show).await?;
    let mut pause = FIRST_PAUSE;
    loop {
        let asked = format!("{path}watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
        let mut watch = match look.watch(world, &asked).await {
            Ok(watch) => watch,
            Err(status) if status.code() == 410 => return Ok(()),
            Err(status) if status.code() == 404 => return Err(status),
            Err(status) => {
                tokio::time::sleep(patience.after(&status)).await;
                continue;
            }
        };
        patience.restore();
        let mut is_silent = true;
        while let Some(event) = watch.next().await {
            is_silent = false;
            let seen = match &event {
                // The past is gone, or something else is wrong with it.
                WatchEvent::Error(status) => {
                    tracing::debug!(%status, resource = %look.resource.plural, "the watch ended");
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
                WatchEvent::Added(object) | WatchEvent::Modified(object) => show(Sight::There(object)),
                WatchEvent::Deleted(object) => show(Sight::Gone(object)),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
            }
        }
        pause = if is_silent { (pause * 2).min(LAST_PAUSE) } else { FIRST_PAUSE };
        tokio::time::sleep(pause).await;
    }
}

/// Shows all there is and returns the revision at which it was.
async fn list(
    world: &World,
    look: &Look<'_>,
    path: &str,
    show: &mut (impl FnMut(Sight<'_>) + Send),
) -> Result<String, Status> {
    let (mut token, mut present) = (String::new(), HashSet::new());
    let (mut pages, mut charge) = (Pages::default(), Charge::new(world.client().budget().cloned()));
    loop {
        let (from, mut left_out) = (&token, false);
        let page = pages.next(world.client(), |limit| async move {
            look.list(world, &format!("{path}limit={limit}&continue={from}")).await
        });
        let page = match page.await {
            // One object that takes too much memory is left out, and noted in the budget; its metadata lead to the next.
            Err(status) if is_too_large(&status) => {
                let one = format!("{path}limit=1&continue={token}");
                let page = world.client().list_metadata(&one).await?;
                left_out = true;
                page
            }
            page => page?,
        };
        let Value::Object(mut page) = page else { return Err(Status::internal_error("no list")) };
        let metadata = page.remove("metadata").unwrap_or_default();
        if let Some(Value::Array(items)) = page.remove("items") {
            for item in items {
                charge.grow(object::uid(&item).len() + PRESENT)?;
                present.insert(object::uid(&item).to_string());
                if !left_out {
                    show(Sight::There(item));
                }
            }
        }
        token = metadata["continue"].as_str().unwrap_or_default().to_string();
        if token.is_empty() {
            let revision = metadata["resourceVersion"].as_str().unwrap_or_default();
            show(Sight::All(&present, revision.parse().unwrap_or(0)));
            return Ok(revision.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
