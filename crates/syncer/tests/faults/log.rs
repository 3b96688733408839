//! Every write that reached a cluster, and what was there before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_fleet::marks;
use atoll_meta::object;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde_json::Value;

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
}

#[derive(Default)]
pub struct Log {
    written: Mutex<Vec<Written>>,
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

    pub fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

impl Log {
    /// What is there that a request is about to change.
    pub async fn before(&self, plane: &Plane, request: &Request<Bytes>) -> Option<Value> {
        match *request.method() {
            Method::POST => None,
            _ => plane.client.get(request.uri().path()).await.ok(),
        }
    }

    pub fn note(
        &self,
        plane: &Plane,
        request: &Request<Bytes>,
        code: StatusCode,
        before: Option<Value>,
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
            was: before.as_ref().map(whose),
            sent: whose(&sent),
        };
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    pub fn all(&self) -> Vec<Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Control plane and uid above, as an object says.
pub fn whose(found: &Value) -> (String, String) {
    let plane = object::label(found, marks::CONTROL_PLANE).unwrap_or_default();
    let uid = object::annotation(found, marks::UID).unwrap_or_default();
    (plane.to_string(), uid.to_string())
}

/// What was asked for above, and when things were another's.
#[derive(Default)]
pub struct Facts {
    /// Uids of objects that were to go, since when.
    pub asked: BTreeMap<String, Duration>,
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
        .filter_map(|written| wrong(written, facts))
        .collect()
}

fn wrong(written: &Written, facts: &Facts) -> Option<String> {
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
