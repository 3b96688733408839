//! A watch: a stream of JSON lines, one event per line.

use atoll_meta::{Status, json};
use serde_json::Value;

use crate::Lines;
use crate::memory_limits::{self, Charge};

#[derive(Clone, Debug)]
pub enum WatchEvent {
    Added(Value),
    Modified(Value),
    Deleted(Value),
    Bookmark(Value),
    /// The watch has ended with this Status.
    Error(Status),
}

impl WatchEvent {
    /// Parses a line of a watch.
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
    /// Charge for the last event.
    charge: Charge,
}

impl Watch {
    pub(crate) fn new(lines: Lines) -> Self {
        let charge = lines.charge();
        Watch { lines, charge }
    }

    /// Returns the next event; `None` when the server ends the watch, the connection breaks or the budget is
    /// exceeded. An oversized event of an untrusted server is skipped and recorded in the budget, because a
    /// restarted watch would hit the same event again.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            let line = self.lines.next().await?;
            let size = if self.charge.is_limited() { memory_limits::parsed_size(&line) } else { 0 };
            if size > memory_limits::MAX_PARSED {
                let limit = memory_limits::MAX_PARSED >> 20;
                self.charge.note_too_large(&format!(
                    "an event of a watch would take more than {limit} MiB of memory"
                ));
                continue;
            }
            self.charge.set(size).ok()?;
            return WatchEvent::parse(&line);
        }
    }
}
