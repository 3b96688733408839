//! Encoding of watch events. Encodings that are the same for all watchers are kept with the event.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_meta::Status;
use atoll_registry::Row;
use atoll_watch::event::frame as json_frame;
use atoll_watch::{Encoding, Event, EventType, Object};
use bytes::Bytes;

use crate::inflight::{NoRoom, OutputMemory};
use crate::negotiate::{Form, Media, Meta, Output};
use crate::respond::{metadata, protobuf, table};

pub struct Frames {
    /// Set for a row whose objects are stored as those of another row.
    view: Option<Row>,
    protobuf: bool,
    form: Form,
    /// Whether objects contain their workspace.
    origin: bool,
    /// Whether the columns of a table were sent, which happens once.
    columns_sent: AtomicBool,
    skew: i64,
}

impl Frames {
    pub fn new(row: &Row, output: Output, origin: bool) -> Self {
        let protobuf = output.media == Media::Protobuf;
        let view = row.may_convert().then(|| row.clone());
        let Output { form, skew, .. } = output;
        Frames { view, protobuf, form, origin, columns_sent: AtomicBool::new(false), skew }
    }

    /// Encodes an event for this watch, in at most `most` bytes if it is a table. Only tables may be much
    /// longer than their objects.
    pub fn event(&self, event: &Event, seen: EventType, most: usize) -> Result<Bytes, NoRoom> {
        let name = seen.as_str();
        if self.origin {
            return self.stored(name, event.object_json_with_origin(seen), most);
        }
        if let Some(row) = &self.view
            && let Some(subject) = event.subject(seen)
            && !row.is_in_served_form(subject)
        {
            let shown = row.to_served(subject.clone());
            let json = if seen == EventType::Deleted { shown.json_at(event.revision) } else { shown.json() };
            return self.object(name, &json, most);
        }
        let encoding = match (self.form, self.protobuf) {
            (Form::Whole, false) => return Ok(event.frame(seen)),
            (Form::Whole, true) => Encoding::Protobuf,
            (Form::Metadata(Meta::V1), false) => Encoding::Metadata,
            (Form::Metadata(Meta::V1), true) => Encoding::MetadataProtobuf,
            // Tables contain ages, which change, and the other forms are rare.
            _ => return self.object(name, &event.object_json(seen).unwrap_or_default(), most),
        };
        Ok(event.frame_as(encoding, seen, |json| self.untabled(name, json)))
    }

    /// Encodes an initial event, in at most `most` bytes if it is a table.
    pub fn initial(&self, object: &Arc<Object>, most: usize) -> Result<Bytes, NoRoom> {
        let name = EventType::Added.as_str();
        match &self.view {
            _ if self.origin => self.stored(name, object.json_with_origin(), most),
            Some(row) => self.object(name, &row.to_served(object.clone()).json(), most),
            None => self.object(name, &object.json_cow(), most),
        }
    }

    /// Returns the JSON of an existing object with at least `size` bytes if this watch shows it as it is.
    pub fn initial_json(&self, object: &Arc<Object>, size: usize) -> Option<Bytes> {
        if !self.shows_json() || object.size() < size {
            return None;
        }
        Some(match &self.view {
            Some(row) => row.to_served(object.clone()).json(),
            None => object.json(),
        })
    }

    /// Returns the JSON of an event's object with at least `size` bytes if this watch shows it as it is.
    pub fn event_json(&self, event: &Event, seen: EventType, size: usize) -> Option<Bytes> {
        let subject = event.subject(seen).filter(|subject| self.shows_json() && subject.size() >= size)?;
        // A deletion shows another resource version.
        (seen != EventType::Deleted).then_some(())?;
        let is_served = self.view.as_ref().is_none_or(|row| row.is_in_served_form(subject));
        is_served.then(|| subject.json())
    }

    /// Whether this watch shows the JSON of objects without changes.
    fn shows_json(&self) -> bool {
        self.form == Form::Whole && !self.protobuf && !self.origin
    }

    fn stored(&self, event_type: &str, json: Bytes, most: usize) -> Result<Bytes, NoRoom> {
        match &self.view {
            Some(row) => self.object(event_type, &row.served_json(json), most),
            None => self.object(event_type, &json, most),
        }
    }

    /// Encodes an event of any type from an object's JSON.
    pub fn object(&self, event_type: &str, json: &[u8], most: usize) -> Result<Bytes, NoRoom> {
        let Form::Table(version, include) = self.form else { return Ok(self.untabled(event_type, json)) };
        let custom = self.view.as_ref().and_then(|row| row.custom.as_deref());
        let first = !self.columns_sent.load(Ordering::Relaxed);
        let mut memory = OutputMemory::fixed(most);
        let table = table::of_object(json, custom, version, include, first, self.skew, &mut memory)?;
        // An event that is too long is encoded again, with its columns.
        self.columns_sent.store(true, Ordering::Relaxed);
        Ok(self.frame(event_type, &table))
    }

    fn untabled(&self, event_type: &str, json: &[u8]) -> Bytes {
        match self.form {
            Form::Whole | Form::Table(..) => self.frame(event_type, json),
            // As upstream, a request for a list is not an error here.
            Form::Metadata(version) | Form::MetadataList(version) => {
                self.frame(event_type, &metadata::of(json, version))
            }
        }
    }

    /// Encodes an error, which ends a watch.
    pub fn status(&self, status: &Status) -> Bytes {
        self.frame("ERROR", &status.to_json())
    }

    fn frame(&self, event_type: &str, json: &[u8]) -> Bytes {
        match self.protobuf {
            true => protobuf::frame(event_type, json),
            false => json_frame(event_type, json),
        }
    }
}
