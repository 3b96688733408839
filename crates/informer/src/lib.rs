//! What controllers stand on: what there is, in memory and up to date; what is to be done, fairly; how to say it.
//!
//! ```text
//!                       ┌─ World: one API server, or all workspaces of an Atoll; from keys to paths, and writes
//!   API ── list, watch ─┴► Informers ── one Cache for each resource, shared by all controllers
//!    ▲                          │ listeners: what has changed
//!    │                          ▼
//!    │                     Queue: each key once, workspaces in turn, failures later and later
//!    │                          │
//!    └──── writes, Recorder ◄───┴─ reconcile(key)
//! ```
//!
//! A controller reads its caches and writes through its [`World`]. The answers to its writes go into the caches at once
//! ([`Cache::wrote`]), so that it never decides twice on what it has done already; nothing has to be expected.

mod cache;
mod clock;
mod events;
mod follow;
mod informers;
mod key;
mod pages;
mod patience;
mod queue;
mod resource;
mod tree;
mod world;

pub use cache::{Cache, Change, Index};
pub use clock::{Clock, SystemClock};
pub use events::{Events, Recorder};
pub use follow::{Look, Scope, Sight, follow};
pub use informers::Informers;
pub use key::Key;
pub use pages::Pages;
pub use queue::{Next, Queue};
pub use resource::{Resource, resources};
pub use tree::Tree;
pub use world::{DeleteOptions, World, encoded};

/// The annotation by which objects from a list across all workspaces say where they are from.
pub const WORKSPACE: &str = "atoll.dev/workspace-id";
