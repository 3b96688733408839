//! One of the two servers, and its responses.

use std::collections::HashMap;
use std::io::Read;

use atoll_testkit::wait::Waiting;
use atoll_testkit::{ApiResponse, Client, RequestContent, Watch};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use crate::script::{Case, CaseStep, ReadUntil, Request, RetryUntil, expand};
use crate::{mask, message};

/// Headers that clients act on.
const HEADERS: [&str; 12] = [
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "location",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "x-content-type-options",
    // The values differ by nature; only their presence is compared.
    "audit-id",
    "etag",
];

pub struct Side {
    client: Client,
    kept: Vec<(String, String)>,
    watches: HashMap<String, Watch>,
}

/// A response in a form that can be compared with the other server's.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedResponse {
    pub status: u16,
    pub headers: Value,
    pub body: Value,
}

impl Side {
    pub fn new(client: Client) -> Side {
        Side { client, kept: Vec::new(), watches: HashMap::new() }
    }

    /// Runs one case.
    pub async fn run(&mut self, case: &Case) -> Result<ObservedResponse, String> {
        match &case.step {
            CaseStep::Request(request) => {
                let waiting = Waiting::until("the response meets the condition of @until");
                let mut answer = self.send(request).await?;
                while case.retry_until.as_ref().is_some_and(|retry_until| !is_satisfied(retry_until, &answer))
                {
                    waiting.again().await;
                    answer = self.send(request).await?;
                }
                self.keep(case, &answer.json_or_null())?;
                Ok(self.observe(&answer))
            }
            CaseStep::Open { watch, path } => {
                let path = self.expand(path)?;
                let opened = Watch::begin(&self.client, &path).await.map_err(|error| error.to_string())?;
                let response = ObservedResponse {
                    status: opened.status(),
                    headers: headers(opened.headers()),
                    body: Value::Null,
                };
                self.watches.insert(watch.clone(), opened);
                Ok(response)
            }
            CaseStep::Read { watch, until } => {
                let events = self.read(watch, *until).await?;
                self.keep(case, &events)?;
                let mut body = events;
                mask::apply(&mut body, &self.kept);
                Ok(ObservedResponse { status: 200, headers: Value::Null, body })
            }
        }
    }

    async fn send(&self, request: &Request) -> Result<ApiResponse, String> {
        let (path, body) = (self.expand(&request.path)?, self.expand(&request.body)?);
        let body = if request.hexadecimal { from_hexadecimal(&body) } else { Bytes::from(body) };
        let method = request.method.parse().unwrap_or_else(|error| panic!("{request:?}: {error}"));
        let mut client = if request.anonymous { self.client.anonymous() } else { self.client.clone() };
        for (name, value) in &request.headers {
            client = client.with_header(name, self.expand(value)?);
        }
        client
            .try_request(method, &path, RequestContent::Bytes(body))
            .await
            .map_err(|error| error.to_string())
    }

    async fn read(&mut self, watch: &str, until: ReadUntil) -> Result<Value, String> {
        let opened = self.watches.get_mut(watch).ok_or_else(|| format!("watch {watch} is not open"))?;
        let mut events = Vec::new();
        while until != ReadUntil::Events(events.len()) {
            match opened.next_line().await? {
                Some(event) if is_late_bookmark(&event) => {}
                Some(event) => events.push(event),
                None => {
                    events.push(json!("the end"));
                    break;
                }
            }
        }
        Ok(Value::Array(events))
    }

    fn keep(&mut self, case: &Case, body: &Value) -> Result<(), String> {
        for (variable, pointer) in &case.keep {
            let value = match body.pointer(pointer) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => return Err(format!("@keep: no value at {pointer} in {body}")),
            };
            self.kept.push((variable.clone(), value));
        }
        Ok(())
    }

    fn expand(&self, text: &str) -> Result<String, String> {
        let kept =
            |name: &str| self.kept.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        expand(text, kept)
    }

    fn observe(&self, answer: &ApiResponse) -> ObservedResponse {
        let media = answer.header("content-type").unwrap_or_default();
        let text = match answer.header("content-encoding") {
            Some("gzip") => gunzip(&answer.body),
            _ => answer.text(),
        };
        let or_problem =
            |decoded: Result<Value, String>| Some(decoded.unwrap_or_else(|problem| json!(problem)));
        let (form, parameters) = media.split_once(';').unwrap_or((media, ""));
        let mut body = match (form, parameters) {
            ("application/yaml", _) => serde_saphyr::from_str(&text).ok(),
            (message::MEDIA, "stream=watch") => or_problem(message::events(&answer.body)),
            (message::MEDIA, _) => or_problem(message::object(&answer.body)),
            _ => None,
        };
        // Several lines of JSON are the events of a watch that was read to its end.
        let events = || text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>().ok();
        body = body.or_else(|| serde_json::from_str(&text).ok());
        body = body.or_else(|| events().map(without_late_bookmarks));
        let mut body = match body {
            _ if text.is_empty() => Value::Null,
            Some(body) => body,
            None => json!(text),
        };
        mask::apply(&mut body, &self.kept);
        let mut headers = headers(&answer.headers);
        mask::apply(&mut headers, &self.kept);
        if media == "application/json" && !text.is_empty() {
            headers["layout"] = json!(layout(&text));
        }
        ObservedResponse { status: answer.status, headers, body }
    }
}

fn is_satisfied(retry_until: &RetryUntil, answer: &ApiResponse) -> bool {
    match retry_until {
        RetryUntil::Status(code) => answer.status == *code,
        RetryUntil::Present(pointer) => answer.json_or_null().pointer(pointer).is_some(),
        RetryUntil::Value(pointer, value) => match answer.json_or_null().pointer(pointer) {
            Some(Value::String(found)) => found == value,
            Some(found) => value.parse::<Value>().is_ok_and(|value| value == *found),
            None => value == "null",
        },
    }
}

fn headers(all: &HeaderMap) -> Value {
    let mut kept = serde_json::Map::new();
    for name in HEADERS {
        let values: Vec<String> = all
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        if values.is_empty() {
            continue;
        }
        let shown = if matches!(name, "etag" | "audit-id") { json!("<present>") } else { json!(values) };
        kept.insert(name.to_string(), shown);
    }
    Value::Object(kept)
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    match flate2::read::GzDecoder::new(bytes).read_to_string(&mut text) {
        Ok(_) => text,
        Err(error) => format!("invalid gzip: {error}"),
    }
}

/// Returns the layout of JSON text, which parsing does not show.
fn layout(text: &str) -> &'static str {
    match (text.contains("\n  "), text.ends_with('\n')) {
        (true, true) => "indented, with a line break at the end",
        (true, false) => "indented",
        (false, true) => "on one line",
        (false, false) => "on one line, without a line break at the end",
    }
}

fn from_hexadecimal(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| {
            char::from(byte).to_digit(16).unwrap_or_else(|| panic!("{text:?} is not hexadecimal")) as u8
        })
        .collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |value, digit| value << 4 | digit)).collect()
}

/// Whether an event is a periodic bookmark, which depends on timing. The bookmark after the initial events is
/// kept.
fn is_late_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
        && event.pointer("/object/metadata/annotations").is_none()
        && event.pointer("/object/rows").is_none()
}

/// Removes periodic bookmarks from the events of a watch that has ended.
fn without_late_bookmarks(mut events: Vec<Value>) -> Value {
    events.retain(|event| !is_late_bookmark(event));
    match events.len() {
        1 => events.remove(0),
        _ => Value::Array(events),
    }
}
