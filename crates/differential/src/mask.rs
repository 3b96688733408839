//! What two servers can never agree on, made comparable without losing what can be compared: the third uid that a
//! server shows becomes `uid 3`, so an object that kept its uid is told from one that got a new one.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Lengths of the parts of a uid.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// What one server has shown so far.
#[derive(Default)]
pub struct Masks {
    uids: Vec<String>,
    revisions: Vec<String>,
}

impl Masks {
    /// `kept` are the values that later requests use; in messages their names stand for them.
    pub fn apply(&mut self, value: &mut Value, kept: &HashMap<String, String>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item, kept)),
            Value::Object(fields) => {
                let is_list = fields.contains_key("items");
                let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
                if is_bookmark && let Some(revision) = fields["object"]["metadata"].get_mut("resourceVersion")
                {
                    *revision = json!("<revision>");
                }
                if let Some(metadata) = fields.get_mut("metadata") {
                    self.metadata(metadata, is_list);
                }
                for (name, field) in fields.iter_mut() {
                    match (name.as_str(), &field) {
                        ("message", Value::String(text)) => *field = json!(self.message(text, kept)),
                        _ => self.apply(field, kept),
                    }
                }
            }
            Value::String(text) => *text = self.uids(text),
            _ => {}
        }
    }

    fn metadata(&mut self, metadata: &mut Value, is_list: bool) {
        let Some(fields) = metadata.as_object_mut() else { return };
        fields.remove("managedFields");
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
            // A list's revision may be anything that is recent; an object's changes only with it.
            *revision = match is_list {
                true => json!("<revision>"),
                false => json!(format!("revision {}", ordinal(&mut self.revisions, text))),
            };
        }
        if let Some(token) = fields.get("continue").and_then(Value::as_str).and_then(continue_token) {
            fields.insert("continue".into(), token);
        }
        let generated = fields.get("generateName").and_then(Value::as_str).unwrap_or_default();
        let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
        let stem = name.get(..name.len().saturating_sub(5)).unwrap_or_default();
        if !stem.is_empty() && generated.starts_with(stem) {
            let shown = format!("{stem}<generated>");
            fields.insert("name".into(), shown.into());
        }
    }

    /// Uids wherever they stand in a text.
    fn uids(&mut self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut masked = String::new();
        let mut copied = 0;
        let mut position = 0;
        while position + 36 <= bytes.len() {
            if is_uuid(&bytes[position..position + 36]) {
                let uid = &text[position..position + 36];
                masked.push_str(&text[copied..position]);
                masked.push_str(&format!("<uid {}>", ordinal(&mut self.uids, uid)));
                position += 36;
                copied = position;
            } else {
                position += 1;
            }
        }
        masked.push_str(&text[copied..]);
        masked
    }

    fn message(&mut self, text: &str, kept: &HashMap<String, String>) -> String {
        let mut text = self.uids(text);
        for marker in ["current: ", "too old resource version: 1 ("] {
            if let Some((before, behind)) = text.split_once(marker) {
                let rest = behind.trim_start_matches(|letter: char| letter.is_ascii_digit());
                text = format!("{before}{marker}<revision>{rest}");
            }
        }
        let mut names: Vec<_> = kept.iter().filter(|(_, value)| !value.is_empty()).collect();
        names.sort();
        for (name, value) in names {
            text = replace_word(&text, value, &format!("${{{name}}}"));
        }
        text
    }
}

/// Which of the texts seen so far this is, counted from 1.
fn ordinal(seen: &mut Vec<String>, text: &str) -> usize {
    let position = seen.iter().position(|own| own == text).unwrap_or_else(|| {
        seen.push(text.to_string());
        seen.len() - 1
    });
    position + 1
}

/// `text` with `word` replaced where no letter or digit is next to it.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let joined = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    let mut replaced = String::new();
    let mut copied = 0;
    for (start, _) in text.match_indices(word) {
        let end = start + word.len();
        if joined(text[..start].chars().next_back()) || joined(text[end..].chars().next()) {
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

/// Times that clients send in cases are of other years.
fn is_about_now(time: &str) -> bool {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let year = 1970 + since.as_secs() / 31_556_952;
    time.ends_with('Z') && time.get(..4).is_some_and(|text| text.parse() == Ok(year))
}

/// What a continue token says, without its revision.
fn continue_token(text: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    let mut token: Value = serde_json::from_slice(&bytes).ok()?;
    if token["rv"].as_i64().is_some_and(|revision| revision > 0) {
        token["rv"] = json!("<revision>");
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_the_same_is_seen_to() {
        let (one, two) = ("0a6bd6a5-9e0c-4fd5-9d1c-1f3a0f3a5a01", "0a6bd6a5-9e0c-4fd5-9d1c-1f3a0f3a5a02");
        let mut masks = Masks::default();
        let mut value = json!([
            { "metadata": { "uid": one, "resourceVersion": "7", "managedFields": [] } },
            { "metadata": { "uid": two, "resourceVersion": "9" } },
            { "metadata": { "uid": one, "resourceVersion": "9" } },
            { "message": format!("not {two}, 9 or 99; current: 12") },
        ]);
        masks.apply(&mut value, &HashMap::from([("nine".into(), "9".into())]));
        let expected = json!([
            { "metadata": { "uid": "<uid 1>", "resourceVersion": "revision 1" } },
            { "metadata": { "uid": "<uid 2>", "resourceVersion": "revision 2" } },
            { "metadata": { "uid": "<uid 1>", "resourceVersion": "revision 2" } },
            { "message": "not <uid 2>, ${nine} or 99; current: <revision>" },
        ]);
        assert_eq!(value, expected);
    }

    #[test]
    fn what_a_client_chose_is_left() {
        let mut masks = Masks::default();
        let chosen = json!({
            "metadata": { "name": "a", "generateName": "b-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z" },
        });
        let mut value = chosen.clone();
        masks.apply(&mut value, &HashMap::new());
        assert_eq!(value, chosen);
        let mut generated = json!({ "metadata": { "name": "b-x7k2p", "generateName": "b-" } });
        masks.apply(&mut generated, &HashMap::new());
        assert_eq!(generated["metadata"]["name"], "b-<generated>");
    }
}
