//! Objects of built-in kinds.

use std::str::FromStr;
use std::sync::LazyLock;

use atoll_meta::json;
use atoll_meta::time::Timestamp;
use atoll_registry::{Catalog, PortRange, Prefix, Profile};
use atoll_schema::{Types, resources};
use atoll_server::fuzzing::{FieldValidation, object as decode};
use http::HeaderMap;

use crate::{Accepted, chosen, lines};

pub static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(Profile::Full));

/// Any object is defaulted, validated, printed and encoded, and defaulting twice changes nothing more. The
/// first line names the resource.
pub fn object(bytes: &[u8]) -> Accepted {
    let (row, body) = chosen(CATALOG.rows(), |row| &row.resource, bytes)?;
    let mut object = decode(row, &HeaderMap::new(), body, FieldValidation::Ignore).ok()?.object;
    row.defaults.apply(&mut object);
    let filled = object.clone();
    row.defaults.apply(&mut object);
    assert_eq!(object, filled);
    let _ = (row.checks.create)(&object);
    let _ = (row.checks.update)(&object, &object);
    for part in ["status", "scale", "ephemeralcontainers", "resize", "approval"] {
        let _ = (row.checks.subresource)(part, &object, &object);
    }
    let printer = atoll_columns::printer(&row.group, &row.kind);
    let _ = printer.cells(&object, Timestamp::new(1_794_730_041, 0));
    let _ = (printer.conditions)(&object);
    let id = row.type_id?;
    let message = atoll_wire::encode(Types::get(), id, &object);
    let read = atoll_wire::decode(Types::get(), id, &message).expect("encoded objects can be decoded");
    assert_eq!(atoll_wire::encode(Types::get(), id, &read), message);
    json::parse(&json::to_vec(&object)).expect("objects can be serialized");
    Some(())
}

/// A decoded message is encoded to a message with the same meaning. The first line names the resource.
pub fn protobuf(bytes: &[u8]) -> Accepted {
    let _ = atoll_wire::open(bytes).map(|envelope| envelope.raw.len());
    let (row, message) = chosen(resources(), |row| row.resource, bytes)?;
    let id = row.type_id?;
    let types = Types::get();
    let value = atoll_wire::decode(types, id, message).ok()?;
    let written = atoll_wire::encode(types, id, &value);
    let again = atoll_wire::decode(types, id, &written).expect("encoded messages can be decoded");
    assert_eq!(atoll_wire::encode(types, id, &again), written);
    Some(())
}

/// Ranges of addresses and ports contain their own bounds only. The input is one of each, one per line.
pub fn ranges(bytes: &[u8]) -> Accepted {
    let [addresses, ports] = lines(bytes)?;
    let prefix = Prefix::from_str(addresses).ok()?;
    assert!(prefix.contains(prefix.network()) && prefix.contains(prefix.first_usable()));
    assert_eq!(prefix.to_string().parse::<Prefix>().map(|again| again.to_string()), Ok(prefix.to_string()));
    let ports = PortRange::from_str(ports).ok()?;
    assert!(!ports.contains(0) && !ports.contains(65_536));
    Some(())
}
