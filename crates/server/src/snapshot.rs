//! Snapshots: a copy of all objects, taken from and restored to a running server.
//!
//! A snapshot consists of lines of JSON: a header with the format and revision, one line per key in key
//! order, and an end with their number, by which truncated files are detected. Encrypted values are encrypted
//! with the same key, as base64 in `sealed` instead of `value`. Restoring is a sequence of ordinary writes
//! (differing objects are written, objects that are not in the snapshot are deleted), so watchers observe it.
//! The revision is first raised beyond any that a client of the copied server can have seen.

mod pausing;
mod preview;

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_meta::{Status, json};
use atoll_registry::custom_keys;
use atoll_store::{Condition, Key, Range, Store, Unavailable, Write, WriteError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Server;
use crate::body::Body;
use crate::respond;

pub const PATH: &str = "/atoll/snapshot";
/// Reports what a POST of the same body to [`PATH`] would destroy. A path of its own, so that an older server
/// does not mistake a preview for a restore.
pub const PREVIEW: &str = "/atoll/snapshot/preview";

/// Revisions beyond what a server can have written since the snapshot was taken: a generous rate and a
/// margin.
const REVISIONS_PER_SECOND: u64 = 100_000;
const MARGIN: u64 = 1_000_000;

/// In format 1, custom objects had the same keys as built-in ones. Such snapshots can still be read.
const FORMAT: u64 = 2;

const CHUNK_BYTES: usize = 256 << 10;

pub async fn handle<B>(server: &Arc<Server>, method: &Method, body: B) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match *method {
        Method::GET => save(server).await,
        Method::POST => restore(server, body).await,
        _ => Err(Status::method_not_supported_generic()),
    }
}

async fn save(server: &Arc<Server>) -> Result<Response<Body>, Status> {
    let page = server.registry.store.range(Range::all(), None, 0).await;
    let page =
        page.map_err(|error| Status::service_unavailable(format!("the store cannot be read: {error:?}")))?;
    let (sender, receiver) = mpsc::channel(4);
    let taken = server.registry.clock.seconds();
    let store = server.registry.store.clone();
    tokio::spawn(async move {
        let head =
            json!({ "atoll": "snapshot", "format": FORMAT, "revision": page.revision, "taken": taken });
        let mut chunk = line(&head);
        let count = page.entries.len();
        for entry in page.entries {
            // Values are JSON already: they are copied, not parsed.
            chunk.extend_from_slice(b"{\"key\":");
            json::write_string(&entry.key, &mut chunk);
            match store.encrypt(&entry.key, &entry.value) {
                Ok(None) => {
                    chunk.extend_from_slice(b",\"value\":");
                    chunk.extend_from_slice(&entry.value);
                }
                Ok(Some(sealed)) => {
                    chunk.extend_from_slice(b",\"sealed\":\"");
                    chunk.extend_from_slice(STANDARD.encode(sealed).as_bytes());
                    chunk.push(b'"');
                }
                // The missing end tells the client that the snapshot is incomplete.
                Err(error) => {
                    tracing::error!(%error, "snapshot aborted: an object cannot be encrypted");
                    return;
                }
            }
            chunk.extend_from_slice(b"}\n");
            if chunk.len() >= CHUNK_BYTES
                && sender.send(Bytes::from(std::mem::take(&mut chunk))).await.is_err()
            {
                return;
            }
        }
        chunk.extend_from_slice(&line(&json!({ "end": count })));
        let _ = sender.send(Bytes::from(chunk)).await;
    });
    Ok(respond::with_type(StatusCode::OK, "application/x-ndjson", Body::Stream(receiver)))
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = json::to_vec(value);
    line.push(b'\n');
    line
}

/// Compares a snapshot with the stored objects.
pub async fn preview<B>(server: &Arc<Server>, method: &Method, body: B) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if *method != Method::POST {
        return Err(Status::method_not_supported_generic());
    }
    let store = &server.registry.store;
    let copy = read(store.as_ref(), body).await?.upgraded();
    Ok(respond::json(&preview::summary(&current(store.as_ref()).await?, &copy.entries)))
}

/// Returns all stored objects.
async fn current(store: &dyn Store) -> Result<BTreeMap<Key, Bytes>, Status> {
    let current = store.range(Range::all(), None, 0).await;
    let current = current
        .map_err(|error| Status::service_unavailable(format!("the store cannot be read: {error:?}")))?;
    Ok(current.entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

async fn restore<B>(server: &Arc<Server>, body: B) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let store = &server.registry.store;
    let mut copy = read(store.as_ref(), body).await?.upgraded();
    let revision = unseen_revision(&copy, server.registry.clock.seconds());
    let refused =
        |error: WriteError| Status::service_unavailable(format!("the snapshot was not restored: {error:?}"));
    store.raise(revision.max(server.registry.cache.revision() + 1)).await.map_err(refused)?;
    let clusters = pausing::count(&copy, "clusters");
    // The pause comes first, so that no controller acts on an old placement.
    if clusters > 0 {
        pausing::pause(server).await?;
    }
    let current = current(store.as_ref()).await?;
    for key in pausing::keys().into_iter().filter(|_| clusters > 0) {
        if let Some(value) = current.get(&key) {
            copy.entries.entry(key).or_insert_with(|| value.clone());
        }
    }
    let write = |key: &Key, value: Option<Bytes>| Write {
        key: key.clone(),
        expect: if value.is_none() { Condition::Present } else { Condition::Any },
        value,
        guards: Vec::new(),
        hint: None,
    };
    let changed = copy.entries.iter().filter(|(key, value)| current.get(*key) != Some(value));
    let changed: Vec<Write> = changed.map(|(key, value)| write(key, Some(value.clone()))).collect();
    let gone = current.keys().filter(|key| !copy.entries.contains_key(*key)).map(|key| write(key, None));
    let writes: Vec<Write> = changed.into_iter().chain(gone).collect();
    let count = writes.len();
    for chunk in writes.chunks(512) {
        // Concurrent writes share commits.
        let mut running = tokio::task::JoinSet::new();
        for write in chunk.iter().cloned() {
            let store = store.clone();
            running.spawn(async move { store.write(write).await });
        }
        while let Some(outcome) = running.join_next().await {
            match outcome {
                // Deleted by another writer in the meantime.
                Ok(Ok(_) | Err(WriteError::Unmet { .. })) => {}
                Ok(Err(error)) => return Err(refused(error)),
                Err(error) => return Err(Status::internal_error(error.to_string())),
            }
        }
    }
    let revision = server.registry.cache.revision();
    Ok(respond::json(&json!({
        "objects": copy.entries.len(),
        "changed": count,
        "revision": revision.to_string(),
        "clusters": clusters,
        "reports": pausing::count(&copy, "objectstatuses"),
    })))
}

/// Returns a revision that no client of the copied server can have seen by `now`. The file is not trusted:
/// the store refuses a revision that is too high.
fn unseen_revision(copy: &SnapshotFile, now: i64) -> u64 {
    let since = u64::try_from(now.saturating_sub(copy.taken)).unwrap_or(0);
    copy.revision.saturating_add(since.saturating_mul(REVISIONS_PER_SECOND)).saturating_add(MARGIN)
}

pub(crate) struct SnapshotFile {
    format: u64,
    revision: u64,
    taken: i64,
    pub(crate) entries: BTreeMap<Key, Bytes>,
}

impl SnapshotFile {
    /// Upgrades the keys to those of this version of Atoll.
    fn upgraded(mut self) -> SnapshotFile {
        if self.format < FORMAT {
            custom_keys::upgrade(&mut self.entries);
        }
        self
    }
}

/// Parses the complete snapshot before anything is changed.
pub(crate) async fn read<B>(store: &dyn Store, body: B) -> Result<SnapshotFile, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let invalid = |what: &str| Status::bad_request(format!("the snapshot is not valid: {what}"));
    let mut body = std::pin::pin!(body);
    let mut pending = BytesMut::new();
    let mut copy: Option<SnapshotFile> = None;
    let mut ended = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| invalid(&error.into().to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line = pending.split_to(end + 1).freeze();
            let value = json::parse(&line[..end]).map_err(|error| invalid(&error.to_string()))?.value;
            match &mut copy {
                None => {
                    copy = Some(head(&value).ok_or_else(|| {
                        invalid(
                            "its header is missing or of a format that this version of Atoll does not know",
                        )
                    })?)
                }
                Some(copy) => match (value["key"].as_str(), value["end"].as_u64()) {
                    (Some(key), _) => {
                        let key = Key::from(key);
                        let stored = match value.get("sealed") {
                            Some(sealed) => decrypt(store, &key, sealed)?,
                            None => encode(&value["value"]),
                        };
                        copy.entries.insert(key, stored);
                    }
                    (None, Some(count)) if count == copy.entries.len() as u64 => ended = true,
                    _ => {
                        return Err(invalid(
                            "a line is neither an object nor the end with the number of objects",
                        ));
                    }
                },
            }
        }
    }
    copy.filter(|_| ended).ok_or_else(|| invalid("its end is missing"))
}

fn head(value: &Value) -> Option<SnapshotFile> {
    let format = value["format"].as_u64()?;
    let known = value["atoll"] == "snapshot" && (1..=FORMAT).contains(&format);
    let (revision, taken) = (value["revision"].as_u64()?, value["taken"].as_i64()?);
    known.then(|| SnapshotFile { format, revision, taken, entries: BTreeMap::new() })
}

/// Decrypts a value, if the key is available.
fn decrypt(store: &dyn Store, key: &Key, sealed: &Value) -> Result<Bytes, Status> {
    let sealed = STANDARD.decode(sealed.as_str().unwrap_or_default());
    let sealed = sealed.map_err(|error| Status::bad_request(format!("{key} is not base64: {error}")))?;
    store.decrypt(key, &Bytes::from(sealed)).map_err(|problem| match problem {
        Unavailable::Failed(cause) => Status::bad_request(cause),
        other => Status::bad_request(other.to_string()),
    })
}

/// Returns the canonical encoding, or a tombstone.
fn encode(value: &Value) -> Bytes {
    match value {
        Value::Null => Bytes::from_static(atoll_watch::object::TOMBSTONE),
        value => Bytes::from(json::encode_object(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_beyond_any_that_a_client_has_seen() {
        let copy =
            |revision, taken| SnapshotFile { format: FORMAT, revision, taken, entries: BTreeMap::new() };
        assert_eq!(unseen_revision(&copy(7, 100), 100), 7 + MARGIN);
        assert_eq!(unseen_revision(&copy(7, 100), 110), 7 + 10 * REVISIONS_PER_SECOND + MARGIN);
        // A clock that was set back, and forged numbers.
        assert_eq!(unseen_revision(&copy(7, 110), 100), 7 + MARGIN);
        assert_eq!(unseen_revision(&copy(u64::MAX, i64::MIN), i64::MAX), u64::MAX);
    }
}
