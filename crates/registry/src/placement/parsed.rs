//! Placed objects in parsed form, for a short time: the sync views of all clusters of an object read it after each
//! write, and so does the next write. The views also share its shape.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atoll_fleet::shape;
use atoll_store::{Key, Revision};
use atoll_watch::Object;
use serde_json::Value;

/// Largest JSON of an object that is kept. Larger ones are rare, and parsing one blocks other readers.
const LARGEST: usize = 64 << 10;
/// JSON of all objects that are kept. The parsed form takes about ten times as much.
const MOST_BYTES: usize = 4 << 20;

/// Parsed objects, each at the latest revision that a view has read.
#[derive(Default)]
pub struct ParsedObjects {
    state: Mutex<ParsedState>,
}

#[derive(Default)]
struct ParsedState {
    objects: HashMap<Key, ParsedObject>,
    /// Additions, oldest first, with the size of their JSON.
    order: VecDeque<(Key, Revision, usize)>,
    /// The JSON of everything in `order`.
    bytes: usize,
}

struct ParsedObject {
    revision: Revision,
    forms: Arc<Forms>,
}

/// The forms of an object. Each is filled by its first reader; others wait for it.
#[derive(Default)]
struct Forms {
    /// `None` if the JSON is invalid.
    value: OnceLock<Option<Arc<Value>>>,
    /// The shape without the numbers of a share.
    shape: OnceLock<Value>,
}

impl ParsedObjects {
    /// Returns an object in parsed form, and keeps it for other readers. Returns `None` if its JSON is invalid.
    pub fn parse(&self, object: &Object) -> Option<Arc<Value>> {
        let parse = || atoll_meta::json::parse(&object.json()).ok().map(|parsed| Arc::new(parsed.value));
        match self.forms(object) {
            Some(forms) => forms.value.get_or_init(parse).clone(),
            None => parse(),
        }
    }

    /// Returns the shape of a parsed object without the numbers of a share.
    pub fn undivided_shape(&self, key: &Key, value: &Arc<Value>) -> Value {
        let is_same = |known: &&ParsedObject| {
            let parsed = known.forms.value.get().and_then(Option::as_ref);
            parsed.is_some_and(|parsed| Arc::ptr_eq(parsed, value))
        };
        let forms = self.state().objects.get(key).filter(is_same).map(|known| known.forms.clone());
        match forms {
            Some(forms) => forms.shape.get_or_init(|| shape::undivided(value)).clone(),
            None => shape::undivided(value),
        }
    }

    /// Returns an object in parsed form, if a view has parsed it lately.
    pub fn get(&self, object: &Object) -> Option<Arc<Value>> {
        let state = self.state();
        let known = state.objects.get(&object.key).filter(|known| known.revision == object.revision)?;
        known.forms.value.get().cloned().flatten()
    }

    /// Forgets everything. What is read often is parsed again.
    pub fn clear(&self) {
        *self.state() = ParsedState::default();
    }

    /// The forms of an object that is worth keeping.
    fn forms(&self, object: &Object) -> Option<Arc<Forms>> {
        let size = object.size();
        if size > LARGEST {
            return None;
        }
        let mut state = self.state();
        match state.objects.get(&object.key) {
            Some(known) if known.revision == object.revision => return Some(known.forms.clone()),
            // A slow reader does not replace what others read.
            Some(known) if known.revision > object.revision => return None,
            _ => {}
        }
        let forms = Arc::default();
        let parsed = ParsedObject { revision: object.revision, forms: Arc::clone(&forms) };
        state.objects.insert(object.key.clone(), parsed);
        state.order.push_back((object.key.clone(), object.revision, size));
        state.bytes += size;
        while state.bytes > MOST_BYTES {
            let Some((key, revision, size)) = state.order.pop_front() else { break };
            state.bytes -= size;
            if state.objects.get(&key).is_some_and(|known| known.revision == revision) {
                state.objects.remove(&key);
            }
        }
        Some(forms)
    }

    fn state(&self) -> MutexGuard<'_, ParsedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use atoll_watch::Facts;

    use super::*;

    fn object(name: &str, revision: Revision, text: &str) -> Object {
        let json = format!(
            r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"{name}"}},"data":{{"text":"{text}"}}}}"#
        );
        Object::new(Key::object("", "things", "w", "n", name), revision, json.as_bytes(), Facts::none())
    }

    #[test]
    fn readers_share_the_latest_revision() {
        let parsed = ParsedObjects::default();
        let (old, new) = (object("a", 1, "old"), object("a", 2, "new"));
        assert!(parsed.get(&old).is_none());
        let first = parsed.parse(&old).unwrap();
        assert_eq!(
            (first["data"]["text"].as_str(), &first["metadata"]["resourceVersion"]),
            (Some("old"), &"1".into())
        );
        assert!(Arc::ptr_eq(&first, &parsed.parse(&old).unwrap()));
        assert!(Arc::ptr_eq(&first, &parsed.get(&old).unwrap()));
        assert!(parsed.get(&new).is_none());
        let second = parsed.parse(&new).unwrap();
        assert_eq!(second["data"]["text"], "new");
        assert!(parsed.get(&old).is_none());
        assert_eq!(parsed.parse(&old).unwrap()["data"]["text"], "old");
        assert!(Arc::ptr_eq(&second, &parsed.get(&new).unwrap()), "a slow reader replaces nothing");
        parsed.clear();
        assert!(parsed.get(&new).is_none());
    }

    #[test]
    fn shapes_are_those_of_the_parsed_revision() {
        let parsed = ParsedObjects::default();
        let (old, new) = (object("a", 1, "old"), object("a", 2, "new"));
        let first = parsed.parse(&old).unwrap();
        for _ in 0..2 {
            assert_eq!(parsed.undivided_shape(&old.key, &first)["data"]["text"], "old");
        }
        let second = parsed.parse(&new).unwrap();
        for (value, text) in [(&second, "new"), (&first, "old"), (&second, "new")] {
            assert_eq!(parsed.undivided_shape(&new.key, value)["data"]["text"], text);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let parsed = ParsedObjects::default();
        let text = "x".repeat(LARGEST / 2);
        let objects: Vec<Object> = (0..500).map(|number| object(&format!("o{number}"), 1, &text)).collect();
        assert!(objects.iter().all(|object| parsed.parse(object).is_some()));
        let kept = objects.iter().filter(|object| parsed.get(object).is_some()).count();
        assert!(kept > 100 && kept * objects[0].size() <= MOST_BYTES, "{kept}");
        assert!(parsed.get(&objects[499]).is_some() && parsed.get(&objects[0]).is_none());
        let large = object("large", 1, &"x".repeat(LARGEST + 1));
        assert!(parsed.parse(&large).is_some() && parsed.get(&large).is_none());
        // The same object again and again.
        for revision in 2..2000 {
            parsed.parse(&object("o499", revision, &text));
        }
        let state = parsed.state();
        assert!(state.bytes <= MOST_BYTES && state.objects.len() == 1 && state.order.len() < 1000);
    }
}
