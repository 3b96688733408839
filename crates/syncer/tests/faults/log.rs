//! Every write that reached a cluster, and what was there before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_fleet::{Locator, marks};
use atoll_meta::object;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde_json::Value;

use crate::kinds::{KINDS, NAMES};
use crate::plane::Plane;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub at: Duration,
    /// The server it reached.
    pub plane: &'static str,
    pub method: String,
    pub path: String,
    pub code: u16,
    /// Whether whoever had sent it had given up by then.
    pub is_late: bool,
    /// What the object that was there says of whose it is: control plane and uid above.
    pub was: Option<(String, String)>,
    /// What was sent says it is for: control plane and uid above.
    pub sent: (String, String),
    /// What was sent is called so.
    pub name: String,
    /// Whether it went into a namespace that stands for another one than it is from.
    pub is_misplaced: bool,
    /// What is nobody's in a namespace that was deleted: paths.
    pub inside: Vec<String>,
}

#[derive(Default)]
pub struct Log {
    written: Mutex<Vec<Written>>,
    /// What was listed, and when.
    listed: Mutex<Vec<(String, Duration)>>,
}

/// What was there when a request arrived.
#[derive(Default)]
pub struct Before {
    was: Option<Value>,
    is_misplaced: bool,
    inside: Vec<String>,
}

impl Written {
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Heartbeats and claims are a syncer's own.
    pub fn is_own(&self) -> bool {
        self.path.contains(&format!("/namespaces/{}/", marks::SYSTEM_NAMESPACE))
            || self.path == "/api/v1/namespaces" && self.sent.0.is_empty()
    }

    /// What it is one of.
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
    /// What is there that a request is about to change.
    pub async fn before(&self, plane: &Plane, request: &Request<Bytes>) -> Before {
        let path = request.uri().path();
        let mut before = Before::default();
        match *request.method() {
            Method::POST => before.is_misplaced = is_misplaced(plane, path, request.body()).await,
            Method::DELETE => {
                before.was = plane.client.get(path).await.ok();
                if let Some(namespace) =
                    path.strip_prefix("/api/v1/namespaces/").filter(|name| !name.contains('/'))
                {
                    before.inside = unmarked(plane, namespace).await;
                }
            }
            _ => before.was = plane.client.get(path).await.ok(),
        }
        before
    }

    pub fn note(
        &self,
        plane: &Plane,
        request: &Request<Bytes>,
        code: StatusCode,
        before: Before,
        is_late: bool,
    ) {
        let sent: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let written = Written {
            at: plane.clock.0.elapsed(),
            plane: plane.name,
            method: request.method().to_string(),
            path: request.uri().path().to_string(),
            code: code.as_u16(),
            is_late,
            was: before.was.as_ref().map(whose),
            sent: whose(&sent),
            name: object::name(&sent).to_string(),
            is_misplaced: before.is_misplaced,
            inside: before.inside,
        };
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    /// Notes that somebody looked at what is there.
    pub fn looked(&self, plane: &Plane, path: &str) {
        if KINDS.iter().any(|kind| path.ends_with(kind.resource)) {
            let looked = (path.to_string(), plane.clock.0.elapsed());
            self.listed.lock().unwrap_or_else(PoisonError::into_inner).push(looked);
        }
    }

    /// When a collection was last looked at before then.
    fn last_look(&self, collection: &str, before: Duration) -> Option<Duration> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = listed.iter().filter(|(path, at)| path == collection && *at <= before);
        looks.map(|(_, at)| *at).max()
    }

    pub fn all(&self) -> Vec<Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether an object is about to be made in a namespace that does not stand for the one it is from.
async fn is_misplaced(plane: &Plane, path: &str, body: &Bytes) -> bool {
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(workspace) = object::annotation(&sent, marks::WORKSPACE) else { return false };
    let source = object::annotation(&sent, marks::SOURCE).unwrap_or_default();
    let name = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split('/').next());
    let namespace = plane.client.get(&format!("/api/v1/namespaces/{}", name.unwrap_or_default())).await;
    let Ok(namespace) = namespace else { return false };
    !Locator::of(&namespace).is_some_and(|said| {
        said.is_ok_and(|said| {
            said.workspace == workspace && source.split('/').next() == Some(said.namespace.as_str())
        })
    })
}

/// What is in a namespace of the cluster and was not made by a syncer.
async fn unmarked(plane: &Plane, namespace: &str) -> Vec<String> {
    let mut found = Vec::new();
    for kind in &KINDS {
        let collection = kind.collection(namespace);
        let list = plane.client.get(&collection).await.unwrap_or_default();
        let items = list["items"].as_array().into_iter().flatten();
        let others = items.filter(|item| whose(item).0.is_empty() && NAMES.contains(&object::name(item)));
        found.extend(others.map(|item| format!("{collection}/{}", object::name(item))));
    }
    found
}

/// Control plane, and uid above or, of a namespace, the one above that it stands for; as an object says.
pub fn whose(found: &Value) -> (String, String) {
    let plane = object::label(found, marks::CONTROL_PLANE).unwrap_or_default();
    let uid = object::annotation(found, marks::UID).or_else(|| object::annotation(found, marks::NAMESPACE));
    (plane.to_string(), uid.unwrap_or_default().to_string())
}

/// What was asked for above, and when things were another's.
#[derive(Default)]
pub struct Facts {
    /// Uids of objects, and namespaces as those below name them, that were to go, since when.
    pub asked: BTreeMap<String, Duration>,
    /// Paths below of what others made before us, and when.
    pub foreign: BTreeMap<String, Duration>,
    /// From when to when nothing was to be made or deleted, and everybody had heard of it.
    pub paused: Vec<(Duration, Duration)>,
    /// From when to when the claim was another's.
    pub claimed: Vec<(Duration, Duration)>,
    pub control_plane: String,
    /// How long a syncer may go on without having looked.
    pub grace: Duration,
}

/// What was written that should not have been.
pub fn wrongs(log: &Arc<Log>, facts: &Facts) -> Vec<String> {
    log.all()
        .iter()
        .filter(|written| written.succeeded())
        .filter_map(|written| wrong(log, written, facts))
        .collect()
}

fn wrong(log: &Log, written: &Written, facts: &Facts) -> Option<String> {
    let said = |what: &str| Some(format!("{what}: {written:?}"));
    if written.plane != "below" {
        return said("another cluster was written to");
    }
    let within = |(from, to): &(Duration, Duration)| written.at > *from + facts.grace && written.at < *to;
    if !written.is_late && facts.claimed.iter().any(within) {
        return said("written while the claim was another's");
    }
    if !written.sent.0.is_empty() && written.sent.0 != facts.control_plane {
        return said("written for another control plane");
    }
    if written.is_own() {
        return None;
    }
    let within = |(from, to): &(Duration, Duration)| written.at > *from && written.at < *to;
    let is_held = matches!(written.method.as_str(), "POST" | "DELETE");
    if is_held && !written.is_late && facts.paused.iter().any(within) {
        return said("made or deleted while that was paused");
    }
    if written.is_misplaced && !written.is_late {
        return said("made in a namespace that stands for another one");
    }
    // What was made after somebody had looked could not be known.
    let was_seen = |path: &&String| {
        let made = facts.foreign.get(*path).copied().unwrap_or_default();
        let collection = path.rsplit_once('/').map(|(collection, _)| collection).unwrap_or_default();
        log.last_look(collection, written.at).is_none_or(|looked| looked > made)
    };
    if let Some(path) = written.inside.iter().find(was_seen) {
        return said(&format!("deleted with {path} in it, which is somebody else's"));
    }
    let ours = written.was.as_ref().is_some_and(|(plane, _)| *plane == facts.control_plane);
    match written.method.as_str() {
        "DELETE" => {
            let uid = written.was.as_ref().map(|(_, uid)| uid.as_str()).unwrap_or_default();
            let is_asked = facts.asked.get(uid).is_some_and(|since| *since <= written.at);
            if ours && is_asked { None } else { said("deleted though nobody asked for it") }
        }
        "PATCH" | "PUT" if !ours => said("something that is not ours was changed"),
        _ => None,
    }
}
