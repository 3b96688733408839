//! Facts about stored objects, read from their metadata without parsing the rest, and in turns of their tenants: an agent
//! can report and ask about large objects as often as it likes.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_meta::{json, object};
use atoll_registry::{Burst, Registry, run_in_place};
use atoll_store::{Key, Revision};
use atoll_watch::Object;
use serde_json::Value;

/// Facts that are read of an object.
#[derive(Debug, Default, PartialEq)]
pub struct ObjectFacts {
    pub uid: String,
    pub placement: Placement,
    pub is_being_deleted: bool,
}

impl ObjectFacts {
    /// Returns `None` if the JSON is invalid.
    fn of(object: &Object) -> Option<ObjectFacts> {
        let found = metadata(object, &["annotations", "deletionTimestamp", "uid"])?;
        Some(ObjectFacts {
            uid: object::uid(&found).to_owned(),
            placement: Placement::of(&found),
            is_being_deleted: object::is_being_deleted(&found),
        })
    }
}

/// Whether a stored object is being deleted.
pub fn is_being_deleted(object: &Object) -> bool {
    metadata(object, &["deletionTimestamp"]).is_some_and(|found| object::is_being_deleted(&found))
}

/// Returns the placement of a stored object. Returns `None` if the JSON is invalid.
pub fn placement(stored: &[u8]) -> Option<Placement> {
    Some(Placement::of(&metadata_of(stored, &["annotations"])?))
}

/// Returns an object with its kind, version, uid and annotations.
pub fn head(object: &Object) -> Option<Value> {
    let stored = object.json_cow();
    let Some(mut metadata) = json::metadata_fields(&stored, &["annotations", "uid"]) else {
        return Some(json::parse(&stored).ok()?.value);
    };
    let mut start = stored[..json::prefix_len(&stored) - 1].to_vec();
    start.push(b'}');
    let mut head = json::parse(&start).ok()?.value;
    head["metadata"] = metadata["metadata"].take();
    Some(head)
}

/// Returns an object with at least these fields of the metadata.
fn metadata(object: &Object, fields: &[&str]) -> Option<Value> {
    metadata_of(&object.json_cow(), fields)
}

fn metadata_of(stored: &[u8], fields: &[&str]) -> Option<Value> {
    json::metadata_fields(stored, fields).or_else(|| Some(json::parse(stored).ok()?.value))
}

/// Reads the facts of objects for one request of an agent.
pub struct FactsReader<'a> {
    registry: &'a Registry,
    burst: Burst,
    known: KnownFacts,
}

impl<'a> FactsReader<'a> {
    pub fn new(registry: &'a Registry) -> FactsReader<'a> {
        FactsReader { registry, burst: Burst::default(), known: KnownFacts::default() }
    }

    /// Returns the facts of the current revision of an object, which are read once.
    pub async fn read(&mut self, key: &Key) -> Option<Arc<ObjectFacts>> {
        let object = self.registry.snapshot().get(key)?;
        if let Some(known) = self.known.get(&object) {
            return known;
        }
        let _turn = self.burst.begin(self.registry, workspace(key), object.size()).await;
        run_in_place(object.size(), || self.known.read(&object, ObjectFacts::of))
    }

    /// Parses an object. Returns `None` if there is none.
    pub async fn parse(&mut self, key: &Key) -> Option<Value> {
        let object = self.registry.snapshot().get(key)?;
        let _turn = self.burst.begin(self.registry, workspace(key), object.size()).await;
        run_in_place(object.size(), || super::parse(&object.json()).ok())
    }
}

fn workspace(key: &Key) -> &str {
    key.parts().map_or("", |parts| parts.workspace)
}

/// Facts that were read, with the revision of the object.
#[derive(Default)]
struct KnownFacts(HashMap<Key, (Revision, Option<Arc<ObjectFacts>>)>);

impl KnownFacts {
    /// Returns the facts of an object if they were read before.
    fn get(&self, object: &Object) -> Option<Option<Arc<ObjectFacts>>> {
        let (revision, facts) = self.0.get(&object.key)?;
        (*revision == object.revision).then(|| facts.clone())
    }

    /// Returns the facts of an object, which `read` returns if they are not known.
    fn read(
        &mut self,
        object: &Object,
        read: impl FnOnce(&Object) -> Option<ObjectFacts>,
    ) -> Option<Arc<ObjectFacts>> {
        if let Some(known) = self.get(object) {
            return known;
        }
        let facts = read(object).map(Arc::new);
        self.0.insert(object.key.clone(), (object.revision, facts.clone()));
        facts
    }
}

#[cfg(test)]
mod tests {
    use atoll_fleet::marks;
    use atoll_watch::Facts;
    use serde_json::json;

    use super::*;

    fn object(name: &str, revision: Revision, metadata: Value, data: &str) -> Object {
        let encoded = json::encode_object(&json!({
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": { "key": data },
        }));
        Object::new(Key::object("", "configmaps", "w", "n", name), revision, &encoded, Facts::none())
    }

    #[test]
    fn facts_are_those_of_the_metadata() {
        let placement = r#"{"clusters":[{"name":"east","uid":"c"}]}"#;
        let metadata = json!({
            "name": "a", "uid": "u", "annotations": { marks::PLACEMENT: placement },
            "deletionTimestamp": "2026-11-19T20:00:00Z",
        });
        let deleted = object("a", 1, metadata, "x");
        let facts = ObjectFacts::of(&deleted).unwrap();
        assert_eq!((facts.uid.as_str(), facts.is_being_deleted), ("u", true));
        assert!(facts.placement.share("east").is_some());
        assert!(is_being_deleted(&deleted));
        let plain = object("a", 2, json!({ "name": "a", "uid": "v" }), "deletionTimestamp");
        let facts = ObjectFacts { uid: "v".into(), ..ObjectFacts::default() };
        assert_eq!(ObjectFacts::of(&plain), Some(facts));
        assert!(!is_being_deleted(&plain));
    }

    #[test]
    fn heads_leave_out_the_rest() {
        let metadata = json!({ "name": "a", "uid": "u", "annotations": { "a": "b" } });
        let found = head(&object("a", 1, metadata, "x")).unwrap();
        let expected = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "uid": "u", "annotations": { "a": "b" } },
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn each_revision_is_read_once() {
        let mut known = KnownFacts::default();
        let mut reads = 0;
        let (old, new) =
            (object("a", 1, json!({ "uid": "u" }), ""), object("a", 2, json!({ "uid": "v" }), ""));
        let other = object("b", 1, json!({ "uid": "w" }), "");
        for (object, uid) in
            [(&old, "u"), (&old, "u"), (&other, "w"), (&new, "v"), (&other, "w"), (&new, "v")]
        {
            let facts = known.read(object, |object| {
                reads += 1;
                ObjectFacts::of(object)
            });
            assert_eq!(facts.unwrap().uid, uid);
        }
        assert_eq!(reads, 3);
    }
}
