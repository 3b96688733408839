//! What is told above: the latest of each object, many at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_fleet::view::{Record, Report, State};
use atoll_informer::Key;
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::settings::Settings;

/// At most so many records a report.
const MOST: usize = 500;
/// Between two reports at least: what happens meanwhile goes together. A control plane that takes longer to answer is given as
/// long again, up to the longest.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// A server that has not answered by then will not.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Reports {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Default)]
struct Pending {
    records: BTreeMap<Key, Record>,
    heartbeat: Option<Value>,
}

impl Reports {
    pub fn tell(&self, key: Key, record: Record) {
        self.pending().records.insert(key, record);
        self.changed.notify_one();
    }

    /// That something is gone is no longer so.
    pub fn unsay_gone(&self, key: &Key) {
        let mut pending = self.pending();
        if pending.records.get(key).is_some_and(|record| record.state == State::Gone) {
            pending.records.remove(key);
        }
    }

    pub fn beat(&self, heartbeat: Value) {
        self.pending().heartbeat = Some(heartbeat);
        self.changed.notify_one();
    }

    /// Tells all there is to tell, for as long as it is polled.
    pub async fn run(&self, above: &Client, settings: &Settings) {
        let path = format!("/services/sync/{}", settings.cluster);
        let (mut most, mut pause) = (MOST, PAUSE);
        loop {
            let (keys, report) = self.take(most);
            if keys.is_empty() && report.heartbeat.is_none() {
                self.changed.notified().await;
                continue;
            }
            let began = Instant::now();
            let outcome = post(above, &path, &report).await;
            match &outcome {
                Ok(()) => (most, pause) = ((most * 2).min(MOST), began.elapsed().clamp(PAUSE, LONGEST)),
                Err(status)
                    if is_refused(status) && keys.len() + usize::from(report.heartbeat.is_some()) <= 1 =>
                {
                    // Nobody wants to hear it; the others are not to wait for it.
                    tracing::warn!(%status, cluster = %settings.cluster, "what was reported is not taken");
                    (most, pause) = (MOST, PAUSE);
                }
                Err(status) => {
                    tracing::debug!(%status, cluster = %settings.cluster, "cannot report; trying again");
                    self.put_back(keys, report);
                    if is_refused(status) {
                        most = (most / 2).max(1);
                    } else {
                        pause = (pause * 2).min(LAST_PAUSE);
                    }
                }
            }
            tokio::time::sleep(settings.about(pause)).await;
        }
    }

    /// Tells what is left once, for one who is about to end.
    pub async fn flush(&self, above: &Client, settings: &Settings) {
        let path = format!("/services/sync/{}", settings.cluster);
        let (keys, report) = self.take(MOST);
        if !keys.is_empty() {
            let _ = post(above, &path, &report).await;
        }
    }

    fn take(&self, most: usize) -> (Vec<Key>, Report) {
        let mut pending = self.pending();
        let keys: Vec<Key> = pending.records.keys().take(most).cloned().collect();
        let records = keys.iter().filter_map(|key| pending.records.remove(key)).collect();
        // By itself while it is looked for what is not taken.
        let heartbeat = if most == MOST || keys.is_empty() { pending.heartbeat.take() } else { None };
        (keys, Report { records, heartbeat })
    }

    /// Unless there is something newer.
    fn put_back(&self, keys: Vec<Key>, report: Report) {
        let mut pending = self.pending();
        for (key, record) in keys.into_iter().zip(report.records) {
            pending.records.entry(key).or_insert(record);
        }
        if pending.heartbeat.is_none() {
            pending.heartbeat = report.heartbeat;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn post(above: &Client, path: &str, report: &Report) -> Result<(), Status> {
    let body = serde_json::to_value(report).map_err(|error| Status::internal_error(error.to_string()))?;
    match tokio::time::timeout(PATIENCE, above.create(path, &body)).await {
        Ok(answer) => answer.map(drop),
        Err(_) => Err(Status::service_unavailable("the control plane did not answer in time")),
    }
}

/// It will not be taken another time either.
fn is_refused(status: &Status) -> bool {
    matches!(status.code(), 400 | 413 | 415 | 422)
}

#[cfg(test)]
mod tests;
