//! A subscriber that records every batch.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::{Batch, Change, ReadError, Revision, Store};

pub struct Subscriber {
    after: Revision,
    batches: Arc<Mutex<Vec<Batch>>>,
    progress: watch::Receiver<Revision>,
}

impl Subscriber {
    pub async fn start(store: &Arc<dyn Store>, after: Revision) -> Result<Self, ReadError> {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let (sender, progress) = watch::channel(after);
        let sink = {
            let batches = batches.clone();
            move |batch: &Batch| {
                batches.lock().expect("no panic under the lock").push(batch.clone());
                sender.send_replace(batch.revision);
                ControlFlow::Continue(())
            }
        };
        store.subscribe(after, Box::new(sink)).await?;
        Ok(Subscriber { after, batches, progress })
    }

    /// The changes received so far.
    pub fn changes(&self) -> Vec<Change> {
        let batches = self.batches.lock().expect("no panic under the lock");
        let mut reached = self.after;
        for batch in batches.iter() {
            let mut last = reached;
            for change in &batch.changes {
                assert!(change.revision > last, "revision {} came after {last}", change.revision);
                last = change.revision;
            }
            assert!(batch.revision >= last, "a batch reaches {}, its last change {last}", batch.revision);
            reached = batch.revision;
        }
        batches.iter().flat_map(|batch| batch.changes.iter().cloned()).collect()
    }

    /// Waits until everything up to `revision` was received, and returns the changes.
    pub async fn until(&mut self, revision: Revision) -> Vec<Change> {
        self.progress.wait_for(|reached| *reached >= revision).await.expect("the subscription is active");
        self.changes()
    }
}

/// The revisions of changes, for comparison.
pub fn revisions(changes: &[Change]) -> Vec<Revision> {
    changes.iter().map(|change| change.revision).collect()
}
