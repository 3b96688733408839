//! What is known of one object.

use std::sync::Arc;

use atoll_client::memory::Charge;
use atoll_fleet::view::{LARGEST_STATUS, LONGEST_MESSAGE, State, Target};
use atoll_meta::text;
use bytes::Bytes;
use tokio::time::Instant;

use crate::reconcile::{Seen, Wanted};

/// As much is said of what is wrong even if the cluster has used up its memory.
pub const SHORTEST: usize = 256;

pub(super) struct Entry {
    pub(super) target: Arc<Target>,
    pub(super) wanted: Wanted,
    pub(super) seen: Option<Seen>,
    /// What was let go and refers to it, as it was last seen: should it have to be made again, that still counts.
    pub(super) keep: String,
    /// What is wrong, or at least worth a word.
    pub(super) trouble: Option<(State, String)>,
    /// A hash of what was told above last.
    pub(super) told: Option<u128>,
    /// In which round of the view it was mentioned last.
    pub(super) round: u64,
    /// How often others' changes were corrected lately, and when last.
    pub(super) corrections: (u32, Option<Instant>),
    /// How often that was told.
    pub(super) corrected: u32,
    /// The revision above since which it is to go, if it is.
    pub(super) since: u64,
    /// For what was seen, and for the words of the cluster.
    pub(super) charge: Charge,
}

impl Entry {
    /// Remembers what was seen, without a status that is too large or that there is no room for.
    pub fn see(&mut self, mut seen: Seen) {
        if seen.status.len() > LARGEST_STATUS || self.charge.set(seen.size() + self.words()).is_err() {
            seen.status = Bytes::new();
        }
        self.seen = Some(seen);
    }

    /// Remembers what is wrong, in few words if there is no room for more.
    pub fn set_trouble(&mut self, trouble: Option<(State, String)>) {
        self.trouble = trouble.map(|(state, message)| (state, text::clean(&message, LONGEST_MESSAGE)));
        let seen = self.seen.as_ref().map_or(0, Seen::size);
        if self.charge.set(seen + self.words()).is_err()
            && let Some((_, message)) = &mut self.trouble
        {
            *message = text::clean(message, SHORTEST);
        }
    }

    /// What the words of the cluster take that are kept beside what was seen.
    fn words(&self) -> usize {
        self.keep.len() + self.trouble.as_ref().map_or(0, |(_, message)| message.len())
    }
}
