//! The desired and observed state of one object.

use std::sync::Arc;

use atoll_client::memory_limits::Charge;
use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::view::{LARGEST_STATUS, LONGEST_MESSAGE, ObjectTarget, State};
use atoll_meta::text;
use bytes::Bytes;
use tokio::time::Instant;

use crate::objects::reconcile::{Desired, ObservedObject};

/// Length of error messages that are kept even if the memory budget is exceeded.
pub const SHORTEST: usize = 256;

pub(super) struct TableEntry {
    pub(super) target: Arc<ObjectTarget>,
    pub(super) desired: Desired,
    pub(super) seen: Option<ObservedObject>,
    /// Released objects that refer to it, as last observed; needed if it must be created again.
    pub(super) keep: String,
    /// State and message of a failure or warning.
    pub(super) failure: Option<(State, String)>,
    /// Hash of the last reported record.
    pub(super) last_reported: Option<u128>,
    /// Last round of the view that contained the object.
    pub(super) round: u64,
    /// Number of recent corrections of drift, and the time of the last one.
    pub(super) corrections: (u32, Option<Instant>),
    /// Number of reported corrections.
    pub(super) corrected: u32,
    /// Revision above at which the removal was requested, if it was.
    pub(super) since: u64,
    /// Charge for the observed state and messages.
    pub(super) charge: Charge,
}

impl TableEntry {
    /// Stores an observation, without its status if that is too large or exceeds the budget.
    pub fn set_observed(&mut self, mut seen: ObservedObject) {
        if seen.status.len() > LARGEST_STATUS || self.charge.set(seen.size() + self.words()).is_err() {
            seen.status = Bytes::new();
        }
        self.seen = Some(seen);
    }

    /// Stores a failure, with a shortened message if the budget is exceeded.
    pub fn set_failure(&mut self, failure: Option<(State, String)>) {
        self.failure = failure.map(|(state, message)| (state, text::clean(&message, LONGEST_MESSAGE)));
        let seen = self.seen.as_ref().map_or(0, ObservedObject::size);
        if self.charge.set(seen + self.words()).is_err()
            && let Some((_, message)) = &mut self.failure
        {
            *message = text::clean(message, SHORTEST);
        }
    }

    /// Returns the uid below of a workload that exists in the cluster.
    pub fn workload_uid(&self) -> Option<&str> {
        let resource = &self.target.resource;
        let is_workload = is_workload((&resource.group, &resource.resource));
        self.seen.as_ref().filter(|_| is_workload).map(|seen| seen.uid.as_str())
    }

    /// Returns the uid below of a Service that exists in the cluster.
    pub fn service_uid(&self) -> Option<&str> {
        self.seen.as_ref().filter(|_| self.target.is_service()).map(|seen| seen.uid.as_str())
    }

    /// Memory of messages in addition to the observation.
    fn words(&self) -> usize {
        self.keep.len() + self.failure.as_ref().map_or(0, |(_, message)| message.len())
    }
}
