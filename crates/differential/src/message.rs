//! Protobuf, as the JSON that it says, and whether it is written the way upstream's encoder writes.

use atoll_schema::{Types, normalise};
use serde_json::{Value, json};

pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// An object in its envelope. `written` is there if encoding it again does not lead to the same bytes.
pub fn object(bytes: &[u8]) -> Result<Value, String> {
    let envelope = atoll_wire::open(bytes).map_err(|error| error.to_string())?;
    let (group, version) = envelope.api_version.rsplit_once('/').unwrap_or(("", &envelope.api_version));
    let types = Types::get();
    let id = types.by_kind(group, version, &envelope.kind);
    let id = id.ok_or_else(|| format!("{} {} is of no known type", envelope.api_version, envelope.kind))?;
    let mut value = atoll_wire::decode(types, id, envelope.raw).map_err(|error| error.to_string())?;
    value["kind"] = envelope.kind.as_str().into();
    value["apiVersion"] = envelope.api_version.as_str().into();
    normalise(types, id, &mut value).map_err(|error| error.to_string())?;
    if atoll_wire::encode(types, id, &value) != envelope.raw {
        value["written"] = "otherwise".into();
    }
    Ok(value)
}

/// The events of a watch that was read to its end.
pub fn events(mut bytes: &[u8]) -> Result<Value, String> {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (frame, rest) = rest.split_at_checked(length).ok_or("a frame is cut off")?;
        bytes = rest;
        let (kind, object) = event(frame)?;
        events.push(json!({ "type": kind, "object": object }));
    }
    Ok(Value::Array(events))
}

/// An event is its type in field 1, and in field 2 a message with the object in its field 1.
fn event(frame: &[u8]) -> Result<(String, Value), String> {
    let (kind, rest) = field(frame, 1)?;
    let (outer, _) = field(rest, 2)?;
    let (inner, _) = field(outer, 1)?;
    Ok((String::from_utf8_lossy(kind).into_owned(), object(inner)?))
}

/// The bytes of the field that comes next, and what is behind it.
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
        .ok_or_else(|| "a field is cut off".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_framed_is_read() {
        let types = Types::get();
        let id = types.by_kind("", "v1", "ConfigMap").unwrap();
        let object = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" } });
        let sealed = atoll_wire::seal("v1", "ConfigMap", &atoll_wire::encode(types, id, &object));
        assert_eq!(super::object(&sealed).unwrap(), object);
        let frames = [atoll_wire::frame("ADDED", &sealed), atoll_wire::frame("DELETED", &sealed)].concat();
        let expected =
            json!([{ "type": "ADDED", "object": object }, { "type": "DELETED", "object": object }]);
        assert_eq!(events(&frames).unwrap(), expected);
        assert!(events(&frames[..30]).is_err());
        // The same, but without the empty fields that upstream always writes.
        let sealed = atoll_wire::seal("v1", "ConfigMap", b"\x0a\x03\x0a\x01a");
        assert_eq!(super::object(&sealed).unwrap()["written"], "otherwise");
    }
}
