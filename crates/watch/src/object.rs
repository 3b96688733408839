//! One object as readers see it: its complete JSON, and the facts that selectors use.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use atoll_meta::LabelSet;
use atoll_meta::json::{string_end, unescape};
use atoll_store::{Key, Revision, WriteHint};
use bytes::Bytes;

/// Stored value that hides a bootstrap object which was deleted in one workspace.
pub const TOMBSTONE: &[u8] = b"null";

/// Annotation with the workspace id of an object, in lists across all workspaces.
pub const ORIGIN: &str = "atoll.dev/workspace-id";

/// Start of the metadata of every encoded object.
const OPENING: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";

/// Extracts facts from a value, so that it need not be parsed at every read.
pub trait Decode: Send + Sync + 'static {
    /// `hint` is the writer's hint, if the value was written by this process.
    fn facts(&self, key: &Key, value: &Bytes, hint: Option<&WriteHint>) -> Arc<Facts>;

    /// Returns the facts of a value that has been replaced since. Only the history shows it, so nothing is
    /// compiled.
    fn past_facts(&self, key: &Key, value: &Bytes) -> Arc<Facts> {
        self.facts(key, value, None)
    }

    /// Returns what a stored object gives to its workspace and to those below it: the key in its workspace, which is
    /// of the resource that can be inherited, the canonical encoding and the facts.
    fn inherited(&self, _key: &Key, _value: &Bytes) -> Option<(Key, Bytes, Arc<Facts>)> {
        None
    }

    /// A workspace and all workspaces above it, nearest first. It never changes while the workspace exists.
    fn ancestry(&self, workspace: &str) -> Vec<String> {
        vec![workspace.to_string()]
    }
}

/// Maintains an index that is derived from objects. It is called for every change before readers can see the
/// change, and for every object when the cache is opened.
pub trait Observer: Send + Sync + 'static {
    /// `value` is the stored value, possibly a tombstone; `None` if the key was deleted. Readers see it from
    /// `revision` on.
    fn changed(&self, key: &Key, value: Option<&Bytes>, revision: Revision);

    /// Called after `changed` with the objects before and after the change. Both may be tombstones.
    fn replaced(&self, _before: Option<&Object>, _after: Option<&Object>) {}
}

/// The data that selectors use, extracted once.
#[derive(Debug, Default)]
pub struct Facts {
    /// Sorted by key, without duplicates.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Selectable fields other than `metadata.name` and `metadata.namespace`, which are part of the key.
    pub fields: Box<[(&'static str, Box<str>)]>,
    /// Additional facts of custom objects and of CustomResourceDefinitions.
    pub extra: Option<Box<ExtraFacts>>,
}

/// Additional facts of custom objects and of CustomResourceDefinitions.
#[derive(Default)]
pub struct ExtraFacts {
    /// Selectable fields of the CustomResourceDefinition.
    pub custom_fields: Box<[(Arc<str>, Box<str>)]>,
    /// Texts that occur in the JSON of this object and of other objects, each as the value of a field, in
    /// this order.
    pub shared: Box<[Bytes]>,
    /// The compiled CustomResourceDefinition. Only objects of snapshots have it, not those of events: it may
    /// be a thousand times as large as the JSON.
    pub compiled: Option<Arc<dyn Any + Send + Sync>>,
    /// Number of the form (version and schema) that the JSON already has; 0 if unknown. The registry assigns
    /// the numbers.
    pub form: AtomicU64,
    /// The object in the last other form that a reader requested.
    pub converted: ArcSwapOption<(u64, Arc<Object>)>,
}

impl fmt::Debug for ExtraFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraFacts")
            .field("custom_fields", &self.custom_fields)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Object {
    pub key: Key,
    pub revision: Revision,
    /// The complete JSON, including `metadata.resourceVersion`. Empty for a tombstone.
    json: Json,
    pub facts: Arc<Facts>,
}

/// The JSON of an object. Clones share it.
#[derive(Clone, Debug)]
enum Json {
    Whole(Bytes),
    /// Long parts that also occur in other objects are shared.
    Parts {
        own: Bytes,
        /// Each text with its position in `own`.
        shared: Arc<[(usize, Bytes)]>,
    },
}

/// Minimum length of a shared part.
pub const SHARED_FROM: usize = 1024;

/// Number of labels that are compared one by one.
const FEW_LABELS: usize = 8;

static NO_FACTS: LazyLock<Arc<Facts>> = LazyLock::new(Arc::default);

impl Facts {
    /// The facts of objects without labels and selectable fields, shared by all of them.
    pub fn none() -> Arc<Facts> {
        NO_FACTS.clone()
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        let found = match self.labels.len() {
            0..=FEW_LABELS => self.labels.iter().position(|(key, _)| **key == *name)?,
            _ => self.labels.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?,
        };
        Some(&self.labels[found].1)
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let own = self.fields.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value);
        own.or_else(|| {
            let custom_fields = &self.extra.as_ref()?.custom_fields;
            custom_fields.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value)
        })
    }
}

impl LabelSet for Facts {
    fn label(&self, key: &str) -> Option<&str> {
        Facts::label(self, key)
    }

    fn count(&self) -> usize {
        self.labels.len()
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl Object {
    /// Creates an object from its canonical encoding, which has no resource version: that becomes `revision`.
    pub fn new(key: Key, revision: Revision, stored: &[u8], facts: Arc<Facts>) -> Self {
        let json = match stored {
            TOMBSTONE => Bytes::new(),
            stored => Bytes::from(atoll_meta::json::splice_resource_version(stored, revision)),
        };
        Object::complete(key, revision, json, facts)
    }

    /// Creates an object from complete JSON, with its resource version.
    pub fn complete(key: Key, revision: Revision, json: Bytes, facts: Arc<Facts>) -> Self {
        let json = match &facts.extra {
            Some(extra) => Json::without(json, &extra.shared),
            None => Json::Whole(json),
        };
        Object { key, revision, json, facts }
    }

    /// Returns the object for the history: the same, but without a compiled definition.
    pub(crate) fn to_past(self: &Arc<Self>) -> Arc<Object> {
        let Some(extra) = self.facts.extra.as_ref().filter(|_| self.is_compiled()) else {
            return self.clone();
        };
        let extra = ExtraFacts {
            custom_fields: extra.custom_fields.clone(),
            shared: extra.shared.clone(),
            ..ExtraFacts::default()
        };
        let facts = Facts {
            labels: self.facts.labels.clone(),
            fields: self.facts.fields.clone(),
            extra: Some(Box::new(extra)),
        };
        Arc::new(Object {
            key: self.key.clone(),
            revision: self.revision,
            json: self.json.clone(),
            facts: Arc::new(facts),
        })
    }

    /// The object under another key.
    pub(crate) fn with_key(self: &Arc<Self>, key: &Key) -> Arc<Object> {
        if self.key == *key {
            return self.clone();
        }
        let (json, facts) = (self.json.clone(), self.facts.clone());
        Arc::new(Object { key: key.clone(), revision: self.revision, json, facts })
    }

    /// Whether the object has a compiled definition.
    pub(crate) fn is_compiled(&self) -> bool {
        self.facts.extra.as_ref().is_some_and(|extra| extra.compiled.is_some())
    }

    /// The complete JSON, including `metadata.resourceVersion`. Empty for a tombstone.
    pub fn json(&self) -> Bytes {
        match &self.json {
            Json::Whole(json) => json.clone(),
            Json::Parts { own, shared } => Bytes::from(join(own, shared, self.size())),
        }
    }

    /// The complete JSON, borrowed if it is contiguous.
    pub fn json_cow(&self) -> Cow<'_, [u8]> {
        match &self.json {
            Json::Whole(json) => Cow::Borrowed(json),
            Json::Parts { own, shared } => Cow::Owned(join(own, shared, self.size())),
        }
    }

    /// The complete JSON as a sequence of slices.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (own, shared): (&[u8], &[(usize, Bytes)]) = match &self.json {
            Json::Whole(json) => (json, &[]),
            Json::Parts { own, shared } => (own, shared),
        };
        let mut start = 0;
        let before = shared.iter().flat_map(move |(position, text)| {
            let slice = &own[start..*position];
            start = *position;
            [slice, &text[..]]
        });
        let last = shared.last().map_or(0, |(position, _)| *position);
        before.chain(std::iter::once(&own[last..]))
    }

    /// Length of the JSON in bytes.
    pub fn size(&self) -> usize {
        match &self.json {
            Json::Whole(json) => json.len(),
            Json::Parts { own, shared } => {
                own.len() + shared.iter().map(|(_, text)| text.len()).sum::<usize>()
            }
        }
    }

    /// Length of the JSON without shared parts.
    pub fn own_size(&self) -> usize {
        match &self.json {
            Json::Whole(json) => json.len(),
            Json::Parts { own, .. } => own.len(),
        }
    }

    /// The parts of the JSON that other objects may share.
    pub(crate) fn shared_parts(&self) -> impl Iterator<Item = &Bytes> {
        let shared: &[(usize, Bytes)] = match &self.json {
            Json::Whole(_) => &[],
            Json::Parts { shared, .. } => shared,
        };
        shared.iter().map(|(_, text)| text)
    }

    pub fn is_tombstone(&self) -> bool {
        self.size() == 0
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

    /// The value of a selectable field; absent fields are empty, as in selectors.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => self.name(),
            "metadata.namespace" => self.namespace(),
            other => self.facts.field(other).unwrap_or_default(),
        }
    }

    /// The JSON for a reader of all workspaces: an annotation contains the workspace id.
    pub fn json_with_origin(&self) -> Bytes {
        with_origin(&self.json(), self.workspace())
    }

    /// The JSON with another resource version: a DELETED event shows the last state of the object at the
    /// revision of its deletion.
    pub fn json_at(&self, revision: Revision) -> Bytes {
        let own = self.json();
        let start = atoll_meta::json::prefix_len(&own) + OPENING.len();
        let digits = own[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut json = Vec::with_capacity(own.len() + 20);
        json.extend_from_slice(&own[..start]);
        json.extend_from_slice(revision.to_string().as_bytes());
        json.extend_from_slice(&own[start + digits..]);
        Bytes::from(json)
    }
}

impl Json {
    /// Removes `shared` texts wherever one is the value of a field.
    fn without(json: Bytes, shared: &[Bytes]) -> Self {
        let (mut own, mut removed, mut start) = (Vec::new(), Vec::new(), 0);
        for text in shared.iter().filter(|text| text.len() >= SHARED_FROM) {
            let rest = &json[start..];
            let names = rest.windows(2).enumerate().filter(|(_, pair)| *pair == b"\":");
            let Some(position) = names.map(|(at, _)| at + 2).find(|at| rest[*at..].starts_with(text)) else {
                continue;
            };
            own.extend_from_slice(&rest[..position]);
            removed.push((own.len(), text.clone()));
            start += position + text.len();
        }
        if removed.is_empty() {
            return Json::Whole(json);
        }
        own.extend_from_slice(&json[start..]);
        Json::Parts { own: own.into_boxed_slice().into(), shared: removed.into() }
    }
}

/// Reassembles the JSON from its own and its shared parts.
fn join(own: &[u8], shared: &[(usize, Bytes)], size: usize) -> Vec<u8> {
    let mut complete = Vec::with_capacity(size);
    let mut start = 0;
    for (position, text) in shared {
        complete.extend_from_slice(&own[start..*position]);
        complete.extend_from_slice(text);
        start = *position;
    }
    complete.extend_from_slice(&own[start..]);
    complete
}

/// Adds the workspace id to the annotations of a canonical encoding with resource version.
pub(crate) fn with_origin(json: &[u8], workspace: &str) -> Bytes {
    const ANNOTATIONS: &[u8] = b"\"annotations\":{";
    let opening = atoll_meta::json::prefix_len(json) + OPENING.len();
    let digits = json[opening..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    // After the closing quote: either the rest of the metadata or, in the canonical order, the annotations.
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
            let end = extend_with_others(&mut out, rest);
            out.extend_from_slice(&rest[end..]);
        }
        None => {
            out.push(b'}');
            out.extend_from_slice(tail);
        }
    }
    Bytes::from(out)
}

/// Appends the entries of a map of strings, whose opening brace is already read, without an entry for the
/// workspace id: a user could have written one, and controllers act in the workspace that it names. Returns the
/// position of the closing brace.
fn extend_with_others(out: &mut Vec<u8>, entries: &[u8]) -> usize {
    let mut position = 0;
    // The canonical encoding has no white space, and the values of annotations are strings.
    while entries.get(position) == Some(&b'"') {
        let Some((key, value)) = string_end(entries, position + 1)
            .and_then(|key| Some((key, string_end(entries, key.quote + b"\":\"".len())?)))
        else {
            break;
        };
        let name = &entries[position + 1..key.quote];
        let is_origin = match key.escaped {
            true => unescape(name) == ORIGIN.as_bytes(),
            false => name == ORIGIN.as_bytes(),
        };
        if !is_origin {
            out.push(b',');
            out.extend_from_slice(&entries[position..=value.quote]);
        }
        position = value.quote + 1;
        if entries.get(position) == Some(&b',') {
            position += 1;
        }
    }
    if entries.get(position) != Some(&b'}') {
        out.push(b',');
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_id_is_added_to_the_annotations() {
        for (annotations, expected) in [
            ("", r#"{"atoll.dev/workspace-id":"w"}"#),
            (r#""annotations":{},"#, r#"{"atoll.dev/workspace-id":"w"}"#),
            (r#""annotations":{"a":"b"},"#, r#"{"a":"b","atoll.dev/workspace-id":"w"}"#),
            // A value that a user has written does not count.
            (r#""annotations":{"atoll.dev/workspace-id":"root"},"#, r#"{"atoll.dev/workspace-id":"w"}"#),
            (
                r#""annotations":{"a\"":"{\"atoll.dev/workspace-id\":\"x\"}","atoll.dev/workspace-id":"root","b":"\\"},"#,
                r#"{"a\"":"{\"atoll.dev/workspace-id\":\"x\"}","atoll.dev/workspace-id":"w","b":"\\"}"#,
            ),
            (
                r#""annotations":{"atoll.dev\u002fworkspace-id":"root","z":"y"},"#,
                r#"{"atoll.dev/workspace-id":"w","z":"y"}"#,
            ),
        ] {
            let stored = format!(
                r#"{{"kind":"K","apiVersion":"v1","metadata":{{{annotations}"name":"a"}},"spec":{{}}}}"#
            );
            let key = Key::object("g", "things", "w", "", "a");
            let object = Object::new(key, 7, stored.as_bytes(), Arc::new(Facts::default()));
            let shown = atoll_meta::json::parse(&object.json_with_origin()).unwrap().value;
            assert_eq!(shown["metadata"]["annotations"].to_string(), expected);
            assert_eq!(shown["metadata"]["name"], "a");
        }
    }

    #[test]
    fn shared_parts_are_stored_once() {
        let texts = ["x", "y"].map(|letter| format!("{{\"text\":\"{}\"}}", letter.repeat(2 * SHARED_FROM)));
        let [first, second] = &texts;
        let absent = "z".repeat(2 * SHARED_FROM);
        // Shared texts, and how many of them occur in the object.
        let cases: [(&[&str], usize); 5] =
            [(&[first, second], 2), (&[first], 1), (&[second], 1), (&[&absent, second], 1), (&[&absent], 0)];
        for (shared, found) in cases {
            let stored = format!(
                r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"a","note":{first}}},"spec":{second},"status":{{}}}}"#
            );
            let shared = shared.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
            let extra = ExtraFacts { shared, ..ExtraFacts::default() };
            let facts = Facts { extra: Some(Box::new(extra)), ..Facts::default() };
            let key = Key::object("g", "things", "w", "", "a");
            let object = Object::new(key, 7, stored.as_bytes(), Arc::new(facts));
            let complete = atoll_meta::json::splice_resource_version(stored.as_bytes(), 7);
            assert_eq!(object.json(), complete);
            assert_eq!(*object.json_cow(), *complete);
            assert_eq!(object.slices().collect::<Vec<_>>().concat(), *complete);
            assert_eq!(object.size(), complete.len());
            assert_eq!(object.own_size(), complete.len() - found * first.len());
            assert_eq!(object.json_at(7), complete);
        }
    }
}
