//! The admission interface. The registry calls it at the same two points as upstream.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go

use atoll_meta::Status;
use atoll_store::Revision;
use serde_json::Value;

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    At(Revision),
    /// Nothing was written.
    NotWritten,
    /// The store failed during the write; it is unknown whether it was executed.
    Unknown,
}

pub trait Admission: Sync {
    /// May change an object that is about to be created (`old` is `None`) or to replace `old`. The object has
    /// its defaults and its managed fields; a generated name is not set yet, and the object has been neither
    /// prepared nor validated.
    fn mutate(&self, new: &mut Value, old: Option<&Value>)
    -> impl Future<Output = Result<(), Status>> + Send;

    /// Validates the final object that is about to be written, together with the existing one. Without `new`,
    /// `old` is about to be deleted. `size` is the approximate size of the objects, see [`crate::size_of`].
    fn validate(
        &self,
        new: Option<&Value>,
        old: Option<&Value>,
        size: usize,
    ) -> impl Future<Output = Result<(), Status>> + Send;

    /// Called when an object contains a placement annotation, which is not written with the object. The name
    /// is missing if it is to be generated.
    fn placement_ignored(&self, _new: &Value) {}

    /// Called when an object contains another annotation that only the server sets.
    fn annotation_ignored(&self, _key: &str) {}

    /// Whether the workspace limits apply to the write. They apply to clients, including controllers; writes
    /// of the server itself are only counted.
    fn is_limited(&self) -> bool {
        true
    }

    /// Called with the outcome of the write that was validated last, to release its reservations.
    fn write_finished(&self, written: WriteOutcome) -> impl Future<Output = ()> + Send;
}

/// Applies only the workspace limits, for writes of the server on behalf of an agent.
pub struct LimitsOnly;

impl Admission for LimitsOnly {
    async fn mutate(&self, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    async fn validate(&self, _: Option<&Value>, _: Option<&Value>, _: usize) -> Result<(), Status> {
        Ok(())
    }

    async fn write_finished(&self, _: WriteOutcome) {}
}

/// Applies nothing, for the server's own writes.
pub struct NoAdmission;

impl Admission for NoAdmission {
    async fn mutate(&self, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    async fn validate(&self, _: Option<&Value>, _: Option<&Value>, _: usize) -> Result<(), Status> {
        Ok(())
    }

    fn is_limited(&self) -> bool {
        false
    }

    async fn write_finished(&self, _: WriteOutcome) {}
}
