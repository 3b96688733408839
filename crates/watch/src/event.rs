//! A change of an object, and its encodings.

use std::sync::{Arc, OnceLock};

use atoll_store::{Key, Revision};
use bytes::Bytes;

use crate::inherited::Reach;
use crate::object::{Object, with_origin};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

/// A change. Its objects have no compiled definitions, because the history keeps them after they have been
/// replaced; the current snapshot has them.
#[derive(Debug)]
pub struct Event {
    pub key: Key,
    pub revision: Revision,
    pub previous: Option<Arc<Object>>,
    pub object: Option<Arc<Object>>,
    pub(crate) reach: Reach,
    /// The JSON frame for each event type: a watcher with a selector may see an addition where another
    /// watcher sees a change. Each frame is encoded once for all watchers.
    frames: [OnceLock<Bytes>; 3],
    /// Frames in other encodings, allocated when a watcher first needs one.
    others: OnceLock<Box<[[OnceLock<Bytes>; 3]; Encoding::COUNT]>>,
}

/// Encodings of an event besides JSON. The server defines them; the event caches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    /// Metadata only, as JSON.
    Metadata,
    MetadataProtobuf,
}

impl Encoding {
    const COUNT: usize = 3;
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

impl Event {
    pub fn new(
        key: Key,
        revision: Revision,
        previous: Option<Arc<Object>>,
        object: Option<Arc<Object>>,
    ) -> Self {
        let [previous, object] = [previous, object].map(|object| object.map(|object| object.to_past()));
        let reach = Reach::Stored;
        Event { key, revision, previous, object, reach, frames: Default::default(), others: OnceLock::new() }
    }

    /// A change that is seen in other workspaces than the one of the key, or not everywhere.
    pub(crate) fn reaching(self, reach: Reach) -> Self {
        Event { reach, ..self }
    }

    /// The event type for a watcher whose selector is `matches`: `None` if neither state matches, an addition
    /// or deletion when the object enters or leaves the selection.
    pub fn type_for(&self, matches: impl Fn(&Arc<Object>) -> bool) -> Option<EventType> {
        let was = self.previous.as_ref().is_some_and(&matches);
        let is = self.object.as_ref().is_some_and(&matches);
        match (was, is) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }

    /// The object that an event of this type shows: the previous or the current state.
    pub fn subject(&self, event_type: EventType) -> Option<&Arc<Object>> {
        match event_type {
            EventType::Deleted => self.previous.as_ref(),
            _ => self.object.as_ref(),
        }
    }

    /// The JSON of the object that an event of this type shows, with the event's resource version.
    pub fn object_json(&self, event_type: EventType) -> Option<Bytes> {
        match event_type {
            EventType::Deleted => self.previous.as_ref().map(|object| object.json_at(self.revision)),
            _ => self.object.as_ref().map(|object| object.json()),
        }
    }

    /// The frame in another encoding, which `make` builds from the object's JSON.
    pub fn frame_as(
        &self,
        encoding: Encoding,
        event_type: EventType,
        make: impl FnOnce(&[u8]) -> Bytes,
    ) -> Bytes {
        let frames = &self.others.get_or_init(Box::default)[encoding as usize];
        let make = || make(&self.object_json(event_type).unwrap_or_default());
        frames[event_type as usize].get_or_init(make).clone()
    }

    /// The JSON that the event shows to a reader of all workspaces.
    pub fn object_json_with_origin(&self, event_type: EventType) -> Bytes {
        let workspace = self.key.parts().map_or("", |parts| parts.workspace);
        with_origin(&self.object_json(event_type).unwrap_or_default(), workspace)
    }

    /// The line that a JSON watch across all workspaces sends.
    pub fn frame_with_origin(&self, event_type: EventType) -> Bytes {
        frame(event_type.as_str(), &self.object_json_with_origin(event_type))
    }

    /// The line that a JSON watch sends.
    pub fn frame(&self, event_type: EventType) -> Bytes {
        let make = || frame(event_type.as_str(), &self.object_json(event_type).unwrap_or_default());
        self.frames[event_type as usize].get_or_init(make).clone()
    }

    /// Memory that this event uses after the object has been replaced, without the parts that it shares.
    pub(crate) fn weight(&self) -> usize {
        const OVERHEAD: usize = 256;
        OVERHEAD + self.kept().map_or(0, |object| object.own_size())
    }

    /// The parts of the JSON that other events may share.
    pub(crate) fn shared_parts(&self) -> impl Iterator<Item = &Bytes> {
        self.kept().into_iter().flat_map(|object| object.shared_parts())
    }

    /// The object whose memory is attributed to this event.
    fn kept(&self) -> Option<&Arc<Object>> {
        self.object.as_ref().or(self.previous.as_ref())
    }
}

/// The bytes after the object in a line of a JSON watch.
pub const CLOSING: &[u8] = b"}\n";

/// Returns the text before the object in a line of a JSON watch.
pub fn opening(event_type: EventType) -> String {
    format!("{{\"type\":\"{}\",\"object\":", event_type.as_str())
}

/// One line of a JSON watch.
pub fn frame(event_type: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + event_type.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event_type.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(CLOSING);
    Bytes::from(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Facts;

    #[test]
    fn each_encoding_is_made_once() {
        let key = Key::object("", "things", "root", "n", "a");
        let stored = br#"{"kind":"K","apiVersion":"v1","metadata":{"name":"a"}}"#;
        let object = Arc::new(Object::new(key.clone(), 7, stored, Facts::none()));
        let event = Event::new(key, 9, Some(object), None);
        let mut made = Vec::new();
        for encoding in [Encoding::Protobuf, Encoding::Metadata, Encoding::Protobuf, Encoding::Metadata] {
            let frame = event.frame_as(encoding, EventType::Deleted, |json| {
                // A deletion shows the revision of the deletion.
                assert!(json.windows(21).any(|part| part == br#""resourceVersion":"9""#));
                made.push(encoding);
                Bytes::from(format!("{encoding:?}"))
            });
            assert_eq!(frame, format!("{encoding:?}"));
        }
        assert_eq!(made, [Encoding::Protobuf, Encoding::Metadata]);
    }
}
