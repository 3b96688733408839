//! How much of a namespace's quotas an object uses, and whether there is room for it.
//!
//! ```text
//!                     ┌─ pods ── sums (what its containers, overhead and resizes come to)
//!   Evaluator ────────┼─ services · volume_claims · device_claims
//!   (of a resource)   └─ a count of objects, for everything else
//!       │
//!       ├─► check    one request against all quotas: what it takes of each, or why it is refused
//!       └─► recount  all objects of a namespace: what is used of one quota
//! ```
//!
//! Everything here is a function of objects; what is not in the object itself is asked of [`Surroundings`].

mod amounts;
mod check;
mod device_claims;
mod evaluator;
mod pods;
mod quota;
mod recount;
mod scopes;
mod services;
mod volume_claims;

pub use amounts::Amounts;
pub use check::{Change, Refusal, check};
pub use evaluator::{Evaluator, Operation};
pub use pods::requests;
pub use quota::Quota;
pub use recount::{Recount, counted};

use serde_json::Value;

/// What is around an object and decides what it uses.
pub trait Surroundings {
    /// Seconds since 1970.
    fn now(&self) -> i64;

    /// The DeviceClasses of the cluster.
    fn device_classes(&self) -> Vec<Value>;

    fn pod(&self, namespace: &str, name: &str) -> Option<Value>;

    /// The ResourceClaims of a namespace.
    fn device_claims(&self, namespace: &str) -> Vec<Value>;
}

/// Surroundings in which there is nothing, long ago: for what hardly depends on them.
pub struct Emptiness;

impl Surroundings for Emptiness {
    fn now(&self) -> i64 {
        0
    }

    fn device_classes(&self) -> Vec<Value> {
        Vec::new()
    }

    fn pod(&self, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn device_claims(&self, _: &str) -> Vec<Value> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
