//! An API server in memory: lists, watches that never end, and the writes of the scheduler. Placements are written
//! by the rules of the real server.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_fleet::placement::{PlacementDecision, Share, duplicates};
use atoll_fleet::placement_refusal::placement_refusal;
use atoll_fleet::{Placement, marks};
use atoll_informer::{Clock, Key, Resource, Tree, resources};
use atoll_meta::time::Timestamp;
use atoll_meta::{Status, object};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::simulated_fleet::SimulatedClock;

/// A placement that the scheduler has written.
pub struct PlacementWrite {
    pub key: Key,
    pub before: Placement,
    pub after: Placement,
}

pub struct Api {
    state: Mutex<State>,
    clock: Arc<SimulatedClock>,
    pub tree: Arc<Tree>,
    /// Notified after each write of a placement.
    pub written: Notify,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// By path of the collection, such as `/apis/apps/v1/deployments`.
    tables: BTreeMap<String, Table>,
    writes: Vec<PlacementWrite>,
    /// Placements that were refused, and why.
    refusals: Vec<String>,
    /// When the last heartbeats of silent clusters arrived, in seconds since 1970. Those of all others have just
    /// arrived.
    silent: BTreeMap<String, i64>,
}

#[derive(Default)]
struct Table {
    objects: BTreeMap<Key, Value>,
    watchers: Vec<UnboundedSender<Bytes>>,
}

/// The parts of the path of a request.
struct Target {
    table: String,
    workspace: String,
    namespace: String,
    name: String,
    subresource: String,
}

impl Api {
    pub fn new(clock: Arc<SimulatedClock>) -> Api {
        Api { state: Mutex::default(), clock, tree: Arc::default(), written: Notify::new() }
    }

    /// Sets when the last heartbeat of a silent cluster arrived; `None` if it is not silent.
    pub fn set_silent(&self, cluster: &str, since: Option<i64>) {
        let mut state = self.state();
        match since {
            Some(since) => drop(state.silent.insert(cluster.to_string(), since)),
            None => drop(state.silent.remove(cluster)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics")
    }

    /// Placements that were written since the last call.
    pub fn take_writes(&self) -> Vec<PlacementWrite> {
        std::mem::take(&mut self.state().writes)
    }

    /// Placements that were refused since the last call.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.state().refusals)
    }

    pub fn get(&self, resource: &Resource, key: &Key) -> Option<Value> {
        self.state().tables.get(&resource.collection(""))?.objects.get(key).cloned()
    }

    /// Creates or replaces an object.
    pub fn put(&self, resource: &Resource, value: Value) {
        self.state().put(&resource.collection(""), value);
    }

    /// Changes an object, if it exists.
    pub fn change(&self, resource: &Resource, key: &Key, change: impl FnOnce(&mut Value)) {
        let (mut state, table) = (self.state(), resource.collection(""));
        let found = state.tables.get(&table).and_then(|table| table.objects.get(key)).cloned();
        if let Some(mut value) = found {
            change(&mut value);
            state.put(&table, value);
        }
    }

    pub fn delete(&self, resource: &Resource, key: &Key) {
        let mut state = self.state();
        state.revision += 1;
        let revision = state.revision;
        let table = state.tables.entry(resource.collection("")).or_default();
        if let Some(mut value) = table.objects.remove(key) {
            value["metadata"]["resourceVersion"] = revision.to_string().into();
            table.tell("DELETED", &value);
        }
    }

    /// Splits a path such as `/clusters/root:a/apis/apps/v1/namespaces/n/deployments/web/placement`.
    fn target(&self, path: &str) -> Option<Target> {
        let (workspace, rest) = path.strip_prefix("/clusters/")?.split_once('/')?;
        let mut parts: Vec<&str> = rest.split('/').collect();
        let root = if parts.first() == Some(&"api") { 2 } else { 3 };
        let mut of = parts.split_off(root.min(parts.len()));
        let mut namespace = String::new();
        if of.first() == Some(&"namespaces") && of.len() > 2 {
            namespace = of[1].to_string();
            of.drain(..2);
        }
        let part = |at: usize| of.get(at).copied().unwrap_or_default().to_string();
        let table = format!("/{}/{}", parts.join("/"), part(0));
        let id = workspace.rsplit(':').next().unwrap_or_default();
        Some(Target { table, workspace: id.to_string(), namespace, name: part(1), subresource: part(2) })
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Response<ResponseBody>, Status> {
        let target = self.target(request.uri().path()).ok_or_else(|| Status::not_found("", "", "path"))?;
        let query = request.uri().query().unwrap_or_default();
        let key = Key::new(&target.workspace, &target.namespace, &target.name);
        let body = || serde_json::from_slice::<Value>(request.body()).unwrap_or_default();
        let mut state = self.state();
        match (request.method(), target.subresource.as_str()) {
            (&Method::GET, _) if query.contains("watch=true") => Ok(state.watch(&target.table)),
            (&Method::GET, _) if target.table == resources::LEASES.collection("") => {
                Ok(respond(&state.lease(&target.name, self.clock.now())))
            }
            (&Method::GET, _) if target.name.is_empty() => Ok(respond(&state.list(&target.table))),
            (&Method::PATCH, "placement") => {
                let placed = state.place(&target.table, &key, &body())?;
                self.written.notify_one();
                Ok(respond(&placed))
            }
            (&Method::PATCH, "status") => {
                let found =
                    state.tables.get(&target.table).and_then(|table| table.objects.get(&key)).cloned();
                let mut value = found.ok_or_else(|| Status::not_found("", &target.table, &target.name))?;
                value["status"]["conditions"] = body()["status"]["conditions"].clone();
                Ok(respond(&state.put(&target.table, value)))
            }
            (&Method::PUT, "status") => {
                let mut value = body();
                let known = state.tables.get(&target.table).and_then(|table| table.objects.get(&key));
                let known = known.ok_or_else(|| Status::not_found("", &target.table, &target.name))?;
                if known["metadata"]["resourceVersion"] != value["metadata"]["resourceVersion"] {
                    return Err(Status::conflict("", &target.table, &target.name, "it has been modified"));
                }
                object::set_annotation(&mut value, atoll_informer::WORKSPACE, &target.workspace);
                Ok(respond(&state.put(&target.table, value)))
            }
            // Events are not kept.
            (&Method::POST | &Method::PATCH, _) => Ok(respond(&body())),
            _ => Err(Status::not_found("", &target.table, &target.name)),
        }
    }
}

impl Transport for Api {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let response = self.answer(&request).unwrap_or_else(|status| {
            let body = status.to_json();
            let response = Response::builder().status(status.code());
            response.body(full(body)).expect("a response")
        });
        Box::pin(async move { Ok(response) })
    }
}

impl State {
    fn list(&self, table: &str) -> Value {
        let objects = self.tables.get(table).map(|table| table.objects.values().cloned().collect());
        let objects: Vec<Value> = objects.unwrap_or_default();
        json!({ "metadata": { "resourceVersion": self.revision.to_string() }, "items": objects })
    }

    /// The Lease of a cluster.
    fn lease(&self, name: &str, now: Timestamp) -> Value {
        let is_its = |cluster: &&String| marks::heartbeat(cluster) == name;
        let silent = self.silent.keys().find(is_its).and_then(|cluster| self.silent.get(cluster));
        let renewed = silent.map_or(now, |since| Timestamp::new(*since, 0)).to_time();
        json!({
            "metadata": { "name": name, "namespace": marks::SYSTEM_NAMESPACE },
            "spec": { "holderIdentity": "syncer", "leaseDurationSeconds": 30, "renewTime": renewed },
        })
    }

    /// Nothing happens between a list and its watch, because both begin before the simulation does.
    fn watch(&mut self, table: &str) -> Response<ResponseBody> {
        let (sender, receiver) = unbounded_channel();
        self.tables.entry(table.to_string()).or_default().watchers.push(sender);
        Response::new(Events(receiver).boxed_unsync())
    }

    fn put(&mut self, table: &str, mut value: Value) -> Value {
        self.revision += 1;
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let table = self.tables.entry(table.to_string()).or_default();
        let known = table.objects.insert(Key::of(&value), value.clone());
        table.tell(if known.is_some() { "MODIFIED" } else { "ADDED" }, &value);
        value
    }

    /// Writes a placement as the server does: only on what the scheduler has seen, and with new shares only on
    /// clusters that accept them.
    fn place(&mut self, table: &str, key: &Key, wanted: &Value) -> Result<Value, Status> {
        let found = self.tables.get(table).and_then(|table| table.objects.get(key)).cloned();
        let mut value = found.ok_or_else(|| Status::not_found("", table, &key.name))?;
        let is_stale = |field: &str| wanted["metadata"][field] != value["metadata"][field];
        if is_stale("uid") || is_stale("resourceVersion") {
            return Err(Status::conflict("", table, &key.name, "the object has been modified"));
        }
        let (before, spec) = (Placement::of(&value), &wanted["spec"]);
        let shares = |field: &str| -> Vec<Share> {
            spec.get(field).and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
        };
        let clusters = shares("clusters");
        for share in clusters.iter().filter(|share| before.share_of(&share.name, &share.uid).is_none()) {
            if let Some(why) = self.refusal(share) {
                self.refusals.push(format!("{key}: {why}"));
                return Err(Status::forbidden("", table, &key.name, why));
            }
        }
        let (group, resource) = group_and_resource(table);
        let named = (group, resource, &*key.namespace, &*key.name);
        if let Some(why) = duplicates(named, &before, &clusters, spec["duplicate"] == true) {
            self.refusals.push(format!("{key}: {why}"));
            return Err(Status::forbidden("", table, &key.name, why));
        }
        let mut after = before.decided(clusters, spec["by"].as_str().unwrap_or_default());
        after.duplicate = spec["duplicate"] == true;
        after.phase = spec["phase"].as_str().unwrap_or_default().to_string();
        after.target = shares("target");
        let decisions: Vec<PlacementDecision> =
            serde_json::from_value(spec["decisions"].clone()).unwrap_or_default();
        after.decisions = decisions;
        let exists =
            |name: &str, uid: &str| self.cluster(name).is_some_and(|cluster| object::uid(cluster) == uid);
        after.leaving.retain(|one| exists(&one.name, &one.uid));
        set_placement(&mut value, &after);
        self.writes.push(PlacementWrite { key: key.clone(), before, after });
        let stored = self.put(table, value);
        Ok(json!({ "metadata": stored["metadata"], "spec": spec }))
    }

    fn cluster(&self, name: &str) -> Option<&Value> {
        let clusters = self.tables.get(&resources::CLUSTERS.collection(""))?;
        clusters.objects.get(&Key::new("root", "", name))
    }

    fn refusal(&self, share: &Share) -> Option<String> {
        match self.cluster(&share.name) {
            None => Some(format!("cluster {} does not exist", share.name)),
            Some(cluster) if object::uid(cluster) != share.uid => {
                Some(format!("{} is another one", share.name))
            }
            Some(cluster) => placement_refusal(cluster).map(|refusal| refusal.why()),
        }
    }
}

impl Table {
    fn tell(&mut self, kind: &str, value: &Value) {
        if self.watchers.is_empty() {
            return;
        }
        let line = Bytes::from(format!("{}\n", json!({ "type": kind, "object": value })));
        self.watchers.retain(|watcher| watcher.send(line.clone()).is_ok());
    }
}

/// The body of a watch.
struct Events(UnboundedReceiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Replaces the placement of an object.
pub fn set_placement(value: &mut Value, placement: &Placement) {
    match placement.text() {
        Some(text) => object::set_annotation(value, marks::PLACEMENT, &text),
        None => object::remove_annotation(value, marks::PLACEMENT),
    }
}

fn group_and_resource(table: &str) -> (&str, &str) {
    let parts: Vec<&str> = table.split('/').collect();
    match parts.as_slice() {
        ["", "apis", group, _, resource] => (group, resource),
        [.., resource] => ("", resource),
        [] => ("", ""),
    }
}

fn respond(value: &Value) -> Response<ResponseBody> {
    Response::new(full(value.to_string().into_bytes()))
}

fn full(body: Vec<u8>) -> ResponseBody {
    Full::from(body).map_err(|never| match never {}).boxed_unsync()
}
