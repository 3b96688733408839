//! One object as readers see it: its JSON, complete, and what selectors ask about.

use std::sync::{Arc, LazyLock};

use atoll_store::{Key, Memo, Revision};
use bytes::Bytes;

/// What is stored in place of an object of the shared layer that was deleted in one workspace.
pub const TOMBSTONE: &[u8] = b"null";

/// Annotation by which objects in lists across all workspaces say which one they are from.
pub const ORIGIN: &str = "atoll.dev/workspace-id";

/// How the metadata of every encoded object begins.
const OPENING: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";

/// Learns what must be known of a value without parsing it again at every read.
pub trait Decode: Send + Sync + 'static {
    /// `memo` is what the writer said of the value, if it was written by this process.
    fn facts(&self, key: &Key, value: &Bytes, memo: Option<&Memo>) -> Arc<Facts>;
}

/// Keeps something that follows from objects. It is told of every change before readers can see it, and of everything that is
/// there when the cache is opened.
pub trait Observer: Send + Sync + 'static {
    /// `value` is what is stored, a tombstone included; `None` if nothing is stored any longer.
    fn changed(&self, key: &Key, value: Option<&Bytes>);
}

/// What selectors ask about, extracted once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Selectable fields other than `metadata.name` and `metadata.namespace`, which the key knows.
    pub fields: Box<[(&'static str, Box<str>)]>,
}

#[derive(Debug)]
pub struct Object {
    pub key: Key,
    pub revision: Revision,
    /// Complete, `metadata.resourceVersion` included. Empty for a tombstone.
    pub json: Bytes,
    pub facts: Arc<Facts>,
}

static NO_FACTS: LazyLock<Arc<Facts>> = LazyLock::new(Arc::default);

impl Facts {
    /// Most objects have neither labels nor selectable fields: they share one.
    pub fn none() -> Arc<Facts> {
        NO_FACTS.clone()
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value)
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value)
    }
}

impl Object {
    /// `stored` is the canonical encoding, which has no resource version: it becomes `revision`.
    pub fn new(key: Key, revision: Revision, stored: &[u8], facts: Arc<Facts>) -> Self {
        let json = match stored {
            TOMBSTONE => Bytes::new(),
            stored => Bytes::from(atoll_meta::json::splice_resource_version(stored, revision)),
        };
        Object { key, revision, json, facts }
    }

    pub fn is_tombstone(&self) -> bool {
        self.json.is_empty()
    }

    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.key.rsplit('/').nth(1).unwrap_or_default()
    }

    pub fn workspace(&self) -> &str {
        self.key.rsplit('/').nth(2).unwrap_or_default()
    }

    /// The value of a selectable field; absent fields are empty, as selectors see them.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => self.name(),
            "metadata.namespace" => self.namespace(),
            other => self.facts.field(other).unwrap_or_default(),
        }
    }

    /// The JSON for a reader of all workspaces: an annotation says which one this is from.
    pub fn json_with_origin(&self) -> Bytes {
        with_origin(&self.json, self.workspace())
    }

    /// The JSON with another resource version: what a DELETED event shows is the last state of the object
    /// at the revision of its deletion.
    pub fn json_at(&self, revision: Revision) -> Bytes {
        let start = atoll_meta::json::prefix_len(&self.json) + OPENING.len();
        let digits = self.json[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut json = Vec::with_capacity(self.json.len() + 20);
        json.extend_from_slice(&self.json[..start]);
        json.extend_from_slice(revision.to_string().as_bytes());
        json.extend_from_slice(&self.json[start + digits..]);
        Bytes::from(json)
    }
}

/// Adds the workspace to the annotations of a canonical encoding that has its resource version.
pub(crate) fn with_origin(json: &[u8], workspace: &str) -> Bytes {
    const ANNOTATIONS: &[u8] = b"\"annotations\":{";
    let opening = atoll_meta::json::prefix_len(json) + OPENING.len();
    let digits = json[opening..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    // Behind the closing quote; then either the rest of the metadata or, in the canonical order, the annotations.
    let behind = opening + digits + 1;
    let (head, tail) = json.split_at(behind);
    let own = format!("\"{ORIGIN}\":\"{workspace}\"");
    let mut out = Vec::with_capacity(json.len() + own.len() + 32);
    out.extend_from_slice(head);
    out.push(b',');
    out.extend_from_slice(ANNOTATIONS);
    out.extend_from_slice(own.as_bytes());
    match tail.strip_prefix(b",").and_then(|rest| rest.strip_prefix(ANNOTATIONS)) {
        Some(rest) => {
            out.push(b',');
            out.extend_from_slice(rest);
        }
        None => {
            out.push(b'}');
            out.extend_from_slice(tail);
        }
    }
    Bytes::from(out)
}
