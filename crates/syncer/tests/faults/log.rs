//! Every write that reached a cluster, and the state before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use atoll_fleet::{Locator, marks};
use atoll_meta::object;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde_json::Value;

use crate::kinds::{KINDS, NAMES};
use crate::test_server::TestServer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    pub at: Duration,
    /// The server that received it.
    pub plane: &'static str,
    pub method: String,
    pub path: String,
    pub code: u16,
    /// Whether the sender had given up by then.
    pub is_late: bool,
    /// The marks of the existing object: control plane and uid above.
    pub was: Option<(String, String)>,
    /// The marks in the request: control plane and uid above.
    pub sent: (String, String),
    /// The name of the object in the request.
    pub name: String,
    /// Whether an object was created in a namespace that stands for a different one.
    pub is_misplaced: bool,
    /// Paths of unmarked objects in a namespace that was deleted.
    pub inside: Vec<String>,
    /// Other clusters that had the created object at that moment, if it must be in one cluster only.
    pub also_on: Vec<&'static str>,
}

#[derive(Default)]
pub struct Log {
    written: Mutex<Vec<WriteRecord>>,
    /// Paths of lists, and when they were read.
    listed: Mutex<Vec<(String, Duration)>>,
    /// The other clusters.
    others: OnceLock<Vec<Arc<TestServer>>>,
}

/// The state when a request arrived.
#[derive(Default)]
pub struct StateBefore {
    was: Option<Value>,
    is_misplaced: bool,
    inside: Vec<String>,
    also_on: Vec<&'static str>,
}

impl WriteRecord {
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns whether the object belongs to the syncer itself: heartbeats and claims.
    pub fn is_own(&self) -> bool {
        self.path.contains(&format!("/namespaces/{}/", marks::SYSTEM_NAMESPACE))
            || self.path == "/api/v1/namespaces" && self.sent.0.is_empty()
    }

    /// Returns the resource.
    pub fn resource(&self) -> &str {
        let mut parts = self.path.split('/').rev();
        let last = parts.next().unwrap_or_default();
        if self.method == "POST" { last } else { parts.next().unwrap_or_default() }
    }

    pub fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

impl Log {
    /// Sets the other clusters.
    pub fn set_others(&self, others: Vec<Arc<TestServer>>) {
        assert!(self.others.set(others).is_ok(), "they are set once");
    }

    /// Returns the names of other clusters that have an object which is about to be created, if it runs once.
    async fn clusters_with(&self, path: &str, body: &Bytes) -> Vec<&'static str> {
        let resource = path.rsplit('/').next().unwrap_or_default();
        let Some(kind) = KINDS.iter().find(|kind| kind.resource == resource && kind.runs_once()) else {
            return Vec::new();
        };
        let mark = marks_of(&serde_json::from_slice(body).unwrap_or_default());
        let mut found = Vec::new();
        for other in self.others.get().into_iter().flatten() {
            let list = other.client.get(&kind.list()).await.expect("a list");
            if list["items"].as_array().into_iter().flatten().any(|item| marks_of(item) == mark) {
                found.push(other.name);
            }
        }
        found
    }

    /// Reads the state that a request is about to change.
    pub async fn before(&self, plane: &TestServer, request: &Request<Bytes>) -> StateBefore {
        let path = request.uri().path();
        let mut before = StateBefore::default();
        match *request.method() {
            Method::POST => {
                before.is_misplaced = is_misplaced(plane, path, request.body()).await;
                before.also_on = self.clusters_with(path, request.body()).await;
            }
            Method::DELETE => {
                before.was = plane.client.get(path).await.ok();
                if let Some(namespace) =
                    path.strip_prefix("/api/v1/namespaces/").filter(|name| !name.contains('/'))
                {
                    before.inside = unmarked_objects(plane, namespace).await;
                }
            }
            _ => before.was = plane.client.get(path).await.ok(),
        }
        before
    }

    pub fn record_write(
        &self,
        plane: &TestServer,
        request: &Request<Bytes>,
        code: StatusCode,
        before: StateBefore,
        is_late: bool,
    ) {
        let sent: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let written = WriteRecord {
            at: plane.clock.0.elapsed(),
            plane: plane.name,
            method: request.method().to_string(),
            path: request.uri().path().to_string(),
            code: code.as_u16(),
            is_late,
            was: before.was.as_ref().map(marks_of),
            sent: marks_of(&sent),
            name: object::name(&sent).to_string(),
            is_misplaced: before.is_misplaced,
            inside: before.inside,
            also_on: before.also_on,
        };
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    /// Records that a collection was listed.
    pub fn record_list(&self, plane: &TestServer, path: &str) {
        if KINDS.iter().any(|kind| path.ends_with(kind.resource)) {
            let record_list = (path.to_string(), plane.clock.0.elapsed());
            self.listed.lock().unwrap_or_else(PoisonError::into_inner).push(record_list);
        }
    }

    /// Returns when a collection was last listed before a time.
    fn last_list(&self, collection: &str, before: Duration) -> Option<Duration> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let times = listed.iter().filter(|(path, at)| path == collection && *at <= before);
        times.map(|(_, at)| *at).max()
    }

    pub fn all(&self) -> Vec<WriteRecord> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns whether an object is about to be created in a namespace that does not stand for its own.
async fn is_misplaced(plane: &TestServer, path: &str, body: &Bytes) -> bool {
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(workspace) = object::annotation(&sent, marks::WORKSPACE) else { return false };
    let source = object::annotation(&sent, marks::SOURCE).unwrap_or_default();
    let name = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split('/').next());
    let namespace = plane.client.get(&format!("/api/v1/namespaces/{}", name.unwrap_or_default())).await;
    let Ok(namespace) = namespace else { return false };
    !Locator::of(&namespace).is_some_and(|locator| {
        locator.is_ok_and(|locator| {
            locator.workspace == workspace && source.split('/').next() == Some(locator.namespace.as_str())
        })
    })
}

/// Returns paths of objects in a namespace of the cluster that a syncer did not create.
async fn unmarked_objects(plane: &TestServer, namespace: &str) -> Vec<String> {
    let mut found = Vec::new();
    for kind in &KINDS {
        let collection = kind.collection(namespace);
        let list = plane.client.get(&collection).await.unwrap_or_default();
        let items = list["items"].as_array().into_iter().flatten();
        let others = items.filter(|item| marks_of(item).0.is_empty() && NAMES.contains(&object::name(item)));
        found.extend(others.map(|item| format!("{collection}/{}", object::name(item))));
    }
    found
}

/// Returns the control plane and the uid above in the marks of an object. For a namespace, the locator is
/// returned instead of the uid.
pub fn marks_of(found: &Value) -> (String, String) {
    let plane = object::label(found, marks::CONTROL_PLANE).unwrap_or_default();
    let uid = object::annotation(found, marks::UID).or_else(|| object::annotation(found, marks::NAMESPACE));
    (plane.to_string(), uid.unwrap_or_default().to_string())
}

/// Requests above and conditions that decide which writes to a cluster are allowed.
#[derive(Default)]
pub struct Expectations {
    /// The name of the cluster.
    pub cluster: &'static str,
    /// Uids of objects and locators of namespaces whose deletion was requested, and when.
    pub requested_deletions: BTreeMap<String, Duration>,
    /// Paths below of objects that other users created first, and when.
    pub foreign: BTreeMap<String, Duration>,
    /// Periods in which creating and deleting was paused and the pause had propagated.
    pub paused: Vec<(Duration, Duration)>,
    /// Periods in which another control plane held the claim.
    pub claimed: Vec<(Duration, Duration)>,
    pub control_plane: String,
    /// The time that a syncer may continue without a check.
    pub grace: Duration,
}

/// Returns all writes that were not allowed. Objects with the uids in `unknown` may be anywhere.
pub fn illegal_writes(
    log: &Arc<Log>,
    expectations: &Expectations,
    unknown: &BTreeSet<String>,
) -> Vec<String> {
    log.all()
        .iter()
        .filter(|written| written.succeeded())
        .filter_map(|written| illegal_write(log, written, expectations, unknown))
        .collect()
}

fn illegal_write(
    log: &Log,
    written: &WriteRecord,
    expectations: &Expectations,
    unknown: &BTreeSet<String>,
) -> Option<String> {
    let violation = |what: &str| Some(format!("{what}: {written:?}"));
    if written.plane != expectations.cluster {
        return violation("another cluster was written to");
    }
    if !written.also_on.is_empty() && !written.is_late && !unknown.contains(&written.sent.1) {
        return violation("it runs twice");
    }
    let within =
        |(from, to): &(Duration, Duration)| written.at > *from + expectations.grace && written.at < *to;
    if !written.is_late && expectations.claimed.iter().any(within) {
        return violation("written while another control plane held the claim");
    }
    if !written.sent.0.is_empty() && written.sent.0 != expectations.control_plane {
        return violation("written for another control plane");
    }
    if written.is_own() {
        return None;
    }
    let within = |(from, to): &(Duration, Duration)| written.at > *from && written.at < *to;
    let is_pausable = matches!(written.method.as_str(), "POST" | "DELETE");
    if is_pausable && !written.is_late && expectations.paused.iter().any(within) {
        return violation("created or deleted while paused");
    }
    if written.is_misplaced && !written.is_late {
        return violation("created in a namespace that stands for a different one");
    }
    // An object that was created after the last list could not be known.
    let was_listed = |path: &&String| {
        let made = expectations.foreign.get(*path).copied().unwrap_or_default();
        let collection = path.rsplit_once('/').map(|(collection, _)| collection).unwrap_or_default();
        log.last_list(collection, written.at).is_none_or(|record_list| record_list > made)
    };
    if let Some(path) = written.inside.iter().find(was_listed) {
        return violation(&format!("deleted with {path} of another user in it"));
    }
    let is_marked = written.was.as_ref().is_some_and(|(plane, _)| *plane == expectations.control_plane);
    match written.method.as_str() {
        "DELETE" => {
            let uid = written.was.as_ref().map(|(_, uid)| uid.as_str()).unwrap_or_default();
            let is_requested =
                expectations.requested_deletions.get(uid).is_some_and(|since| *since <= written.at);
            if is_marked && is_requested { None } else { violation("deleted without a request") }
        }
        "PATCH" | "PUT" if !is_marked => violation("changed an object without marks of this control plane"),
        _ => None,
    }
}
