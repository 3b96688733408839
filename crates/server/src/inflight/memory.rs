//! Memory that all senders share, divided like permits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_meta::Status;

use super::{PART, SHARE, Sender, busy};

/// A memory limit for all senders.
pub struct Memory {
    limit: usize,
    /// Bytes that a group without other reservations may have even if its share is smaller. Otherwise large
    /// requests would be impossible in deeply nested workspaces.
    alone: usize,
    held: Mutex<Held>,
}

/// Reserved bytes, in total and per group. Groups without reservations have no entry.
#[derive(Default)]
struct Held {
    all: usize,
    circles: HashMap<Box<str>, usize>,
}

/// Memory that is reserved until this is dropped.
pub struct Reserved {
    memory: Arc<Memory>,
    /// Without a sender, nothing is counted.
    sender: Option<Sender>,
    bytes: usize,
}

impl Memory {
    pub fn new(limit: usize, alone: usize) -> Arc<Self> {
        Arc::new(Memory { limit, alone, held: Mutex::default() })
    }

    /// An empty reservation of a sender.
    pub fn nothing(self: &Arc<Self>, sender: Option<Sender>) -> Reserved {
        Reserved { memory: self.clone(), sender, bytes: 0 }
    }
}

impl Held {
    fn has_room(&self, memory: &Memory, sender: &Sender, own: usize, more: usize) -> bool {
        let mut share = memory.limit / SHARE;
        let fits = sender.0.iter().all(|circle| {
            let held = self.circles.get(circle).copied().unwrap_or_default();
            let most = if held <= own { share.max(memory.alone) } else { share };
            share /= PART;
            held.saturating_add(more) <= most
        });
        fits && self.all.saturating_add(more) <= memory.limit
    }

    fn change(&mut self, sender: &Sender, from: usize, to: usize) {
        self.all = self.all.saturating_sub(from).saturating_add(to);
        for circle in sender.0.iter() {
            let held = self.circles.entry(circle.clone()).or_default();
            *held = held.saturating_sub(from).saturating_add(to);
            if *held == 0 {
                self.circles.remove(circle);
            }
        }
    }
}

impl Reserved {
    pub fn is_counted(&self) -> bool {
        self.sender.is_some()
    }

    /// Changes the reserved size, or returns an error with Retry-After.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Status> {
        self.set(bytes, false)
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
        let mut held = self.memory.held.lock().unwrap_or_else(PoisonError::into_inner);
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !forced && !held.has_room(&self.memory, sender, self.bytes, more) {
            return Err(busy());
        }
        held.change(sender, self.bytes, bytes);
        self.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
impl Memory {
    /// Returns the reserved bytes and the number of groups with reservations.
    pub fn taken(&self) -> (usize, usize) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        (held.all, held.circles.len())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.force(0);
    }
}
