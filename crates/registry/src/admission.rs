//! Who else has a say in a write. The registry asks at the two points where upstream does.

use atoll_meta::Status;
use atoll_store::Revision;
use serde_json::Value;

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    At(Revision),
    /// Nothing was written.
    No,
    /// The store failed on the way; nobody knows what reached the disk.
    Unknown,
}

pub trait Admission: Sync {
    /// May change what is about to be created (`old` is `None`) or to take the place of `old`. The object has its defaults
    /// and the managers of its fields; a name that is to be generated is not there yet, and nothing has been prepared or checked.
    fn mutate(&self, new: &mut Value, old: Option<&Value>)
    -> impl Future<Output = Result<(), Status>> + Send;

    /// Judges what is about to be written, finished and checked, beside what is there. Without `new`, `old` is about to go.
    fn validate(
        &self,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> impl Future<Output = Result<(), Status>> + Send;

    /// Hears that an object says where it shall be placed, which is not written with the object.
    /// Without a name if that is to be generated.
    fn placement_ignored(&self, _new: &Value) {}

    /// Whether the limits of the workspace hold for what is written. They do for clients, controllers included; what the
    /// server writes by itself only counts.
    fn is_limited(&self) -> bool {
        true
    }

    /// Hears how the write ended that was judged last, to give back what was taken for it.
    fn ended(&self, written: Written) -> impl Future<Output = ()> + Send;
}

/// Only the limits of the workspace have a say: what the server writes on behalf of an agent.
pub struct Limited;

impl Admission for Limited {
    async fn mutate(&self, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    async fn validate(&self, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    async fn ended(&self, _: Written) {}
}

/// Nobody has: what the server itself decides on.
pub struct Unasked;

impl Admission for Unasked {
    async fn mutate(&self, _: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    async fn validate(&self, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    fn is_limited(&self) -> bool {
        false
    }

    async fn ended(&self, _: Written) {}
}
