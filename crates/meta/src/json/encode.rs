//! The stored form of an object, from which responses are built without parsing.
//!
//! It starts with kind, apiVersion and metadata, and lacks the resourceVersion, which is only known after the
//! write: a response inserts it at a known offset, and an item of a list omits the prefix.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go

use serde_json::{Map, Value};

use super::order::field_order;
use super::scan::string_end;
use super::write::{write, write_integer, write_string};

const BEFORE_KIND: &[u8] = b"{\"kind\":";
const BEFORE_VERSION: &[u8] = b",\"apiVersion\":";
const METADATA: &[u8] = b"\"metadata\":{";

/// Order of the metadata. Annotations come first, where the server may insert some of its own in responses.
const METADATA_ORDER: [&str; 13] = [
    "annotations",
    "name",
    "generateName",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Encodes the stored form of an object: `{"kind":"K","apiVersion":"V","metadata":{…`, then the other fields
/// in the order of the map. `metadata.resourceVersion` is omitted.
pub fn encode_object(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    out.extend_from_slice(BEFORE_KIND);
    write_string(text("kind"), &mut out);
    out.extend_from_slice(BEFORE_VERSION);
    write_string(text("apiVersion"), &mut out);
    out.push(b',');
    out.extend_from_slice(METADATA);
    if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
        write_metadata(metadata, &mut out);
    }
    out.push(b'}');
    for (key, value) in object.as_object().into_iter().flatten() {
        if matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
            continue;
        }
        out.push(b',');
        write_string(key, &mut out);
        out.push(b':');
        write(value, &mut out);
    }
    out.push(b'}');
    out
}

fn write_metadata(metadata: &Map<String, Value>, out: &mut Vec<u8>) {
    let mut first = true;
    let mut member = |key: &str, value: &Value| {
        if !first {
            out.push(b',');
        }
        first = false;
        write_string(key, out);
        out.push(b':');
        match value {
            Value::Array(entries) if key == "managedFields" => write_managed_fields(entries, out),
            value => write(value, out),
        }
    };
    for key in METADATA_ORDER {
        if let Some(value) = metadata.get(key) {
            member(key, value);
        }
    }
    for (key, value) in metadata {
        if key != "resourceVersion" && !METADATA_ORDER.contains(&key.as_str()) {
            member(key, value);
        }
    }
}

/// Order of the members, as in upstream's struct.
const ENTRY_ORDER: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

fn write_managed_fields(entries: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.push(b'{');
        let members = ENTRY_ORDER.iter().filter_map(|name| entry.get(*name).map(|value| (*name, value)));
        for (index, (name, value)) in members.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            match value {
                Value::Object(fields) => write_fields(fields, out),
                value => write(value, out),
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

fn write_fields(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut first = true;
    let mut member = |name: &str, value: &Value| {
        if !first {
            out.push(b',');
        }
        first = false;
        write_string(name, out);
        out.push(b':');
        match value {
            Value::Object(fields) => write_fields(fields, out),
            value => write(value, out),
        }
    };
    match field_order(fields) {
        Some(ordered) => ordered.into_iter().for_each(|(name, value)| member(name, value)),
        None => fields.iter().for_each(|(name, value)| member(name, value)),
    }
    out.push(b'}');
}

/// Returns the offset of `"metadata":` in the output of [`encode_object`], so that `{` and the rest from
/// there are the object without kind and apiVersion. For other input this is 1, which omits nothing.
pub fn prefix_len(encoded: &[u8]) -> usize {
    metadata_start(encoded).unwrap_or(1)
}

fn metadata_start(encoded: &[u8]) -> Option<usize> {
    let after_kind = skip_string(encoded, BEFORE_KIND.len())?;
    let version = after_kind + BEFORE_VERSION.len();
    if !encoded.starts_with(BEFORE_KIND) || encoded.get(after_kind..version)? != BEFORE_VERSION {
        return None;
    }
    let start = skip_string(encoded, version)? + 1;
    (encoded.get(start..start + METADATA.len())? == METADATA).then_some(start)
}

/// Returns the metadata in the output of [`encode_object`].
pub fn metadata_of(encoded: &[u8]) -> Option<&[u8]> {
    let start = metadata_start(encoded)? + METADATA.len() - 1;
    Some(&encoded[start..skip_value(encoded, start)?])
}

/// Returns an object with some fields of the metadata in the output of [`encode_object`] and nothing else, without
/// parsing the rest. Returns `None` for other input.
pub fn metadata_fields(encoded: &[u8], names: &[&str]) -> Option<Value> {
    let mut metadata = Map::new();
    let mut position = metadata_start(encoded)? + METADATA.len();
    while *encoded.get(position)? != b'}' {
        let value = skip_string(encoded, position)? + 1;
        let end = skip_value(encoded, value)?;
        // The encoder does not escape letters, so a field has only one spelling.
        let name = encoded.get(position + 1..value - 2)?;
        if let Some(name) = names.iter().find(|known| known.as_bytes() == name) {
            metadata.insert((*name).to_string(), super::parse(&encoded[value..end]).ok()?.value);
        }
        position = if *encoded.get(end)? == b',' { end + 1 } else { end };
    }
    let mut object = Map::new();
    object.insert("metadata".to_string(), Value::Object(metadata));
    Some(Value::Object(object))
}

/// Returns the end of the value that starts at `start`, in text without white space.
fn skip_value(encoded: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0;
    let mut position = start;
    loop {
        match encoded.get(position)? {
            b'"' => {
                position = skip_string(encoded, position)?;
                if depth == 0 {
                    return Some(position);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(position),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            b',' if depth == 0 => return Some(position),
            _ => {}
        }
        position += 1;
    }
}

/// Returns the end of the string that starts at `start`.
fn skip_string(encoded: &[u8], start: usize) -> Option<usize> {
    (*encoded.get(start)? == b'"').then(|| string_end(encoded, start + 1))?.map(|end| end.quote + 1)
}

/// Inserts `metadata.resourceVersion` before the other metadata in the output of [`encode_object`]. Other
/// input is returned unchanged.
pub fn splice_resource_version(encoded: &[u8], revision: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(encoded.len() + 44);
    let Some(start) = metadata_start(encoded) else {
        out.extend_from_slice(encoded);
        return out;
    };
    let (before, after) = encoded.split_at(start + METADATA.len());
    out.extend_from_slice(before);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    write_integer(revision, false, &mut out);
    out.push(b'"');
    if after.first() != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(after);
    out
}

#[cfg(test)]
mod tests;
