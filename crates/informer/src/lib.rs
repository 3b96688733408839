//! Building blocks of controllers: informer caches, work queues and Event recorders.
//!
//! ```text
//!                       ┌─ ApiScope: one API server, or all workspaces; maps keys to paths, and writes
//!   API ── list, watch ─┴► Informers ── one Cache for each resource, shared by all controllers
//!    ▲                          │ listeners receive changes
//!    │                          ▼
//!    │                     Queue: deduplicates keys, round-robin over workspaces, backoff
//!    │                          │
//!    └──── writes, Recorder ◄───┴─ reconcile(key)
//! ```
//!
//! A controller reads its caches and writes through its [`ApiScope`]. The responses to its writes go into the
//! caches at once ([`Cache::wrote`]), so that it never acts twice on a stale cache; it needs no expectations.

mod api_scope;
mod backoff;
mod cache;
mod cache_updates;
mod defined;
mod discovered;
mod events;
mod informers;
mod key;
mod list_watch;
mod pages;
mod queue;
mod resource;
mod tree;

pub use api_scope::{ApiScope, DeleteOptions};
pub use atoll_client::path::encoded;
pub use atoll_clock::{Clock, SystemClock};
pub use cache::{Cache, Change, Index};
pub use cache_updates::{CacheContents, FollowedCache};
pub use defined::{
    DefinedResource, DefinedResources, DefinitionEvent, LeftOut, WATCH_LIMITS, WatchLimits, WatchedResources,
    is_imported,
};
pub use discovered::{discover_built_in, of_definition};
pub use events::{Events, Recorder};
pub use informers::Informers;
pub use key::Key;
pub use list_watch::{ListWatch, ListWatchEvent, Scope, list_and_watch};
pub use pages::Pages;
pub use queue::{BatchOutcome, BatchSize, Next, Queue, is_unlimited};
pub use resource::{Resource, resources};
pub use tree::Tree;

/// Annotation with the workspace id of an object in lists across all workspaces.
pub const WORKSPACE: &str = "atoll.dev/workspace-id";
