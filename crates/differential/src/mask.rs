//! Masks values that always differ between two servers.
//!
//! Current times and tokens are replaced by constants. Uids, revisions and generated names become `⟨uid …⟩`
//! and so on, with their value: two such values are equal if they consistently correspond to each other. This
//! distinguishes an object that kept its uid from one that got a new uid.

use std::time::{SystemTime, UNIX_EPOCH};

use atoll_meta::time::date_of;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

/// Lengths of the parts of a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// Marks a value of which only the identity is compared.
pub fn marked(kind: &str, value: &str) -> String {
    format!("⟨{kind} {value}⟩")
}

/// Masks `value` in place. `kept` holds the variables of the script; messages that contain one of their
/// values get the variable's name instead.
pub fn apply(value: &mut Value, kept: &[(String, String)]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| apply(item, kept)),
        Value::Object(fields) => {
            let is_list =
                fields.contains_key("items") || fields.get("kind").is_some_and(|kind| kind == "Table");
            let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
            if is_bookmark {
                for path in ["/metadata/resourceVersion", "/rows/0/object/metadata/resourceVersion"] {
                    if let Some(revision) = fields["object"].pointer_mut(path) {
                        *revision = json!("<revision>");
                    }
                }
            }
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                self::metadata(metadata, is_list);
            }
            // Descriptions of columns differ on purpose; no client shows them.
            if fields.contains_key("priority") && fields.contains_key("format") {
                fields.remove("description");
            }
            for (name, field) in fields.iter_mut() {
                match (name.as_str(), &field) {
                    ("cells", Value::Array(_)) => cells(field),
                    ("causes", Value::Array(_)) => {
                        causes(field);
                        apply(field, kept);
                    }
                    ("message", Value::String(text)) => *field = json!(message(text, kept)),
                    _ => apply(field, kept),
                }
            }
        }
        // Many statuses contain the current time.
        Value::String(text) if text.len() == 20 && is_about_now(text) => *text = "<now>".to_string(),
        Value::String(text) => *text = uids(text),
        _ => {}
    }
}

/// Sorts the causes of an apply conflict, because their order is random upstream.
fn causes(causes: &mut Value) {
    let Some(causes) = causes.as_array_mut() else { return };
    if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
        causes.sort_by_key(|cause| [cause["message"].to_string(), cause["field"].to_string()]);
    }
}

/// Whether a text is an age of at most a few minutes in kubectl's format.
fn is_recent(text: &str) -> bool {
    let is_count = |number: &str| number.parse::<u8>().is_ok();
    let (minutes, seconds) =
        text.split_once('m').map_or((None, text), |(minutes, rest)| (Some(minutes), rest));
    minutes.is_none_or(is_count)
        && (minutes.is_some() && seconds.is_empty() || seconds.strip_suffix('s').is_some_and(is_count))
}

/// Masks short ages and current times in the cells of a table.
fn cells(cells: &mut Value) {
    for cell in cells.as_array_mut().into_iter().flatten() {
        let Some(text) = cell.as_str() else { continue };
        if is_recent(text) {
            *cell = json!("<seconds>");
        } else if is_about_now(text) {
            *cell = json!("<now>");
        }
    }
}

fn metadata(fields: &mut Map<String, Value>, is_list: bool) {
    if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
        managed_fields(entries);
    }
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = fields.get_mut(name)
            && time.as_str().is_some_and(is_about_now)
        {
            *time = json!("<now>");
        }
    }
    if let Some(revision) = fields.get_mut("resourceVersion")
        && let Some(text) =
            revision.as_str().filter(|text| text.parse::<u64>().is_ok_and(|number| number > 0))
    {
        // A list's revision may be any recent one; an object's revision changes only with the object.
        *revision = if is_list { json!("<revision>") } else { json!(marked("revision", text)) };
    }
    if let Some(token) = fields.get("continue").and_then(Value::as_str).and_then(continue_token) {
        fields.insert("continue".into(), token);
    }
    let generated = fields.get("generateName").and_then(Value::as_str).unwrap_or_default();
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    let (stem, random) = name.split_at_checked(name.len().saturating_sub(5)).unwrap_or_default();
    if !stem.is_empty() && generated.starts_with(stem) {
        let (name, shown) = (name.to_string(), format!("{stem}{}", marked("generated", random)));
        // A Namespace has its name in a label, too.
        for label in
            fields.get_mut("labels").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
        {
            if *label == name {
                *label = shown.clone().into();
            }
        }
        fields.insert("name".into(), shown.into());
    }
}

/// Masks times, and sorts entries, because their order depends on times.
fn managed_fields(entries: &mut Vec<Value>) {
    // Upstream's flow control writes to every FlowSchema at some point, so the managers depend on timing.
    let is_contended = |entry: &Value| entry["apiVersion"] == "flowcontrol.apiserver.k8s.io/v1";
    if entries.iter().any(is_contended) {
        entries.clear();
    }
    for entry in entries.iter_mut() {
        if let Some(time) = entry.get_mut("time")
            && time.as_str().is_some_and(is_about_now)
        {
            *time = json!("<now>");
        }
    }
    let key = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_string();
        [text("operation"), text("manager"), text("apiVersion"), text("subresource")]
    };
    entries.sort_by_key(key);
}

/// Marks UUIDs in a text.
fn uids(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = String::new();
    let (mut copied, mut position) = (0, 0);
    while position + 36 <= bytes.len() {
        if is_uuid(&bytes[position..position + 36]) {
            masked.push_str(&text[copied..position]);
            masked.push_str(&marked("uid", &text[position..position + 36]));
            position += 36;
            copied = position;
        } else {
            position += 1;
        }
    }
    masked.push_str(&text[copied..]);
    token_volumes(masked)
}

/// Marks the generated part of the names of token volumes.
fn token_volumes(text: String) -> String {
    const STEM: &str = "kube-api-access-";
    let mut parts = text.split(STEM);
    let mut masked = parts.next().unwrap_or_default().to_string();
    for part in parts {
        masked.push_str(STEM);
        match part.split_at_checked(5) {
            Some((random, rest)) if random.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                masked.push_str(&marked("generated", random));
                masked.push_str(rest);
            }
            _ => masked.push_str(part),
        }
    }
    masked
}

fn message(text: &str, kept: &[(String, String)]) -> String {
    let mut text = uids(&patched(text));
    for marker in ["current: ", "too old resource version: 1 (", "ResourceVersion in record ("] {
        if let Some((before, behind)) = text.split_once(marker) {
            let rest = behind.trim_start_matches(|letter: char| letter.is_ascii_digit());
            text = format!("{before}{marker}<revision>{rest}");
        }
    }
    // A revision may equal a status code at the beginning of a message.
    let is_code = |value: &str| text.starts_with(&format!("{value}: "));
    let kept: Vec<_> = kept.iter().filter(|(_, value)| !value.is_empty() && !is_code(value)).collect();
    for (name, value) in kept {
        text = replace_word(&text, value, &format!("${{{name}}}"));
    }
    text
}

/// Masks an object that is quoted in the error message of an invalid patch.
fn patched(text: &str) -> String {
    let shown = text.find("Invalid value: \"{").and_then(|start| {
        let quoted = &text[start + "Invalid value: ".len()..];
        let mut strings = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
        let inner: Value = serde_json::from_str(&strings.next()?.ok()?).ok()?;
        Some((start, strings.byte_offset(), quoted, inner))
    });
    let Some((start, length, quoted, mut inner)) = shown else { return text.to_string() };
    apply(&mut inner, &[]);
    format!("{}Invalid value: {inner}{}", &text[..start], &quoted[length..])
}

/// Replaces `word` in `text`, unless a letter or digit is next to it or it is the value of a field: the
/// revisions of a new server may equal ports and counts in cases.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let joined = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    let is_value = |before: &str| before.ends_with([':', '=']) || before.ends_with("Invalid value: ");
    let mut replaced = String::new();
    let mut copied = 0;
    for (start, _) in text.match_indices(word) {
        let end = start + word.len();
        let before = &text[..start];
        if is_value(before) || joined(before.chars().next_back()) || joined(text[end..].chars().next()) {
            continue;
        }
        replaced.push_str(&text[copied..start]);
        replaced.push_str(by);
        copied = end;
    }
    replaced + &text[copied..]
}

fn is_uuid(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|byte| *byte == b'-');
    let fits = UUID.iter().all(|length| {
        parts.next().is_some_and(|part| part.len() == *length && part.iter().all(u8::is_ascii_hexdigit))
    });
    fits && parts.next().is_none()
}

/// Whether a time is in the current year. Times in the requests of cases are in other years. Accepts the
/// previous day's year as well, because the year may change during a run.
fn is_about_now(time: &str) -> bool {
    let year = time.get(..4).and_then(|text| text.parse::<i64>().ok());
    let is_of = |day: i64| year == Some(date_of(day).0);
    time.ends_with('Z') && (is_of(today()) || is_of(today() - 1))
}

/// Returns the current day in days since 1970.
fn today() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() / 86_400).cast_signed()
}

/// Decodes a continue token and masks its revision.
fn continue_token(text: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    let mut token: Value = serde_json::from_slice(&bytes).ok()?;
    // Upstream's cache writes a leading slash, its store does not, and either may respond.
    if let Some(start) = token["start"].as_str() {
        token["start"] = json!(start.trim_start_matches('/'));
    }
    if token["rv"].as_i64().is_some_and(|revision| revision > 0) {
        token["rv"] = json!("<revision>");
    }
    // Atoll's addition, which avoids recounting the remaining items; `remainingItemCount` is compared.
    token.as_object_mut()?.remove("rest");
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_values_are_masked() {
        let uid = "0a6bd6a5-9e0c-4fd5-9d1c-1f3a0f3a5a01";
        let now = format!("{}-01-01T00:00:00Z", date_of(today()).0);
        let entry =
            |manager: &str, time: &str| json!({ "manager": manager, "operation": "Update", "time": time });
        let managed = json!([entry("b", &now), entry("a", "2001-01-01T00:00:00Z")]);
        let mut value = json!([
            { "metadata": { "uid": uid, "resourceVersion": "7", "managedFields": managed } },
            { "metadata": { "resourceVersion": "7" }, "items": [{ "metadata": { "resourceVersion": "6" } }] },
            { "metadata": { "name": "b-x7k2p", "generateName": "b-" } },
            { "name": "kube-api-access-x7k2p" },
            { "message": format!("not {uid}, 9 or 99; current: 12") },
            { "cells": ["12s", "3y12d", "s", 7, "2m", "3m5s", "m"] },
            { "name": "Age", "format": "", "priority": 0, "description": "words" },
        ]);
        apply(&mut value, &[("nine".into(), "9".into())]);
        let expected = json!([
            { "metadata": { "uid": marked("uid", uid), "resourceVersion": "⟨revision 7⟩",
                "managedFields": [entry("a", "2001-01-01T00:00:00Z"), entry("b", "<now>")] } },
            { "metadata": { "resourceVersion": "<revision>" }, "items": [{ "metadata": { "resourceVersion": "⟨revision 6⟩" } }] },
            { "metadata": { "name": "b-⟨generated x7k2p⟩", "generateName": "b-" } },
            { "name": "kube-api-access-⟨generated x7k2p⟩" },
            { "message": format!("not {}, ${{nine}} or 99; current: <revision>", marked("uid", uid)) },
            { "cells": ["<seconds>", "3y12d", "s", 7, "<seconds>", "<seconds>", "m"] },
            { "name": "Age", "format": "", "priority": 0 },
        ]);
        assert_eq!(value, expected);
    }

    #[test]
    fn values_chosen_by_clients_are_not_masked() {
        let chosen = json!({
            "metadata": { "name": "a", "generateName": "b-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z" },
        });
        let mut value = chosen.clone();
        apply(&mut value, &[]);
        assert_eq!(value, chosen);
    }
}
