//! What is placed on a cluster, line by line: everything, then every change.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::view::{Line, Resource, Target};
use atoll_fleet::{Placement, shape};
use atoll_meta::object;
use atoll_registry::placement::Follower;
use atoll_store::{Key, key};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::family::Family;
use super::parse;
use crate::Server;
use crate::body::Body;
use crate::respond;

/// How often something is said, so that a connection that broke is noticed.
const ALIVE: Duration = Duration::from_secs(10);
/// Pieces that may wait for a slow connection; behind them changes of the same object become one.
const WAITING: usize = 4;
/// Lines that are ready at once are sent as one piece up to this size.
const PIECE: usize = 64 << 10;

pub fn answer(
    server: &Arc<Server>,
    workspace: &str,
    cluster: &str,
    control_plane: String,
    uid: String,
) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let view = View {
        server: server.clone(),
        cluster: cluster.to_string(),
        family: Family::new(workspace),
        told: HashMap::new(),
        hashes: RandomState::new(),
        piece: Vec::new(),
        sender: sender.clone(),
    };
    let follower = server.registry.placements.follow(cluster);
    let stopped = server.stopped();
    tokio::spawn(async move {
        tokio::select! {
            _ = view.run(follower, control_plane, uid) => {}
            () = stopped => {}
            () = sender.closed() => {}
        }
    });
    respond::with_type(StatusCode::OK, "application/json", Body::Stream(receiver))
}

struct View {
    server: Arc<Server>,
    cluster: String,
    family: Family,
    /// What was said: something that is gone has no uid any more.
    told: HashMap<Key, Told>,
    hashes: RandomState,
    piece: Vec<u8>,
    sender: mpsc::Sender<Bytes>,
}

/// What was said of an object last.
struct Told {
    target: Target,
    /// Of the line. Most changes of an object are of its status, and nobody below needs to hear of them.
    hash: u64,
}

/// Whoever listened is gone.
struct Ended;

impl View {
    async fn run(mut self, follower: Arc<Follower>, control_plane: String, uid: String) -> Result<(), Ended> {
        self.catch_up(&follower).await?;
        let workspaces: BTreeSet<String> =
            self.told.values().map(|told| told.target.workspace.clone()).collect();
        let workspaces = workspaces.into_iter().collect();
        self.say(&Line::Synced { control_plane, uid, workspaces }).await?;
        loop {
            self.flush().await?;
            match tokio::time::timeout(ALIVE, follower.changed()).await {
                Ok(()) => self.catch_up(&follower).await?,
                Err(_elapsed) => self.say(&Line::Alive).await?,
            }
        }
    }

    /// Says all that has changed.
    async fn catch_up(&mut self, follower: &Follower) -> Result<(), Ended> {
        let (keys, revision) = follower.take();
        self.server.registry.cache.wait_for(revision).await;
        let snapshot = self.server.registry.snapshot();
        for key in keys {
            let object = snapshot.get(&key).and_then(|object| parse(&object.json()).ok());
            if let Some(line) = self.news(&key, object) {
                self.add(&line).await?;
            }
        }
        Ok(())
    }

    /// The line that there is to say of an object, if it is anybody's business here and was not said already.
    fn news(&mut self, key: &Key, object: Option<Value>) -> Option<Vec<u8>> {
        let Some((target, line)) = object.and_then(|object| self.line(key, &object)) else {
            let Told { target, .. } = self.told.remove(key)?;
            return Some(Line::Forget { target }.bytes());
        };
        let bytes = line.bytes();
        let hash = self.hashes.hash_one(&bytes);
        let before = self.told.insert(key.clone(), Told { target, hash });
        before.is_none_or(|before| before.hash != hash).then_some(bytes)
    }

    /// What is to be done about an object in the cluster, if anything is.
    fn line(&mut self, key: &Key, object: &Value) -> Option<(Target, Line)> {
        let parts = key.parts()?;
        if !self.family.has(&self.server.registry, parts.workspace) {
            return None;
        }
        let placement = Placement::of(object);
        let shall = placement.share(&self.cluster);
        if shall.is_none() && !placement.leaving.contains(&self.cluster) {
            return None;
        }
        let target = target(&parts, object);
        let line = match shall {
            Some(share) if !object::is_being_deleted(object) => Line::Object {
                target: target.clone(),
                generation: object::generation(object),
                object: shape::shape(object, &self.cluster, share.replicas),
            },
            _ => Line::Remove { target: target.clone() },
        };
        Some((target, line))
    }

    async fn say(&mut self, line: &Line) -> Result<(), Ended> {
        self.add(&line.bytes()).await
    }

    async fn add(&mut self, line: &[u8]) -> Result<(), Ended> {
        self.piece.extend_from_slice(line);
        if self.piece.len() >= PIECE { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.sender.send(piece).await.map_err(|_| Ended)
    }
}

fn target(parts: &key::Parts<'_>, object: &Value) -> Target {
    let group = if parts.group == key::CORE { "" } else { parts.group };
    let version = object::api_version(object).rsplit('/').next().unwrap_or_default();
    Target {
        resource: Resource {
            group: group.to_string(),
            version: version.to_string(),
            resource: parts.resource.to_string(),
            kind: object::kind(object).to_string(),
            namespaced: !parts.namespace.is_empty(),
        },
        workspace: parts.workspace.to_string(),
        namespace: parts.namespace.to_string(),
        name: parts.name.to_string(),
        uid: object::uid(object).to_string(),
    }
}
