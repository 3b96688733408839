//! Memory that all senders share, divided like permits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_meta::Status;

use super::{GROUP_DIVISOR, SENDER_DIVISOR, Sender, too_many_requests};

/// A memory limit for all senders.
pub struct Memory {
    limit: usize,
    /// Bytes that a group without other reservations may have even if its share is smaller. Otherwise large
    /// requests would be impossible in deeply nested workspaces.
    single: usize,
    reserved: Mutex<ReservedBytes>,
}

/// Reserved bytes, in total and per group. Groups without reservations have no entry.
#[derive(Default)]
struct ReservedBytes {
    all: usize,
    groups: HashMap<Box<str>, usize>,
}

/// Memory that is reserved until this is dropped.
pub struct Reservation {
    memory: Arc<Memory>,
    /// Without a sender, nothing is counted.
    sender: Option<Sender>,
    bytes: usize,
}

impl Memory {
    pub fn new(limit: usize, single: usize) -> Arc<Self> {
        Arc::new(Memory { limit, single, reserved: Mutex::default() })
    }

    /// An empty reservation of a sender.
    pub fn empty_reservation(self: &Arc<Self>, sender: Option<Sender>) -> Reservation {
        Reservation { memory: self.clone(), sender, bytes: 0 }
    }

    /// Returns how much a sender can have if nothing else is reserved.
    fn most(&self, sender: &Sender) -> usize {
        let groups = u32::try_from(sender.0.len()).unwrap_or(u32::MAX);
        let divisor = GROUP_DIVISOR.saturating_pow(groups.saturating_sub(1)).saturating_mul(SENDER_DIVISOR);
        (self.limit / divisor).max(self.single).min(self.limit)
    }
}

impl ReservedBytes {
    fn has_room(&self, memory: &Memory, sender: &Sender, own: usize, more: usize) -> bool {
        let mut share = memory.limit / SENDER_DIVISOR;
        let fits = sender.0.iter().all(|group| {
            let reserved = self.groups.get(group).copied().unwrap_or_default();
            let most = if reserved <= own { share.max(memory.single) } else { share };
            share /= GROUP_DIVISOR;
            reserved.saturating_add(more) <= most
        });
        fits && self.all.saturating_add(more) <= memory.limit
    }

    fn change(&mut self, sender: &Sender, from: usize, to: usize) {
        self.all = self.all.saturating_sub(from).saturating_add(to);
        for group in sender.0.iter() {
            let reserved = self.groups.entry(group.clone()).or_default();
            *reserved = reserved.saturating_sub(from).saturating_add(to);
            if *reserved == 0 {
                self.groups.remove(group);
            }
        }
    }
}

impl Reservation {
    pub fn is_counted(&self) -> bool {
        self.sender.is_some()
    }

    /// Changes the reserved size, or returns an error: with Retry-After unless it could never be so large.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Status> {
        self.set(bytes, false)
    }

    /// The same for a response that turns out to be larger than its JSON. Without a sender, it may take as much
    /// as all senders together.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        match self.sender {
            None if bytes > self.memory.limit => Err(too_large(self.memory.limit)),
            _ => self.resize(bytes),
        }
    }

    /// Changes the reserved size even if the limit is exceeded. Other requests are refused then.
    pub fn force(&mut self, bytes: usize) {
        // A forced change does not fail.
        let _ = self.set(bytes, true);
    }

    fn set(&mut self, bytes: usize, forced: bool) -> Result<(), Status> {
        let Some(sender) = &self.sender else { return Ok(()) };
        if bytes == self.bytes {
            return Ok(());
        }
        let mut reserved = self.memory.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !forced && !reserved.has_room(&self.memory, sender, self.bytes, more) {
            let most = self.memory.most(sender);
            return Err(if bytes > most { too_large(most) } else { too_many_requests() });
        }
        reserved.change(sender, self.bytes, bytes);
        self.bytes = bytes;
        Ok(())
    }
}

fn too_large(most: usize) -> Status {
    Status::request_entity_too_large(format!(
        "it takes more than {} MiB of memory to respond to this request",
        most >> 20
    ))
}

#[cfg(test)]
impl Memory {
    /// Returns the reserved bytes and the number of groups with reservations.
    pub fn reserved(&self) -> (usize, usize) {
        let reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        (reserved.all, reserved.groups.len())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.force(0);
    }
}
