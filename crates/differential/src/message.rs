//! Decodes protobuf to JSON and checks that it is encoded as upstream encodes it.

use atoll_schema::{Types, normalise};
use serde_json::{Value, json};

pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// Decodes an object in its envelope. Sets the field `written` if encoding the object again gives different
/// bytes.
pub fn object(bytes: &[u8]) -> Result<Value, String> {
    let envelope = atoll_wire::open(bytes).map_err(|error| error.to_string())?;
    let (group, version) = envelope.api_version.rsplit_once('/').unwrap_or(("", &envelope.api_version));
    let types = Types::get();
    let id = types.by_kind(group, version, &envelope.kind);
    let id = id.ok_or_else(|| format!("{} {} is not a known type", envelope.api_version, envelope.kind))?;
    let mut value = atoll_wire::decode(types, id, envelope.raw).map_err(|error| error.to_string())?;
    value["kind"] = envelope.kind.as_str().into();
    value["apiVersion"] = envelope.api_version.as_str().into();
    normalise(types, id, &mut value).map_err(|error| error.to_string())?;
    if atoll_wire::encode(types, id, &value) != envelope.raw {
        value["written"] = "otherwise".into();
    }
    Ok(value)
}

/// Decodes the events of a watch that was read to its end.
pub fn events(mut bytes: &[u8]) -> Result<Value, String> {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (frame, rest) = rest.split_at_checked(length).ok_or("a frame is truncated")?;
        bytes = rest;
        let (kind, object) = event(frame)?;
        events.push(json!({ "type": kind, "object": object }));
    }
    Ok(Value::Array(events))
}

/// Decodes an event: field 1 is its type, field 2 a message with the object in its field 1.
fn event(frame: &[u8]) -> Result<(String, Value), String> {
    let (kind, rest) = field(frame, 1)?;
    let (outer, _) = field(rest, 2)?;
    let (inner, _) = field(outer, 1)?;
    Ok((String::from_utf8_lossy(kind).into_owned(), object(inner)?))
}

/// Returns the bytes of the next field, and the rest.
fn field(bytes: &[u8], number: u8) -> Result<(&[u8], &[u8]), String> {
    let rest = bytes.strip_prefix(&[number << 3 | 2]).ok_or_else(|| format!("field {number} is missing"))?;
    let (mut length, mut width) = (0, 0);
    for byte in rest {
        length |= usize::from(byte & 0x7f) << (7 * width);
        width += 1;
        if byte < &0x80 {
            break;
        }
    }
    rest.get(width..)
        .and_then(|rest| rest.split_at_checked(length))
        .ok_or_else(|| "a field is truncated".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framed_objects_are_decoded() {
        let types = Types::get();
        let id = types.by_kind("", "v1", "ConfigMap").unwrap();
        let object = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" } });
        let wrapped = atoll_wire::wrap("v1", "ConfigMap", &atoll_wire::encode(types, id, &object));
        assert_eq!(super::object(&wrapped).unwrap(), object);
        let frames = [atoll_wire::frame("ADDED", &wrapped), atoll_wire::frame("DELETED", &wrapped)].concat();
        let expected =
            json!([{ "type": "ADDED", "object": object }, { "type": "DELETED", "object": object }]);
        assert_eq!(events(&frames).unwrap(), expected);
        assert!(events(&frames[..30]).is_err());
        // The same object without the empty fields that upstream always writes.
        let wrapped = atoll_wire::wrap("v1", "ConfigMap", b"\x0a\x03\x0a\x01a");
        assert_eq!(super::object(&wrapped).unwrap()["written"], "otherwise");
    }
}
