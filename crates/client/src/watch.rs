//! A watch as a client reads it: lines of JSON, each an event.

use atoll_meta::{Status, json};
use serde_json::Value;

use crate::Lines;

#[derive(Clone, Debug)]
pub enum WatchEvent {
    Added(Value),
    Modified(Value),
    Deleted(Value),
    Bookmark(Value),
    /// The watch is over; the Status says why.
    Error(Status),
}

impl WatchEvent {
    /// Reads a line of a watch.
    pub fn parse(line: &[u8]) -> Option<WatchEvent> {
        let mut value = json::parse(line).ok()?.value;
        let object = value.get_mut("object")?.take();
        match value["type"].as_str()? {
            "ADDED" => Some(WatchEvent::Added(object)),
            "MODIFIED" => Some(WatchEvent::Modified(object)),
            "DELETED" => Some(WatchEvent::Deleted(object)),
            "BOOKMARK" => Some(WatchEvent::Bookmark(object)),
            "ERROR" => Status::from_value(&object).map(WatchEvent::Error),
            _ => None,
        }
    }
}

pub struct Watch {
    lines: Lines,
}

impl Watch {
    pub(crate) fn new(lines: Lines) -> Self {
        Watch { lines }
    }

    /// The next event; `None` when the server has ended the watch or the connection broke.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        WatchEvent::parse(&self.lines.next().await?)
    }
}
