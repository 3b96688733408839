//! Usage as a table and as protobuf. There are no facts for these kinds, because Kubernetes itself does not
//! serve them.

use std::collections::BTreeMap;

use atoll_meta::quantity::Quantity;
use atoll_meta::{json, object, time};
use atoll_schema::Types;
use atoll_wire::{Encoder, write_bytes, write_envelope, write_message, write_number};
use serde_json::{Value, json};

use crate::negotiate::{Include, Meta};

/// Returns a table with a column for each resource.
pub fn table(items: &[Value], version: Meta, include: Include) -> Value {
    let column = |name: &str, format: &str, description: &str| json!({ "name": name, "type": "string", "format": format, "description": description, "priority": 0 });
    let names: Vec<String> = items.first().map(|first| sums(first).into_keys().collect()).unwrap_or_default();
    let mut columns = vec![column("Name", "name", "Name of the resource")];
    columns.extend(names.iter().map(|name| column(name, "quantity", "")));
    columns.push(column("Window", "duration", ""));
    let row = |item: &Value| {
        let sums = sums(item);
        let used = |name: &String| sums.get(name).map_or_else(|| "0".into(), Quantity::canonical);
        let mut cells = vec![Value::from(object::name(item))];
        cells.extend(names.iter().map(|name| Value::from(used(name))));
        cells.push(item["window"].clone());
        let shown = match include {
            Include::None => Value::Null,
            Include::Object => item.clone(),
            _ => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": version.api_version(),
                "metadata": item["metadata"],
            }),
        };
        json!({ "cells": cells, "object": shown })
    };
    let rows: Vec<Value> = items.iter().map(row).collect();
    let is_empty = rows.is_empty();
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": {},
        "columnDefinitions": if is_empty { Value::Null } else { columns.into() },
        "rows": if is_empty { Value::Null } else { rows.into() },
    })
}

/// Returns the usage of each resource, summed over all parts.
fn sums(item: &Value) -> BTreeMap<String, Quantity> {
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    let containers = item["containers"].as_array().into_iter().flatten();
    for usage in containers.map(|container| &container["usage"]).chain([&item["usage"]]) {
        for (name, amount) in usage.as_object().into_iter().flatten() {
            let Ok(amount) = Quantity::parse(amount.as_str().unwrap_or_default()) else { continue };
            match sums.get_mut(name) {
                Some(sum) => sum.add(&amount),
                None => drop(sums.insert(name.clone(), amount)),
            }
        }
    }
    sums
}

/// Returns an enveloped object or list.
pub fn protobuf(object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_envelope(object::api_version(object), object::kind(object), &mut out, |out| {
        let mut encoder = Encoder::new(Types::get());
        match object["items"].as_array() {
            None => write_item(&mut encoder, object, out),
            Some(items) => {
                write_message(1, out, |out| {
                    encoder.part("meta/v1.ListMeta", &json::to_vec(&object["metadata"]), out);
                });
                for item in items {
                    write_message(2, out, |out| write_item(&mut encoder, item, out));
                }
            }
        }
    });
    out
}

fn write_item(encoder: &mut Encoder<'_>, item: &Value, out: &mut Vec<u8>) {
    write_message(1, out, |out| {
        encoder.part("meta/v1.ObjectMeta", &json::to_vec(&item["metadata"]), out);
    });
    let at = item["timestamp"].as_str().and_then(|at| time::parse(at).ok()).map_or(0, |at| at.seconds);
    write_message(2, out, |out| {
        write_number(1, at.cast_unsigned(), out);
        write_number(2, 0, out);
    });
    let window = item["window"].as_str().and_then(time::parse_duration).unwrap_or(0);
    write_message(3, out, |out| write_number(1, window.cast_unsigned(), out));
    write_usage(4, &item["usage"], out);
    for container in item["containers"].as_array().into_iter().flatten() {
        write_message(4, out, |out| {
            write_bytes(1, container["name"].as_str().unwrap_or_default().as_bytes(), out);
            write_usage(2, &container["usage"], out);
        });
    }
}

/// Writes a map of quantities in the field with this number.
fn write_usage(number: u32, usage: &Value, out: &mut Vec<u8>) {
    for (name, amount) in usage.as_object().into_iter().flatten() {
        write_message(number, out, |out| {
            write_bytes(1, name.as_bytes(), out);
            write_message(2, out, |out| {
                write_bytes(1, amount.as_str().unwrap_or_default().as_bytes(), out);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n"}, "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
            "containers": [
                {"name": "a", "usage": {"cpu": "250m", "memory": "1Mi"}},
                {"name": "b", "usage": {"cpu": "1", "memory": "1023Ki"}},
            ],
        })
    }

    #[test]
    fn tables_have_a_column_for_each_resource() {
        let table = super::table(&[pod()], Meta::V1, Include::Metadata);
        let columns: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|c| c["name"].as_str())
            .collect();
        assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
        assert_eq!(table["rows"][0]["cells"], json!(["p", "1250m", "2047Ki", "15s"]));
        assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "p");
        let empty = super::table(&[], Meta::V1, Include::Metadata);
        assert_eq!((&empty["rows"], &empty["columnDefinitions"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn protobuf_has_the_expected_fields() {
        let mut node = json!({
            "kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {"name": "n"},
            "timestamp": "1970-01-01T00:00:07Z", "window": "1ns", "usage": {"cpu": "1"},
        });
        let message = |object: &Value| {
            let wrapped = protobuf(object);
            atoll_wire::open(&wrapped).unwrap().raw.to_vec()
        };
        let expected = [
            &[0x0a, 0x03, 0x0a, 0x01, b'n'][..],
            &[0x12, 0x04, 0x08, 7, 0x10, 0],
            &[0x1a, 0x02, 0x08, 1],
            &[0x22, 0x0a, 0x0a, 3, b'c', b'p', b'u', 0x12, 0x03, 0x0a, 1, b'1'],
        ];
        let written = message(&node);
        for field in &expected[1..] {
            assert!(written.windows(field.len()).any(|part| part == *field), "{field:?} in {written:?}");
        }
        node["items"] = json!([pod()]);
        assert_eq!(message(&node)[0], 0x0a, "metadata comes first");
    }
}
