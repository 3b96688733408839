//! Reports the CustomResourceDefinitions of the cluster, so that its workspace can offer them.
//!
//! The control plane gets the digests of all definitions, and asks for those that it does not have. Definitions that
//! were placed on the cluster are not reported: they come from the control plane.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::memory_limits::value_size;
use atoll_client::path::{encoded, object as object_path};
use atoll_fleet::marks;
use atoll_fleet::view::{DefinitionReport, Report, ReportedDefinition};
use atoll_informer::{ApiScope, ListWatch, ListWatchEvent, list_and_watch, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::reports::post;
use crate::objects::digest;
use crate::syncer::Syncer;

/// Maximum number of definitions that are reported; the control plane accepts no more.
const MOST: usize = 1_000;
/// Maximum size of the definitions in one report, unless there is only one.
const BYTES: usize = 1 << 20;
/// Pause that batches changes.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause after definitions were sent: the control plane needs a moment to compare them, and tells the result in the
/// status of the Cluster with the next report.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Interval of reports without changes: the control plane may have lost something.
const INTERVAL: Duration = Duration::from_secs(60);

/// The definitions of the cluster.
#[derive(Default)]
struct Definitions {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Digests by uid and name.
    digests: BTreeMap<String, (String, String)>,
    /// Uids of definitions that are not reported because there are too many.
    omitted: HashSet<String>,
    is_listed: bool,
}

impl Definitions {
    /// Records an event. Returns whether the cluster has other definitions than before, including those that were placed there.
    fn observe(&self, event: ListWatchEvent<'_>) -> bool {
        let mut state = self.state();
        let is_change = state.is_listed && !matches!(event, ListWatchEvent::Listed(..));
        match event {
            ListWatchEvent::Upserted(definition) => state.insert(&definition),
            ListWatchEvent::Deleted(definition) => state.remove(object::uid(&definition)),
            ListWatchEvent::Listed(present, _) => {
                state.digests.retain(|uid, _| present.contains(uid));
                state.omitted.retain(|uid| present.contains(uid));
                state.is_listed = true;
            }
        }
        drop(state);
        self.changed.notify_one();
        is_change
    }

    /// The report of all definitions; `None` before the first list is complete.
    fn report(&self) -> Option<DefinitionReport> {
        let state = self.state();
        let digests = state.digests.values().cloned().collect();
        let report = DefinitionReport {
            digests: Some(digests),
            omitted: state.omitted.len(),
            ..DefinitionReport::default()
        };
        state.is_listed.then_some(report)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, definition: &Value) {
        let uid = object::uid(definition);
        if !is_reported(definition) {
            return self.remove(uid);
        }
        if self.digests.len() >= MOST && !self.digests.contains_key(uid) {
            if self.omitted.len() < MOST {
                self.omitted.insert(uid.to_string());
            }
            return;
        }
        let entry = (object::name(definition).to_string(), digest_of(definition));
        self.digests.insert(uid.to_string(), entry);
    }

    fn remove(&mut self, uid: &str) {
        self.digests.remove(uid);
        self.omitted.remove(uid);
    }
}

/// Whether the cluster serves a definition that does not come from a control plane.
fn is_reported(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let is_established =
        conditions.into_iter().any(|own| own["type"] == "Established" && own["status"] == "True");
    is_established
        && !object::is_being_deleted(definition)
        && object::labels(definition).all(|(name, _)| name != marks::CONTROL_PLANE)
}

/// The parts of a definition that are imported.
fn shortened(definition: &Value) -> Value {
    let mut short = json!({
        "metadata": { "name": object::name(definition) },
        "spec": definition["spec"],
    });
    if let Some(approval) = object::annotation(definition, APPROVED) {
        short["metadata"]["annotations"] = json!({ APPROVED: approval });
    }
    // The certificate of a webhook says nothing about the resource.
    if let Some(conversion) = short["spec"]["conversion"].as_object_mut() {
        conversion.retain(|field, _| field == "strategy");
    }
    short
}

const APPROVED: &str = "api-approved.kubernetes.io";

fn digest_of(definition: &Value) -> String {
    digest::of_object(&shortened(definition))
}

/// Reports definitions for as long as it is polled.
pub async fn run(syncer: &Arc<Syncer>, api: &ApiScope) {
    let registration = syncer.registration().await;
    // Nothing is placed on a cluster that is only observed.
    if syncer.is_observing(&registration) {
        return std::future::pending().await;
    }
    let definitions = Definitions::default();
    let list_watch = ListWatch::all(&resources::CUSTOM_RESOURCE_DEFINITIONS);
    let watching = list_and_watch(api, list_watch, |event| {
        if definitions.observe(event) {
            syncer.capabilities.definitions_changed();
        }
    });
    tokio::join!(watching, report(syncer, &definitions));
}

async fn report(syncer: &Arc<Syncer>, definitions: &Definitions) {
    let mut pause = INTERVAL;
    loop {
        // Polled in a fixed order, so that test runs are reproducible.
        tokio::select! {
            biased;
            () = definitions.changed.notified() => tokio::time::sleep(PAUSE).await,
            () = tokio::time::sleep(syncer.settings.jitter(pause)) => {}
        }
        let sent = report_once(syncer, definitions).await;
        pause = if matches!(sent, Ok(true)) { AFTERWARDS } else { INTERVAL };
        if let Err(status) = sent {
            tracing::debug!(%status, cluster = %syncer.settings.cluster, "cannot report definitions; retrying");
            tokio::time::sleep(syncer.settings.jitter(syncer.connection.interval(&syncer.settings))).await;
            definitions.changed.notify_one();
        }
    }
}

/// Reports all definitions, and those that the control plane asks for. Returns whether it has asked for any.
async fn report_once(syncer: &Arc<Syncer>, definitions: &Definitions) -> Result<bool, Status> {
    let mut last = Vec::new();
    while let Some(report) = definitions.report() {
        let wanted = send(syncer, report).await?;
        // A control plane that asks for the same again has its reasons; it gets them in the next round.
        if wanted.is_empty() || wanted == last {
            return Ok(wanted.is_empty() && !last.is_empty());
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for name in &wanted {
            let path = object_path(&resources::CUSTOM_RESOURCE_DEFINITIONS.collection(""), name);
            // One that is gone is missing in the next report.
            let Some(found) = syncer.below.get(&path).await? else { continue };
            if object::name(&found) != name || !is_reported(&found) {
                continue;
            }
            let definition = shortened(&found);
            let size = value_size(&definition);
            if bytes + size > BYTES && !batch.is_empty() {
                send_complete(syncer, std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += size;
            batch.push(ReportedDefinition { digest: digest::of_object(&definition), definition });
        }
        send_complete(syncer, batch).await?;
        last = wanted;
    }
    Ok(!last.is_empty())
}

async fn send_complete(syncer: &Arc<Syncer>, complete: Vec<ReportedDefinition>) -> Result<(), Status> {
    match complete.is_empty() {
        true => Ok(()),
        false => send(syncer, DefinitionReport { complete, ..DefinitionReport::default() }).await.map(drop),
    }
}

/// Sends a report. Returns the names of definitions that the control plane asks for.
async fn send(syncer: &Arc<Syncer>, definitions: DefinitionReport) -> Result<Vec<String>, Status> {
    let path = format!("/services/sync/{}", encoded(&syncer.settings.cluster));
    let report = Report { definitions: Some(definitions), ..Report::default() };
    Ok(post(&syncer.above, &path, &report).await?.wanted_definitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, version: &str) -> Value {
        json!({
            "metadata": { "name": name, "uid": name, "resourceVersion": version },
            "spec": { "group": "example.com", "conversion": {
                "strategy": "Webhook", "webhook": { "clientConfig": { "caBundle": version } },
            } },
            "status": { "conditions": [{ "type": "Established", "status": "True" }] },
        })
    }

    fn names(definitions: &Definitions) -> Vec<String> {
        definitions.report().expect("a complete list").digests.unwrap_or_default().into_keys().collect()
    }

    #[test]
    fn definitions_of_the_cluster_are_reported() {
        let definitions = Definitions::default();
        definitions.observe(ListWatchEvent::Upserted(definition("a.example.com", "1")));
        assert!(definitions.report().is_none(), "the list is not complete");
        let mut placed = definition("b.example.com", "1");
        placed["metadata"]["labels"] = json!({ marks::CONTROL_PLANE: "u" });
        definitions.observe(ListWatchEvent::Upserted(placed));
        let mut pending = definition("c.example.com", "1");
        pending["status"] = json!({});
        definitions.observe(ListWatchEvent::Upserted(pending));
        definitions.observe(ListWatchEvent::Listed(&["a.example.com".to_string()].into(), 1));
        assert_eq!(names(&definitions), ["a.example.com"]);
        let before = definitions.report();
        // Only what is imported counts.
        definitions.observe(ListWatchEvent::Upserted(definition("a.example.com", "2")));
        assert_eq!(definitions.report(), before);
        let mut changed = definition("a.example.com", "3");
        changed["spec"]["scope"] = "Cluster".into();
        definitions.observe(ListWatchEvent::Upserted(changed));
        assert_ne!(definitions.report(), before);
        definitions.observe(ListWatchEvent::Deleted(definition("a.example.com", "3")));
        assert_eq!(names(&definitions), Vec::<String>::new());
    }

    #[test]
    fn number_of_reported_definitions_is_limited() {
        let definitions = Definitions::default();
        let all: HashSet<String> = (0..MOST + 3).map(|number| format!("w{number}.example.com")).collect();
        for name in &all {
            definitions.observe(ListWatchEvent::Upserted(definition(name, "1")));
        }
        definitions.observe(ListWatchEvent::Listed(&all, 1));
        assert_eq!(
            (names(&definitions).len(), definitions.report().map(|report| report.omitted)),
            (MOST, Some(3))
        );
    }
}
