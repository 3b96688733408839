//! What all objects have, of objects that nobody keeps: for those who look at everything and remember little.

use std::collections::HashSet;
use std::time::Duration;

use atoll_client::WatchEvent;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Resource, World};

/// Objects for each page of a list.
const PAGE: usize = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// Where objects are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Everywhere,
    /// In the workspace with this id.
    Workspace(String),
}

/// What was seen.
pub enum Sight<'a> {
    There(&'a Value),
    Gone(&'a Value),
    /// All have been shown that are there: those with these uids.
    All(&'a HashSet<String>),
}

/// Shows what there is of a resource, and what changes, for as long as it is polled.
pub async fn follow_metadata(
    world: &World,
    resource: &Resource,
    scope: &Scope,
    mut show: impl FnMut(Sight<'_>) + Send,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let outcome = match path(world, resource, scope) {
            Ok(path) => follow_once(world, &path, &mut show).await,
            Err(status) => Err(status),
        };
        match outcome {
            Ok(()) => pause = FIRST_PAUSE,
            Err(status) => {
                // Definitions go, and what they define with them, before others hear of it.
                tracing::debug!(%status, resource = %resource.plural, "cannot be looked at; trying again");
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn path(world: &World, resource: &Resource, scope: &Scope) -> Result<String, Status> {
    match scope {
        Scope::Everywhere => Ok(world.everywhere(resource)),
        Scope::Workspace(id) => world.collection(resource, id, ""),
    }
}

async fn follow_once(
    world: &World,
    path: &str,
    show: &mut (impl FnMut(Sight<'_>) + Send),
) -> Result<(), Status> {
    let (mut token, mut present) = (String::new(), HashSet::new());
    let mut revision = loop {
        let page = world.client().list_metadata(&format!("{path}?limit={PAGE}&continue={token}")).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            present.insert(object::uid(item).to_string());
            show(Sight::There(item));
        }
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
        if token.is_empty() {
            break page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_string();
        }
    };
    show(Sight::All(&present));
    drop(present);
    loop {
        let asked = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
        let mut watch = world.client().watch_metadata(&asked).await?;
        let mut events = 0;
        while let Some(event) = watch.next().await {
            events += 1;
            let seen = match &event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    show(Sight::There(object));
                    object
                }
                WatchEvent::Deleted(object) => {
                    show(Sight::Gone(object));
                    object
                }
                WatchEvent::Bookmark(object) => object,
                // The past is gone, or something else is wrong with it.
                WatchEvent::Error(status) => return Err(status.clone()),
            };
            let seen = object::resource_version(seen);
            if !seen.is_empty() {
                revision = seen.to_string();
            }
        }
        if events == 0 {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }
}
