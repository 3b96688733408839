//! One object as readers see it: its JSON, complete, and what selectors ask about.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
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
    /// `value` is what is stored, a tombstone included; `None` if nothing is stored any longer. Readers see it from
    /// `revision` on.
    fn changed(&self, key: &Key, value: Option<&Bytes>, revision: Revision);

    /// The same change once more, with what is in memory before it and after it. Both may be tombstones.
    fn replaced(&self, _before: Option<&Object>, _after: Option<&Object>) {}
}

/// What selectors ask about, extracted once.
#[derive(Debug, Default)]
pub struct Facts {
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Selectable fields other than `metadata.name` and `metadata.namespace`, which the key knows.
    pub fields: Box<[(&'static str, Box<str>)]>,
    /// What must be known of objects whose kind the program was not built with, and of what defines such kinds.
    pub further: Option<Box<Further>>,
}

/// What is known of some objects only.
#[derive(Default)]
pub struct Further {
    /// Selectable fields that a definition names.
    pub named: Box<[(Arc<str>, Box<str>)]>,
    /// Texts that stand in the JSON of this object and of others like it, each behind a name, in this order.
    pub shared: Box<[Bytes]>,
    /// What was made of the object, so that using it takes no second look.
    pub made: Option<Arc<dyn Any + Send + Sync>>,
    /// The form, by a number that whoever knows of forms gives it, in which the object is as it stands; 0 if unknown.
    pub form: AtomicU64,
    /// The object in the last other form that somebody wanted it in.
    pub other: ArcSwapOption<(u64, Arc<Object>)>,
}

impl fmt::Debug for Further {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Further")
            .field("named", &self.named)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Object {
    pub key: Key,
    pub revision: Revision,
    /// Complete, `metadata.resourceVersion` included. Empty for a tombstone.
    json: Json,
    pub facts: Arc<Facts>,
}

/// The JSON of an object.
#[derive(Debug)]
enum Json {
    Whole(Bytes),
    /// Long parts of it stand in other objects as well, and are held once for all of them.
    Parts {
        own: Box<[u8]>,
        /// Each with where in `own` it belongs.
        shared: Box<[(usize, Bytes)]>,
    },
}

/// Shorter parts are not worth the trouble of sharing them.
pub const SHARED_FROM: usize = 1024;

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
        let own = self.fields.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value);
        own.or_else(|| {
            let named = &self.further.as_ref()?.named;
            named.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value)
        })
    }
}

impl Object {
    /// `stored` is the canonical encoding, which has no resource version: it becomes `revision`.
    pub fn new(key: Key, revision: Revision, stored: &[u8], facts: Arc<Facts>) -> Self {
        let json = match stored {
            TOMBSTONE => Bytes::new(),
            stored => Bytes::from(atoll_meta::json::splice_resource_version(stored, revision)),
        };
        Object::complete(key, revision, json, facts)
    }

    /// `json` is complete.
    pub fn complete(key: Key, revision: Revision, json: Bytes, facts: Arc<Facts>) -> Self {
        let json = match &facts.further {
            Some(further) => Json::without(json, &further.shared),
            None => Json::Whole(json),
        };
        Object { key, revision, json, facts }
    }

    /// Complete, `metadata.resourceVersion` included. Empty for a tombstone.
    pub fn json(&self) -> Bytes {
        match &self.json {
            Json::Whole(json) => json.clone(),
            Json::Parts { own, shared } => Bytes::from(join(own, shared, self.size())),
        }
    }

    /// The same, to be looked at.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        match &self.json {
            Json::Whole(json) => Cow::Borrowed(json),
            Json::Parts { own, shared } => Cow::Owned(join(own, shared, self.size())),
        }
    }

    /// The same, as the parts that it is held in.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
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

    /// How long the JSON is.
    pub fn size(&self) -> usize {
        match &self.json {
            Json::Whole(json) => json.len(),
            Json::Parts { own, shared } => {
                own.len() + shared.iter().map(|(_, text)| text.len()).sum::<usize>()
            }
        }
    }

    /// How many bytes of the JSON are this object's own.
    pub fn own_size(&self) -> usize {
        match &self.json {
            Json::Whole(json) => json.len(),
            Json::Parts { own, .. } => own.len(),
        }
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
        with_origin(&self.json(), self.workspace())
    }

    /// The JSON with another resource version: what a DELETED event shows is the last state of the object
    /// at the revision of its deletion.
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
    /// Takes the texts out that are `shared`, wherever one stands behind a name.
    fn without(json: Bytes, shared: &[Bytes]) -> Self {
        let (mut own, mut taken, mut start) = (Vec::new(), Vec::new(), 0);
        for text in shared.iter().filter(|text| text.len() >= SHARED_FROM) {
            let rest = &json[start..];
            let names = rest.windows(2).enumerate().filter(|(_, pair)| *pair == b"\":");
            let Some(position) = names.map(|(at, _)| at + 2).find(|at| rest[*at..].starts_with(text)) else {
                continue;
            };
            own.extend_from_slice(&rest[..position]);
            taken.push((own.len(), text.clone()));
            start += position + text.len();
        }
        if taken.is_empty() {
            return Json::Whole(json);
        }
        own.extend_from_slice(&json[start..]);
        Json::Parts { own: own.into(), shared: taken.into() }
    }
}

/// The whole, with what is shared where it belongs.
fn join(own: &[u8], shared: &[(usize, Bytes)], size: usize) -> Vec<u8> {
    let mut whole = Vec::with_capacity(size);
    let mut start = 0;
    for (position, text) in shared {
        whole.extend_from_slice(&own[start..*position]);
        whole.extend_from_slice(text);
        start = *position;
    }
    whole.extend_from_slice(&own[start..]);
    whole
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
            // What people have taken all annotations from has an empty map of them.
            if !rest.starts_with(b"}") {
                out.push(b',');
            }
            out.extend_from_slice(rest);
        }
        None => {
            out.push(b'}');
            out.extend_from_slice(tail);
        }
    }
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_is_from_is_among_its_annotations() {
        for (annotations, expected) in [
            ("", r#"{"atoll.dev/workspace-id":"w"}"#),
            (r#""annotations":{},"#, r#"{"atoll.dev/workspace-id":"w"}"#),
            (r#""annotations":{"a":"b"},"#, r#"{"a":"b","atoll.dev/workspace-id":"w"}"#),
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
    fn what_is_shared_is_held_once() {
        let texts = ["x", "y"].map(|letter| format!("{{\"text\":\"{}\"}}", letter.repeat(2 * SHARED_FROM)));
        let [first, second] = &texts;
        let absent = "z".repeat(2 * SHARED_FROM);
        // What is shared, and what of it stands in the object.
        let cases: [(&[&str], usize); 5] =
            [(&[first, second], 2), (&[first], 1), (&[second], 1), (&[&absent, second], 1), (&[&absent], 0)];
        for (shared, found) in cases {
            let stored = format!(
                r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"a","note":{first}}},"spec":{second},"status":{{}}}}"#
            );
            let shared = shared.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
            let further = Further { shared, ..Further::default() };
            let facts = Facts { further: Some(Box::new(further)), ..Facts::default() };
            let key = Key::object("g", "things", "w", "", "a");
            let object = Object::new(key, 7, stored.as_bytes(), Arc::new(facts));
            let whole = atoll_meta::json::splice_resource_version(stored.as_bytes(), 7);
            assert_eq!(object.json(), whole);
            assert_eq!(*object.whole(), *whole);
            assert_eq!(object.slices().collect::<Vec<_>>().concat(), *whole);
            assert_eq!(object.size(), whole.len());
            assert_eq!(object.own_size(), whole.len() - found * first.len());
            assert_eq!(object.json_at(7), whole);
        }
    }
}
