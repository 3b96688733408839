//! GET on a collection with `watch`: existing objects, then changes, until the timeout.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go

mod frames;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::Status;
use atoll_registry::bootstrap::ROOT;
use atoll_registry::selection::is_turn;
use atoll_registry::{Row, Selection, Subtree, definitions};
use atoll_schema::{TypeRef, Types};
use atoll_store::Key;
use atoll_watch::event;
use atoll_watch::{Event, EventType, Expired, Object, ObjectCursor, RevisionError, Scope, Snapshot, Watcher};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::frames::Frames;
use super::list::{parse_revision, scope, subtree, wait_for_revision};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::inflight::{NoRoom, Reservation, UnreadBytes, WatchBuffer, WatchProgress};
use crate::options::ListOptions;
use crate::respond;
use crate::respond::table::INITIAL_EVENTS_END;

/// A watch without a timeout of its own ends after once to twice this time, so that not all end at once.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest timeout: a time that far in the future can be represented.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);
/// Interval of bookmarks, if the client asked for them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time before the end at which a last bookmark is sent, so that the client can resume from it.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Chunks that may be queued for a slow connection, within the limit on unread bytes. After that, the
/// watcher's own queue fills, then it falls behind the history.
const MAX_QUEUED_CHUNKS: usize = 16;
/// Maximum size of events that are sent together, unless there is only one.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of objects that are looked at for a batch before other tasks run.
const BATCH_OBJECTS: usize = 4096;
/// Number of lookups of a long selector that do not delay other tasks.
const FEW_LOOKUPS: usize = 500;
/// Objects of at least this size are sent without copying.
const SHARED_FROM: usize = 16 << 10;
// All chunks of a batch fit into the queue.
const _: () = assert!(2 * (BATCH_BYTES / SHARED_FROM) < MAX_QUEUED_CHUNKS);
/// About the size of an event without its object.
const FRAME_BYTES: usize = 40;
/// Bytes by which the events of a batch may together be longer than their objects.
const SLACK: usize = 16 << 10;
/// Maximum size of an event that is longer than that.
const MAX_EVENT: usize = 64 << 20;
/// Factor by which the memory for such an event grows until it is enough.
const GROWTH: usize = 4;

pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let mut options = ListOptions::parse(row, &call.query, true)?;
    options.selection.within = subtree(server, row, call);
    let wanted = parse_revision(&options.resource_version);
    let wanted = wanted.map_err(|error| Status::plain_internal(error.to_string()))?;
    let scope = scope(row, call, &options);
    // Without a revision, a watch starts with all existing objects.
    let initial = options.send_initial_events.unwrap_or(wanted == 0);
    let too_new = if initial { wait_for_revision(server, wanted).await.err() } else { None };
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let content_type = call.output.media.of_watch();
    let mut response = respond::with_type(StatusCode::OK, content_type, Body::Stream(receiver));
    let buffer = call.response_limits.watch_buffer();
    let reserved = buffer.reserve_for_watch(options.selection.memory())?;
    if buffer.is_counted() {
        response.extensions_mut().insert(WatchProgress(Arc::downgrade(&buffer)));
    }
    let start = if initial || wanted == 0 { None } else { Some(wanted) };
    let timeout = options.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let stream = Stream {
        server: server.clone(),
        row: Arc::new(row.clone()),
        sender,
        buffer,
        selection: options.selection,
        _reserved: reserved,
        workspace: call.workspace.scope().unwrap_or(ROOT).to_string(),
        frames: Arc::new(Frames::new(row, call.output, call.workspace.scope().is_none())),
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
    buffer: Arc<WatchBuffer>,
    selection: Selection,
    /// Memory of the selection.
    _reserved: Reservation,
    /// The workspace id; root for all workspaces.
    workspace: String,
    frames: Arc<Frames>,
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

/// The error of a watch whose workspaces have changed: the client lists again.
fn other_workspaces() -> Status {
    Status::expired("the definition of the resource has changed in some of these workspaces; list again")
}

/// The client is gone, or an error was sent.
struct WatchEnded;

/// An event, its type for this watch, and its size.
type SelectedEvent<'a> = (&'a Arc<Event>, EventType, usize);

/// Existing objects that are sent together.
#[derive(Default)]
struct InitialBatch {
    objects: Vec<Arc<Object>>,
    size: usize,
    /// Number of objects that were looked at.
    count: usize,
    /// The key of the last of them.
    last: Option<Key>,
}

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
        let definitions = match self.watch_definitions(after) {
            Ok(definitions) => definitions,
            Err(status) => return self.error(&status).await,
        };
        if self.initial {
            let revision = snapshot.revision;
            self.send_initial(snapshot, scope).await?;
            if self.announce_end {
                self.bookmark(revision, true).await?;
            }
        }
        self.send_events(&mut watcher, definitions).await
    }

    /// Watches the definitions that decide which workspaces this watch shows, if any do.
    fn watch_definitions(&self, after: u64) -> Result<Option<Watcher>, Status> {
        if !self.selection.within.as_ref().is_some_and(Subtree::is_of_definition) {
            return Ok(None);
        }
        let everywhere = Scope::new(definitions::GROUP, definitions::RESOURCE, None, None);
        let watcher = self.server.registry.cache.watch(everywhere, after);
        watcher.map(Some).map_err(|_| other_workspaces())
    }

    /// Waits until other workspaces than before may have the definition of the resource. What this watch has shown of
    /// them does not count any more.
    async fn workspaces_changed(&self, definitions: &mut Option<Watcher>) {
        let (Some(watcher), Some(within)) = (definitions, &self.selection.within) else {
            return std::future::pending().await;
        };
        loop {
            match watcher.next().await {
                Ok(events) if !events.iter().any(|event| within.is_changed_by(event)) => {}
                _ => return,
            }
        }
    }

    /// Sends the existing objects. They stay in the snapshot, which all watches share, until the client is
    /// ready to read them.
    async fn send_initial(&self, snapshot: Arc<Snapshot>, scope: &Scope) -> Result<(), WatchEnded> {
        let within = ObjectCursor::within(&snapshot, scope, None, usize::MAX);
        let mut rest = within.unwrap_or_else(|| snapshot.list(scope, None).collect::<Vec<_>>().into());
        drop(snapshot);
        loop {
            let InitialBatch { objects, size, count, last } = match self.selection.is_long() {
                true => self.take_turn(|| self.initial_batch(&rest)).await?,
                false => self.initial_batch(&rest),
            };
            let Some(last) = last else { return Ok(()) };
            rest.advance(count, &last);
            match objects.is_empty() {
                true => tokio::task::yield_now().await,
                false => self.send_objects(&objects, size).await?,
            }
        }
    }

    /// Selects the objects that are sent together next.
    fn initial_batch(&self, rest: &ObjectCursor) -> InitialBatch {
        let (mut batch, mut lookups) = (InitialBatch::default(), 0);
        for object in rest.iter().take(BATCH_OBJECTS) {
            if self.is_selected(object) {
                let more = object.size() + FRAME_BYTES;
                if batch.size > 0 && batch.size + more > BATCH_BYTES {
                    break;
                }
                batch.size += more;
                batch.objects.push(object.clone());
            }
            batch.count += 1;
            batch.last = Some(object.key.clone());
            lookups += self.selection.lookups_in(&self.row, object);
            if is_turn(lookups) {
                break;
            }
        }
        batch
    }

    async fn send_objects(&self, batch: &[Arc<Object>], size: usize) -> Result<(), WatchEnded> {
        let mut batched = self.start_batch(size).await?;
        for object in batch {
            if let Some(json) = self.frames.initial_json(object, SHARED_FROM) {
                batched.chunks.push_shared(EventType::Added, json);
            } else if let Err(NoRoom) = batched.push(|most| self.frames.initial(object, most)) {
                batched.send(self).await?;
                let long = object.clone();
                self.send_long(object.size(), move |frames, most| frames.initial(&long, most)).await?;
                batched = self.start_batch(size).await?;
            }
        }
        batched.send(self).await
    }

    /// Starts a batch of events with `size` bytes of JSON.
    async fn start_batch(&self, size: usize) -> Result<Batch, WatchEnded> {
        let unread = self.reserve(size).await?;
        Ok(Batch { unread, chunks: Chunks::default(), room: size + SLACK })
    }

    /// Sends an event that is much longer than the `size` bytes of its object. It is encoded again with more
    /// memory until that is enough.
    async fn send_long<E>(&self, size: usize, encode: E) -> Result<(), WatchEnded>
    where
        E: Fn(&Frames, usize) -> Result<Bytes, NoRoom> + Send + Sync + 'static,
    {
        let encode = Arc::new(encode);
        let mut most = size.max(SLACK);
        while most < MAX_EVENT {
            most = (GROWTH * most).min(MAX_EVENT);
            let unread = self.reserve(most).await?;
            let (frames, encode) = (self.frames.clone(), encode.clone());
            let encoded = self.buffer.encode(move || encode(&frames, most)).await.ok_or(WatchEnded)?;
            if let Ok(frame) = encoded {
                return self.send(unread, vec![frame]).await;
            }
        }
        let message = format!("an event of this watch takes more than {} MiB", MAX_EVENT >> 20);
        self.error(&Status::request_entity_too_large(message)).await
    }

    async fn send_events(
        &self,
        watcher: &mut Watcher,
        mut definitions: Option<Watcher>,
    ) -> Result<(), WatchEnded> {
        let mut bookmark_at = self.next_bookmark();
        loop {
            // Timers first, because there may always be events.
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return Ok(()),
                () = self.workspaces_changed(&mut definitions) => return self.error(&other_workspaces()).await,
                () = sleep_until(bookmark_at), if self.bookmarks => {
                    self.bookmark(watcher.progress(), false).await?;
                    bookmark_at = self.next_bookmark();
                }
                events = watcher.next() => match events {
                    Ok(events) => self.send_selected(&events).await?,
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

    async fn send_selected(&self, events: &VecDeque<Arc<Event>>) -> Result<(), WatchEnded> {
        let mut rest = events.iter().filter(|event| event.revision > self.not_before);
        if !self.selection.is_long() {
            return self.send_batched(rest.filter_map(|event| self.select_event(event))).await;
        }
        loop {
            let (mut part, mut lookups) = (Vec::new(), 0);
            for event in rest.by_ref() {
                let states = [&event.previous, &event.object].into_iter().flatten();
                lookups += states.map(|object| self.selection.lookups_in(&self.row, object)).sum::<usize>();
                part.push(event);
                if is_turn(lookups) {
                    break;
                }
            }
            if part.is_empty() {
                return Ok(());
            }
            let select = || part.into_iter().filter_map(|event| self.select_event(event)).collect::<Vec<_>>();
            let selected = match lookups > FEW_LOOKUPS {
                true => self.take_turn(select).await?,
                false => select(),
            };
            self.send_batched(selected.into_iter()).await?;
        }
    }

    /// Runs a part of the selection when it is the tenant's turn.
    async fn take_turn<T>(&self, work: impl FnOnce() -> T) -> Result<T, WatchEnded> {
        let turn = self.server.registry.take_turn(&self.workspace, work);
        tokio::time::timeout_at(self.deadline, turn).await.ok().and_then(Result::ok).ok_or(WatchEnded)
    }

    /// Returns the event as this watch sees it, with its size.
    fn select_event<'a>(&self, event: &'a Arc<Event>) -> Option<SelectedEvent<'a>> {
        let seen = event.type_for(|object| self.is_selected(object))?;
        let size = event.subject(seen).map_or(0, |object| object.size());
        Some((event, seen, size + FRAME_BYTES))
    }

    async fn send_batched<'a>(
        &self,
        mut seen: impl Iterator<Item = SelectedEvent<'a>>,
    ) -> Result<(), WatchEnded> {
        let mut next = seen.next();
        while let Some((event, first, mut size)) = next {
            let mut batch = vec![(event, first)];
            next = seen.next();
            while let Some((event, seen_as, more)) = next.filter(|(_, _, more)| size + more <= BATCH_BYTES) {
                batch.push((event, seen_as));
                size += more;
                next = seen.next();
            }
            let mut batched = self.start_batch(size).await?;
            for (event, seen) in batch {
                if let Some(json) = self.frames.event_json(event, seen, SHARED_FROM) {
                    batched.chunks.push_shared(seen, json);
                } else if let Err(NoRoom) = batched.push(|most| self.frames.event(event, seen, most)) {
                    batched.send(self).await?;
                    let (long, object_size) = (event.clone(), event.subject(seen).map_or(0, |it| it.size()));
                    self.send_long(object_size, move |frames, most| frames.event(&long, seen, most)).await?;
                    batched = self.start_batch(size).await?;
                }
            }
            batched.send(self).await?;
        }
        Ok(())
    }

    fn is_selected(&self, object: &Arc<Object>) -> bool {
        self.selection.is_everything() || self.selection.matches_in(&self.row, object)
    }

    async fn bookmark(&self, revision: u64, initial_events_end: bool) -> Result<(), WatchEnded> {
        let mut object = match self.row.type_id {
            Some(id) => Types::get().zero(TypeRef::Struct(id)),
            None => json!({}),
        };
        (self.row.strategy.prepare_bookmark)(&mut object);
        object["kind"] = self.row.kind.as_str().into();
        object["apiVersion"] = self.row.api_version().into();
        object["metadata"] = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            object["metadata"]["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let encoded = self.frames.object("BOOKMARK", &atoll_meta::json::to_vec(&object), MAX_EVENT);
        self.send_one(encoded.map_err(|NoRoom| WatchEnded)?).await
    }

    async fn expired(&self, requested: u64, oldest: u64) -> Result<(), WatchEnded> {
        self.error(&Status::expired(format!("too old resource version: {requested} ({oldest})"))).await
    }

    async fn error(&self, status: &Status) -> Result<(), WatchEnded> {
        self.send_one(self.frames.status(status)).await?;
        Err(WatchEnded)
    }

    async fn send_one(&self, chunk: Bytes) -> Result<(), WatchEnded> {
        let unread = self.reserve(chunk.len()).await?;
        self.send(unread, vec![chunk]).await
    }

    /// Waits until the client is ready for about `bytes` more.
    async fn reserve(&self, bytes: usize) -> Result<UnreadBytes, WatchEnded> {
        tokio::time::timeout_at(self.deadline, self.buffer.reserve(bytes)).await.map_err(|_| WatchEnded)
    }

    /// Sends all chunks or, after the deadline, none of them: a client never gets a part of an event.
    async fn send(&self, unread: UnreadBytes, chunks: Vec<Bytes>) -> Result<(), WatchEnded> {
        let slots = tokio::time::timeout_at(self.deadline, self.sender.reserve_many(chunks.len())).await;
        let slots = slots.map_err(|_| WatchEnded)?.map_err(|_| WatchEnded)?;
        for (slot, chunk) in slots.zip(unread.attach(chunks)) {
            slot.send(chunk);
        }
        Ok(())
    }
}

/// Events that are sent together.
struct Batch {
    unread: UnreadBytes,
    chunks: Chunks,
    /// Bytes that further events may have.
    room: usize,
}

impl Batch {
    fn push(&mut self, encode: impl FnOnce(usize) -> Result<Bytes, NoRoom>) -> Result<(), NoRoom> {
        let frame = encode(self.room)?;
        self.room = self.room.saturating_sub(frame.len());
        self.chunks.push(frame);
        Ok(())
    }

    async fn send(self, stream: &Stream) -> Result<(), WatchEnded> {
        stream.send(self.unread, self.chunks.finish()).await
    }
}

/// Encoded events. Small ones are joined, and large objects are not copied.
#[derive(Default)]
struct Chunks {
    complete: Vec<Bytes>,
    /// The first of the joined events: a single event is shared with other watches.
    first: Option<Bytes>,
    joined: Vec<u8>,
}

impl Chunks {
    fn push(&mut self, frame: Bytes) {
        if self.first.is_none() && self.joined.is_empty() {
            self.first = Some(frame);
            return;
        }
        self.join_first();
        self.joined.extend_from_slice(&frame);
    }

    /// Adds an event whose object is `json`.
    fn push_shared(&mut self, event_type: EventType, json: Bytes) {
        self.join_first();
        self.joined.extend_from_slice(event::opening(event_type).as_bytes());
        self.complete.push(Bytes::from(std::mem::take(&mut self.joined)));
        self.complete.push(json);
        self.joined.extend_from_slice(event::CLOSING);
    }

    fn join_first(&mut self) {
        if let Some(first) = self.first.take() {
            self.joined.extend_from_slice(&first);
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.complete.extend(self.first);
        if !self.joined.is_empty() {
            self.complete.push(Bytes::from(self.joined));
        }
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_are_not_copied() {
        let (small, large) = (Bytes::from_static(b"s\n"), Bytes::from_static(b"large"));
        let shared = || r#"{"type":"ADDED","object":large}"#.to_string() + "\n";
        let letters = [("s", 1), ("ss", 1), ("l", 3), ("sl", 3), ("ls", 3), ("sslsslls", 7)];
        for (letters, count) in letters {
            let (mut chunks, mut expected) = (Chunks::default(), String::new());
            for letter in letters.chars() {
                match letter {
                    's' => chunks.push(small.clone()),
                    _ => chunks.push_shared(EventType::Added, large.clone()),
                }
                expected += &if letter == 's' { "s\n".to_string() } else { shared() };
            }
            let chunks = chunks.finish();
            assert_eq!((chunks.concat(), chunks.len()), (expected.into_bytes(), count), "{letters}");
            assert!(count == 1 || chunks.iter().any(|chunk| chunk.as_ptr() == large.as_ptr()));
        }
        let mut single = Chunks::default();
        single.push(small.clone());
        assert_eq!(single.finish()[0].as_ptr(), small.as_ptr());
    }
}
