//! A watch as a client reads it: lines of JSON, each an event.

use atoll_meta::{Status, json};
use bytes::BytesMut;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::ResponseBody;

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
    body: ResponseBody,
    pending: BytesMut,
}

impl Watch {
    pub(crate) fn new(body: ResponseBody) -> Self {
        Watch { body, pending: BytesMut::new() }
    }

    /// The next event; `None` when the server has ended the watch or the connection broke.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line = self.pending.split_to(end + 1);
                return WatchEvent::parse(&line[..end]);
            }
            let data = self.body.frame().await?.ok()?.into_data();
            if let Ok(data) = data {
                self.pending.extend_from_slice(&data);
            }
        }
    }
}
