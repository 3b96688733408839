//! Effects: what a write of a kind does besides writing the object. Unlike the other parts of a strategy they
//! see the whole registry, and some of them write. Most kinds have none.
//!
//! ```text
//!   create    allocate ─ (validation) ─ check ─ reserve_name ─► write ─► after_write
//!   update    check ─ allocate ─ (validation) ────────────────► write ─► after_write
//!   removal   before_removal ─────────────────────────────────► write ─► after_removal
//! ```

use std::pin::Pin;

use atoll_meta::Status;
use atoll_store::Key;
use serde_json::Value;
use tokio::sync::MutexGuard;

use crate::Registry;
use crate::allocation::Allocation;
use crate::row::{ObjectRef, Row};

/// The effects of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Effects {
    /// Refuses a new or changed object because of other objects: the new object, then the old one.
    pub(crate) check: Option<Check>,
    /// Fills in fields whose values are unique among objects, and allocates these values: the new object, the
    /// old one, and whether nothing is to be written.
    pub(crate) allocate: Option<Allocate>,
    /// Refuses a new object whose name is in use elsewhere. The name is reserved while the guard is held.
    pub(crate) reserve_name: Option<ReserveName>,
    /// Called after the object has been created or updated.
    pub(crate) after_write: Option<AfterWrite>,
    /// Called before the object is removed, which it can prevent.
    pub(crate) before_removal: Option<BeforeRemoval>,
    /// Called with the last state of an object that has been removed.
    pub(crate) after_removal: Option<AfterRemoval>,
}

/// A future that is allocated only by kinds that have the effect.
pub(crate) type EffectFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) type Check = fn(&Registry, &Row, &ObjectRef<'_>, &Value, Option<&Value>) -> Result<(), Status>;
pub(crate) type Allocate = for<'a> fn(
    &'a Registry,
    ObjectRef<'a>,
    &'a mut Value,
    Option<&'a Value>,
    bool,
) -> EffectFuture<'a, Result<Allocation, Status>>;
pub(crate) type ReserveName =
    for<'a> fn(&'a Registry, &'a Row, ObjectRef<'a>) -> EffectFuture<'a, Result<MutexGuard<'a, ()>, Status>>;
pub(crate) type AfterWrite = for<'a> fn(&'a Registry, ObjectRef<'a>) -> EffectFuture<'a, ()>;
pub(crate) type BeforeRemoval = for<'a> fn(&'a Registry, &'a Key) -> EffectFuture<'a, Result<(), Status>>;
pub(crate) type AfterRemoval = for<'a> fn(&'a Registry, ObjectRef<'a>, &'a Value) -> EffectFuture<'a, ()>;

impl Effects {
    pub const NONE: Effects = Effects {
        check: None,
        allocate: None,
        reserve_name: None,
        after_write: None,
        before_removal: None,
        after_removal: None,
    };
}
