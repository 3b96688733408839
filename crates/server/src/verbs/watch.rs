//! GET on a collection with `watch`: existing objects, then changes, until the timeout.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go

mod frames;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::Status;
use atoll_registry::{Row, Selection};
use atoll_schema::{TypeRef, Types};
use atoll_watch::{Event, Expired, Object, RevisionError, Scope, Watcher};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::frames::Frames;
use super::list::{parse_revision, scope, wait_for_revision};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::ListOptions;
use crate::respond;
use crate::respond::table::INITIAL_EVENTS_END;
use crate::workspace::Workspace;

/// A watch without a timeout of its own ends after once to twice this time, so that not all end at once.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest timeout: a time that far in the future can be represented.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);
/// Interval of bookmarks, if the client asked for them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time before the end at which a last bookmark is sent, so that the client can resume from it.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Chunks that may be queued for a slow connection. After that, the watcher's own queue fills, then it falls
/// behind the history.
const MAX_QUEUED_CHUNKS: usize = 4;
/// Maximum size of a chunk of events that are ready at the same time.
const CHUNK_BYTES: usize = 64 << 10;

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(row, &call.query, true)?;
    let wanted = parse_revision(&options.resource_version);
    let wanted = wanted.map_err(|error| Status::plain_internal(error.to_string()))?;
    let scope = scope(row, call, &options);
    // Without a revision, a watch starts with all existing objects.
    let initial = options.send_initial_events.unwrap_or(wanted == 0);
    let too_new = if initial { wait_for_revision(server, wanted).await.err() } else { None };
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let content_type = call.output.media.of_watch();
    let response = respond::with_type(StatusCode::OK, content_type, Body::Stream(receiver));
    let start = if initial || wanted == 0 { None } else { Some(wanted) };
    let timeout = options.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let stream = Stream {
        server: server.clone(),
        row: Arc::new(row.clone()),
        sender,
        selection: options.selection,
        frames: Frames::new(row, call.output, call.workspace == Workspace::All),
        bookmarks: options.allow_bookmarks,
        announce_end: options.allow_bookmarks && initial,
        too_new,
        initial,
        not_before: wanted,
        deadline: Instant::now() + timeout.unwrap_or_else(default_timeout).min(MAX_TIMEOUT),
    };
    tokio::spawn(stream.run(scope, start));
    Ok(response)
}

fn default_timeout() -> Duration {
    let mut random = [0; 4];
    // Without randomness, all watches have the same timeout, which is acceptable.
    let _ = getrandom::fill(&mut random);
    MIN_TIMEOUT.mul_f64(1.0 + f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX))
}

struct Stream {
    server: Arc<Server>,
    row: Arc<Row>,
    sender: mpsc::Sender<Bytes>,
    selection: Selection,
    frames: Frames,
    bookmarks: bool,
    /// Whether to send a bookmark after the initial events.
    announce_end: bool,
    initial: bool,
    /// The error for a requested revision that is in the future.
    too_new: Option<Status>,
    /// Events up to this revision are not sent.
    not_before: u64,
    deadline: Instant,
}

/// The client is gone, or an error was sent.
struct WatchEnded;

impl Stream {
    async fn run(self, scope: Scope, start: Option<u64>) {
        let gone = self.sender.clone();
        let stopped = self.server.stopped();
        tokio::select! {
            biased;
            _ = self.send_all(&scope, start) => {}
            () = stopped => {}
            () = gone.closed() => {}
        }
    }

    async fn send_all(&self, scope: &Scope, start: Option<u64>) -> Result<(), WatchEnded> {
        if let Some(status) = &self.too_new {
            return self.error(status).await;
        }
        let cache = &self.server.registry.cache;
        let snapshot = cache.snapshot();
        let after = start.unwrap_or(snapshot.revision).min(snapshot.revision);
        let mut watcher = match cache.watch(scope.clone(), after) {
            Ok(watcher) => watcher,
            Err(RevisionError::Expired { requested, oldest }) => {
                return self.expired(requested, oldest).await;
            }
            Err(RevisionError::Future { requested, current }) => {
                return self.error(&Status::resource_version_too_large(requested, current)).await;
            }
        };
        if self.initial {
            self.send_initial(&snapshot, scope).await?;
            if self.announce_end {
                self.bookmark(snapshot.revision, true).await?;
            }
        }
        drop(snapshot);
        self.send_events(&mut watcher).await
    }

    async fn send_initial(&self, snapshot: &atoll_watch::Snapshot, scope: &Scope) -> Result<(), WatchEnded> {
        let mut chunk = Vec::new();
        let objects: Vec<Arc<Object>> = snapshot.list(scope, None).collect();
        for object in objects.iter().filter(|object| self.is_selected(object)) {
            chunk.extend_from_slice(&self.frames.initial(object));
            if chunk.len() >= CHUNK_BYTES {
                self.send(Bytes::from(std::mem::take(&mut chunk))).await?;
            }
        }
        if chunk.is_empty() { Ok(()) } else { self.send(Bytes::from(chunk)).await }
    }

    async fn send_events(&self, watcher: &mut Watcher) -> Result<(), WatchEnded> {
        let mut bookmark_at = self.next_bookmark();
        loop {
            // Timers first, because there may always be events.
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return Ok(()),
                () = sleep_until(bookmark_at), if self.bookmarks => {
                    self.bookmark(watcher.progress(), false).await?;
                    bookmark_at = self.next_bookmark();
                }
                events = watcher.next() => match events {
                    Ok(events) => self.send_batched(&events).await?,
                    Err(Expired { seen, oldest }) => return self.expired(seen, oldest).await,
                },
            }
        }
    }

    /// Returns the time of the next bookmark: periodically, and shortly before the end.
    fn next_bookmark(&self) -> Instant {
        let now = Instant::now();
        let last = self.deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
        let regular = now + BOOKMARK_EVERY;
        last.map_or(regular, |last| last.min(regular))
    }

    async fn send_batched(&self, events: &VecDeque<Arc<Event>>) -> Result<(), WatchEnded> {
        let wanted = events.iter().filter(|event| event.revision > self.not_before);
        let mut frames = wanted.filter_map(|event| {
            let seen = event.type_for(|object| self.is_selected(object))?;
            Some(self.frames.event(event, seen))
        });
        let Some(mut chunk) = frames.next() else { return Ok(()) };
        // A single event is sent without copying, because it is shared with other watchers; several are
        // joined.
        for next in frames {
            if chunk.len() + next.len() > CHUNK_BYTES {
                self.send(std::mem::replace(&mut chunk, next)).await?;
            } else {
                let mut joined = Vec::with_capacity(chunk.len() + next.len());
                joined.extend_from_slice(&chunk);
                joined.extend_from_slice(&next);
                chunk = Bytes::from(joined);
            }
        }
        self.send(chunk).await
    }

    fn is_selected(&self, object: &Arc<Object>) -> bool {
        self.selection.is_everything() || self.selection.matches_in(&self.row, object)
    }

    async fn bookmark(&self, revision: u64, initial_events_end: bool) -> Result<(), WatchEnded> {
        let mut object = match self.row.type_id {
            Some(id) => Types::get().zero(TypeRef::Struct(id)),
            None => json!({}),
        };
        // In upstream's internal type, replicas is always set.
        if self.row.group == "apps" && self.row.subresource("scale").is_some() {
            object["spec"]["replicas"] = 0.into();
        }
        object["kind"] = self.row.kind.as_str().into();
        object["apiVersion"] = self.row.api_version().into();
        object["metadata"] = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            object["metadata"]["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        self.send(self.frames.object("BOOKMARK", &atoll_meta::json::to_vec(&object))).await
    }

    async fn expired(&self, requested: u64, oldest: u64) -> Result<(), WatchEnded> {
        self.error(&Status::expired(format!("too old resource version: {requested} ({oldest})"))).await
    }

    async fn error(&self, status: &Status) -> Result<(), WatchEnded> {
        self.send(self.frames.status(status)).await?;
        Err(WatchEnded)
    }

    async fn send(&self, chunk: Bytes) -> Result<(), WatchEnded> {
        let sending = tokio::time::timeout_at(self.deadline, self.sender.send(chunk)).await;
        sending.map_err(|_| WatchEnded)?.map_err(|_| WatchEnded)
    }
}
