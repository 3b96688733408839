//! Clients that execute random operations concurrently and record the responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::history::{Action, HistoryOperation, WriteResult};
use super::random::Random;
use super::{delete, put, when};
use crate::{Condition, Guard, Key, Range, ReadError, Revision, Store, Write, WriteError};

/// Size of a random workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub clients: u64,
    pub operations: u64,
    pub keys: u64,
    /// Whether clients also compact occasionally.
    pub compacting: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Workload { clients: 6, operations: 60, keys: 4, compacting: false }
    }
}

/// Runs all clients until they are done. A client continues when the store fails: its writes then have an
/// unknown result.
pub async fn run(store: &Arc<dyn Store>, seed: u64, workload: Workload) -> Vec<HistoryOperation> {
    let clock = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..workload.clients)
        .map(|number| {
            let random = Random::new(seed.wrapping_add(number.wrapping_mul(0x5851_f42d_4c95_7f2d)));
            let client = Client {
                number,
                random,
                store: store.clone(),
                clock: clock.clone(),
                known: Vec::new(),
                workload,
            };
            tokio::spawn(client.run())
        })
        .collect();
    let mut operations = Vec::new();
    for client in clients {
        operations.extend(client.await.expect("a client"));
    }
    operations
}

struct Client {
    number: u64,
    random: Random,
    store: Arc<dyn Store>,
    clock: Arc<AtomicU64>,
    /// Recently received revisions, for conditions that are likely to hold.
    known: Vec<(Key, Revision)>,
    workload: Workload,
}

impl Client {
    async fn run(mut self) -> Vec<HistoryOperation> {
        let mut operations = Vec::new();
        for round in 0..self.workload.operations {
            // Without yielding, a store that returns immediately would never be used concurrently.
            if self.random.one_in(2) {
                tokio::task::yield_now().await;
            }
            let invoked = self.clock.fetch_add(1, Ordering::SeqCst);
            let action = match self.random.below(10) {
                0..2 => self.read().await,
                2 if self.workload.compacting => self.compact().await,
                _ => Some(self.write(round).await),
            };
            let returned = self.clock.fetch_add(1, Ordering::SeqCst);
            operations.extend(action.map(|action| HistoryOperation { invoked, returned, action }));
        }
        operations
    }

    async fn read(&mut self) -> Option<Action> {
        let past = match self.known.last() {
            Some((_, revision)) if self.random.one_in(3) => Some(*revision),
            _ => None,
        };
        match self.store.range(Range::all(), past, 0).await {
            Ok(page) => {
                for entry in &page.entries {
                    self.known.push((entry.key.clone(), entry.revision));
                }
                self.forget();
                Some(Action::Read { entries: page.entries, revision: page.revision, past: past.is_some() })
            }
            Err(ReadError::Compacted { .. }) if past.is_some() => None,
            Err(ReadError::Unavailable(_)) => None,
            Err(error) => panic!("reading at {past:?}: {error:?}"),
        }
    }

    async fn compact(&mut self) -> Option<Action> {
        let (_, through) = self.known.first()?;
        // A store with injected faults may return an error.
        let _ = self.store.compact(*through).await;
        None
    }

    async fn write(&mut self, round: u64) -> Action {
        let write = self.compose(round);
        let answer = match self.store.write(write.clone()).await {
            Ok(revision) => {
                self.known.push((write.key.clone(), revision));
                WriteResult::Written(revision)
            }
            Err(WriteError::Unmet { key, actual, revision }) => {
                self.known.extend(actual.map(|actual| (key.clone(), actual)));
                WriteResult::Unmet { key, actual, revision }
            }
            Err(WriteError::Unavailable(_)) => WriteResult::Unknown,
        };
        self.forget();
        Action::wrote(&write, answer)
    }

    fn compose(&mut self, round: u64) -> Write {
        let name = format!("key-{}", self.random.below(self.workload.keys));
        let write = match self.random.one_in(4) {
            true => delete(&name),
            false => put(&name, format!("{}-{round}", self.number)),
        };
        let condition = self.condition(&name);
        let mut write = when(condition, write);
        if self.random.one_in(4) {
            let other = format!("key-{}", self.random.below(self.workload.keys));
            let condition = self.condition(&other);
            write.guards.push(Guard { key: Key::from(other), condition });
        }
        write
    }

    fn condition(&mut self, key: &str) -> Condition {
        let known = self.known.iter().rev().find(|(known, _)| &**known == key);
        match (self.random.below(4), known) {
            (0, _) => Condition::Absent,
            (1, _) => Condition::Present,
            (2, Some((_, revision))) => Condition::At(*revision),
            _ => Condition::Any,
        }
    }

    fn forget(&mut self) {
        let excess = self.known.len().saturating_sub(16);
        self.known.drain(..excess);
    }
}
