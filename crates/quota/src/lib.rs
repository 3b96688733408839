//! Computes the quota usage of objects, and checks requests against quotas.
//!
//! ```text
//!                     ┌─ pods ── sums (of containers, overhead and resizes)
//!   Evaluator ────────┼─ services · volume_claims · device_claims
//!   (of a resource)   └─ a count of objects, for everything else
//!       │
//!       ├─► check    one request against all quotas: added usage, or the refusal
//!       └─► recount  all objects of a namespace: usage of one quota
//! ```
//!
//! Everything here is a pure function of objects; other objects that it needs come from [`QuotaLookup`].

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
pub use check::{QuotaChange, QuotaRefusal, check};
pub use evaluator::{Evaluator, QuotaOperation};
pub use pods::requests;
pub use quota::Quota;
pub use recount::{Recount, counted};

use serde_json::Value;

/// Other objects that affect the usage of an object.
pub trait QuotaLookup: Sync {
    /// Seconds since 1970.
    fn now(&self) -> i64;

    /// The DeviceClasses of the cluster.
    fn device_classes(&self) -> Vec<Value>;

    fn pod(&self, namespace: &str, name: &str) -> Option<Value>;

    /// The ResourceClaims of a namespace.
    fn device_claims(&self, namespace: &str) -> Vec<Value>;
}

/// An implementation without objects, at time zero, for evaluators that hardly need any.
pub struct NoObjects;

impl QuotaLookup for NoObjects {
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
