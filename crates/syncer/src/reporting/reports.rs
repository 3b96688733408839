//! Sends reports to the control plane: the latest record of each object, in batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::Client;
use atoll_client::connect_error::{self, Cause};
use atoll_client::memory_limits::{self, Budget, Charge};
use atoll_fleet::view::{
    EndpointGroup, EventReport, Record, Report, ReportResponse, ServiceEndpoints, State,
};
use atoll_informer::{Key, encoded};
use atoll_meta::{Status, text};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connections::control_plane::ControlPlaneConnection;
use crate::objects::table::SHORTEST;
use crate::settings::Settings;

/// Maximum number of records per report.
const MAX_RECORDS: usize = 500;
/// Maximum number of Events per report, and of Events that wait during an outage.
const EVENTS: usize = 100;
const WAITING: usize = 1000;
/// Shortest pause between reports, which batches changes. If the control plane takes longer to respond, the
/// pause is as long as its response time, up to the longest pause.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// Request timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Reports {
    pending: Mutex<Pending>,
    changed: Notify,
    /// Memory budget of the cluster, which pending records are charged to.
    budget: Option<Arc<Budget>>,
}

#[derive(Default)]
struct Pending {
    /// Records with their memory charges.
    records: BTreeMap<Key, (Record, Charge)>,
    /// Events by uid.
    events: BTreeMap<String, EventReport>,
    heartbeat: Option<Value>,
    /// Random number of this run, drawn for the first report, and the number of the last report.
    run: u64,
    number: u64,
}

impl Reports {
    pub fn new(budget: Option<Arc<Budget>>) -> Reports {
        Reports { budget, ..Reports::default() }
    }

    pub fn report(&self, key: Key, record: Record) {
        let charged = self.charged(record);
        self.pending().records.insert(key, charged);
        self.changed.notify_one();
    }

    /// Charges a record; removes its status and endpoints and shortens its message if the budget is exceeded.
    fn charged(&self, mut record: Record) -> (Record, Charge) {
        let mut charge = Charge::new(self.budget.clone());
        let groups = record.endpoints.iter().flat_map(|endpoints| &endpoints.slices);
        let endpoints: usize = groups.map(EndpointGroup::size).sum();
        let size = memory_limits::value_size(&record.status) + record.message.len() + endpoints;
        if charge.grow(size).is_err() {
            (record.status, record.observed) = (Value::Null, false);
            record.endpoints = record.endpoints.map(ServiceEndpoints::emptied);
            record.message = text::clean(&record.message, SHORTEST);
        }
        (record, charge)
    }

    /// Adds an Event. If too many wait, it is dropped.
    pub fn add_event(&self, report: EventReport) {
        let mut pending = self.pending();
        if pending.events.len() < WAITING || pending.events.contains_key(&report.id) {
            pending.events.insert(report.id.clone(), report);
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Removes a pending record that an object is gone, because it is desired again.
    pub fn retract_gone(&self, key: &Key) {
        let mut pending = self.pending();
        if pending.records.get(key).is_some_and(|(record, _)| record.state == State::Gone) {
            pending.records.remove(key);
        }
    }

    pub fn set_heartbeat(&self, heartbeat: Value) {
        self.pending().heartbeat = Some(heartbeat);
        self.changed.notify_one();
    }

    /// Sends reports for as long as it is polled.
    pub async fn run(&self, above: &Client, settings: &Settings, connection: &ControlPlaneConnection) {
        let path = format!("/services/sync/{}", encoded(&settings.cluster));
        let (mut most, mut pause) = (MAX_RECORDS, PAUSE);
        loop {
            let (keys, mut report) = self.take(most);
            if report == Report::default() {
                self.changed.notified().await;
                continue;
            }
            self.number(&mut report, settings);
            let began = Instant::now();
            let outcome = post(above, &path, &report).await;
            match &outcome {
                Ok(answer) => connection.succeeded(&settings.cluster, answer),
                // The control plane responded, so it is reachable.
                Err(status) if is_refused(status) => {}
                Err(status) => connection.failed(&settings.cluster, settings.clock.now(), status),
            }
            match &outcome {
                Ok(_) => (most, pause) = ((most * 2).min(MAX_RECORDS), began.elapsed().clamp(PAUSE, LONGEST)),
                Err(status)
                    if is_refused(status) && keys.len() + usize::from(report.heartbeat.is_some()) <= 1 =>
                {
                    // Drop the record that is rejected, so that it does not block others.
                    tracing::warn!(%status, cluster = %settings.cluster, "the control plane rejected a report");
                    (most, pause) = (MAX_RECORDS, PAUSE);
                }
                Err(status) => {
                    tracing::debug!(%status, cluster = %settings.cluster, "cannot send a report; retrying");
                    if is_refused(status) {
                        report.events.clear();
                    }
                    self.put_back(keys, report);
                    if status.code() == 409 {
                        // Another syncer reported in between, or this report was sent twice: start a new run.
                        self.pending().run = 0;
                    }
                    if is_refused(status) {
                        most = (most / 2).max(1);
                    } else {
                        pause = (pause * 2).min(LAST_PAUSE);
                    }
                }
            }
            tokio::time::sleep(settings.jitter(pause)).await;
        }
    }

    /// Sends the remaining records once, and announces that this syncer stops.
    pub async fn flush(&self, above: &Client, settings: &Settings) {
        let path = format!("/services/sync/{}", encoded(&settings.cluster));
        let (_, mut report) = self.take(MAX_RECORDS);
        report.heartbeat = None;
        report.farewell = Some(settings.instance.clone());
        self.number(&mut report, settings);
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
        // Sent separately while the rejected record is being searched.
        let heartbeat = if most == MAX_RECORDS || keys.is_empty() { pending.heartbeat.take() } else { None };
        let ids: Vec<String> = pending.events.keys().take(EVENTS).cloned().collect();
        let events = ids.iter().filter_map(|id| pending.events.remove(id)).collect();
        (keys, Report { records, events, heartbeat, ..Report::default() })
    }

    /// Numbers a report, so that the control plane recognizes one that arrives late.
    fn number(&self, report: &mut Report, settings: &Settings) {
        let mut pending = self.pending();
        if pending.run == 0 {
            pending.run = (settings.random)().max(1);
        }
        pending.number += 1;
        (report.run, report.number) = (pending.run, pending.number);
    }

    /// Adds records again, unless there are newer ones.
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

pub(super) async fn post(above: &Client, path: &str, report: &Report) -> Result<ReportResponse, Status> {
    let body = serde_json::to_value(report).map_err(|error| Status::internal_error(error.to_string()))?;
    match tokio::time::timeout(TIMEOUT, above.create(path, &body)).await {
        // Unknown responses of a newer control plane are ignored.
        Ok(answer) => answer.map(|answer| serde_json::from_value(answer).unwrap_or_default()),
        Err(_) => {
            Err(connect_error::unavailable(Cause::TimedOut, "the control plane did not respond in time"))
        }
    }
}

/// Whether a report will be rejected again if it is repeated.
fn is_refused(status: &Status) -> bool {
    matches!(status.code(), 400 | 413 | 415 | 422)
}

#[cfg(test)]
mod tests;
