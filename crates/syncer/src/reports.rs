//! What is told above: the latest of each object, many at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_client::memory::{self, Budget, Charge};
use atoll_client::unreached::{self, Cause};
use atoll_fleet::view::{Answer, Happening, Record, Report, State};
use atoll_informer::Key;
use atoll_meta::{Status, text};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::contact::Contact;
use crate::settings::Settings;
use crate::table::SHORTEST;

/// At most so many records a report.
const MOST: usize = 500;
/// The same of events, and how many wait for a control plane that is away.
const EVENTS: usize = 100;
const WAITING: usize = 1000;
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
    /// What waits counts against this: it is the cluster's.
    budget: Option<Arc<Budget>>,
}

#[derive(Default)]
struct Pending {
    /// With what they take of the cluster's memory.
    records: BTreeMap<Key, (Record, Charge)>,
    /// By uid.
    events: BTreeMap<String, Happening>,
    heartbeat: Option<Value>,
    /// Which start this is, drawn when there is something to tell, and how many reports there were.
    run: u64,
    number: u64,
}

impl Reports {
    pub fn new(budget: Option<Arc<Budget>>) -> Reports {
        Reports { budget, ..Reports::default() }
    }

    pub fn tell(&self, key: Key, record: Record) {
        let charged = self.charged(record);
        self.pending().records.insert(key, charged);
        self.changed.notify_one();
    }

    /// A record with what it takes; without what the cluster says in it if there is no room.
    fn charged(&self, mut record: Record) -> (Record, Charge) {
        let mut charge = Charge::new(self.budget.clone());
        if charge.grow(memory::value_size(&record.status) + record.message.len()).is_err() {
            (record.status, record.observed) = (Value::Null, false);
            record.message = text::clean(&record.message, SHORTEST);
        }
        (record, charge)
    }

    /// Something has happened. What there is no room for is not told: events are for people who look now.
    pub fn happened(&self, happening: Happening) {
        let mut pending = self.pending();
        if pending.events.len() < WAITING || pending.events.contains_key(&happening.id) {
            pending.events.insert(happening.id.clone(), happening);
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// That something is gone is no longer so.
    pub fn unsay_gone(&self, key: &Key) {
        let mut pending = self.pending();
        if pending.records.get(key).is_some_and(|(record, _)| record.state == State::Gone) {
            pending.records.remove(key);
        }
    }

    pub fn beat(&self, heartbeat: Value) {
        self.pending().heartbeat = Some(heartbeat);
        self.changed.notify_one();
    }

    /// Tells all there is to tell, for as long as it is polled.
    pub async fn run(&self, above: &Client, settings: &Settings, contact: &Contact) {
        let path = format!("/services/sync/{}", settings.cluster);
        let (mut most, mut pause) = (MOST, PAUSE);
        loop {
            let (keys, mut report) = self.take(most);
            if report == Report::default() {
                self.changed.notified().await;
                continue;
            }
            self.count(&mut report, settings);
            let began = Instant::now();
            let outcome = post(above, &path, &report).await;
            match &outcome {
                Ok(answer) => contact.heard(&settings.cluster, answer),
                // It has answered, though not as one would like.
                Err(status) if is_refused(status) => {}
                Err(status) => contact.failed(&settings.cluster, settings.clock.now(), status),
            }
            match &outcome {
                Ok(_) => (most, pause) = ((most * 2).min(MOST), began.elapsed().clamp(PAUSE, LONGEST)),
                Err(status)
                    if is_refused(status) && keys.len() + usize::from(report.heartbeat.is_some()) <= 1 =>
                {
                    // Nobody wants to hear it; the others are not to wait for it.
                    tracing::warn!(%status, cluster = %settings.cluster, "what was reported is not taken");
                    (most, pause) = (MOST, PAUSE);
                }
                Err(status) => {
                    tracing::debug!(%status, cluster = %settings.cluster, "cannot report; trying again");
                    if is_refused(status) {
                        report.events.clear();
                    }
                    self.put_back(keys, report);
                    if status.code() == 409 {
                        // Somebody else was heard in between, or this one a second time.
                        self.pending().run = 0;
                    }
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

    /// Tells what is left once, and that nobody is to be heard of any longer, for one who is about to end.
    pub async fn flush(&self, above: &Client, settings: &Settings) {
        let path = format!("/services/sync/{}", settings.cluster);
        let (_, mut report) = self.take(MOST);
        report.heartbeat = None;
        report.farewell = Some(settings.instance.clone());
        self.count(&mut report, settings);
        let _ = post(above, &path, &report).await;
    }

    fn take(&self, most: usize) -> (Vec<(Key, Charge)>, Report) {
        let mut pending = self.pending();
        let (mut keys, mut records) = (Vec::new(), Vec::new());
        while keys.len() < most
            && let Some((key, (record, charge))) = pending.records.pop_first()
        {
            keys.push((key, charge));
            records.push(record);
        }
        // By itself while it is looked for what is not taken.
        let heartbeat = if most == MOST || keys.is_empty() { pending.heartbeat.take() } else { None };
        let ids: Vec<String> = pending.events.keys().take(EVENTS).cloned().collect();
        let events = ids.iter().filter_map(|id| pending.events.remove(id)).collect();
        (keys, Report { records, events, heartbeat, ..Report::default() })
    }

    /// Numbers a report, so that one that arrives late is known for that.
    fn count(&self, report: &mut Report, settings: &Settings) {
        let mut pending = self.pending();
        if pending.run == 0 {
            pending.run = (settings.random)().max(1);
        }
        pending.number += 1;
        (report.run, report.number) = (pending.run, pending.number);
    }

    /// Unless there is something newer.
    fn put_back(&self, keys: Vec<(Key, Charge)>, report: Report) {
        let mut pending = self.pending();
        for ((key, charge), record) in keys.into_iter().zip(report.records) {
            pending.records.entry(key).or_insert((record, charge));
        }
        for event in report.events {
            pending.events.entry(event.id.clone()).or_insert(event);
        }
        if pending.heartbeat.is_none() {
            pending.heartbeat = report.heartbeat;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn post(above: &Client, path: &str, report: &Report) -> Result<Answer, Status> {
    let body = serde_json::to_value(report).map_err(|error| Status::internal_error(error.to_string()))?;
    match tokio::time::timeout(PATIENCE, above.create(path, &body)).await {
        // What a newer control plane says and we do not know is not for us.
        Ok(answer) => answer.map(|answer| serde_json::from_value(answer).unwrap_or_default()),
        Err(_) => Err(unreached::no_answer(Cause::TimedOut, "the control plane did not answer in time")),
    }
}

/// It will not be taken another time either.
fn is_refused(status: &Status) -> bool {
    matches!(status.code(), 400 | 413 | 415 | 422)
}

#[cfg(test)]
mod tests;
