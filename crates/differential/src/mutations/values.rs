//! Replacement values for fields of each type.

use atoll_schema::TypeRef;
use serde_json::{Value, json};

/// Returns replacements for `current`: mostly invalid values, and some that are only different.
pub fn replacements(kind: TypeRef, current: &Value) -> Vec<Value> {
    match kind {
        TypeRef::String => strings(current),
        TypeRef::Named(scalar) => match &scalar.values {
            Some(values) => {
                let mut others: Vec<Value> = vec![json!(""), json!("Bogus")];
                others.extend(
                    values.iter().filter(|value| current.as_str() != Some(value)).map(|value| json!(value)),
                );
                if let Some(text) = current.as_str() {
                    others.push(json!(text.to_lowercase()));
                }
                others
            }
            None => strings(current),
        },
        TypeRef::Bool => vec![json!(current != &json!(true)), json!("yes")],
        TypeRef::Int32 | TypeRef::Int64 => {
            let next = current.as_i64().unwrap_or_default() + 1;
            vec![
                json!(-1),
                json!(0),
                json!(next),
                json!(65_536),
                json!(i32::MAX),
                json!(1u64 << 40),
                json!("1"),
            ]
        }
        TypeRef::Float64 => vec![json!(-1), json!(0.5), json!("1")],
        TypeRef::IntOrString => {
            let texts = ["", "150%", "-5%", "7", "Bad Name", "a-name-that-is-too-long", "other"];
            let numbers = [json!(-1), json!(0), json!(8081), json!(70_000), json!(true)];
            texts.iter().map(|text| json!(text)).chain(numbers).collect()
        }
        TypeRef::Quantity => {
            ["-1", "0", "1", "1.5", "300m", "3Gi", "1e18", "99999999Ti", "abc", "10Xi", "", " 1"]
                .iter()
                .map(|text| json!(text))
                .chain([json!(-3), json!(0.5), json!([])])
                .collect()
        }
        TypeRef::Time | TypeRef::MicroTime => {
            let texts = ["", "yesterday", "2026-02-30T00:00:00Z", "2026-02-03T04:05:06.000007Z"];
            texts.iter().map(|text| json!(text)).chain([json!(1)]).collect()
        }
        TypeRef::Bytes => vec![json!(""), json!("%%%"), json!("eHl6"), json!(1)],
        TypeRef::List(_) => vec![json!([]), Value::Null, json!({}), json!([null])],
        TypeRef::Map(_) | TypeRef::Struct(_) => vec![json!({}), Value::Null, json!([]), json!("text")],
        TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json | TypeRef::Any => vec![Value::Null],
        TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray => {
            vec![json!(true), json!({}), json!([])]
        }
    }
}

fn strings(current: &Value) -> Vec<Value> {
    let text = current.as_str().unwrap_or_default();
    vec![
        json!(""),
        json!("Not valid!"),
        json!("-a-"),
        json!("UPPER"),
        json!("a_b.c"),
        json!("../up"),
        json!("/abs"),
        json!(format!("{text}x")),
        json!("a".repeat(64)),
        json!("b.".repeat(150) + "b"),
        json!(1),
    ]
}

/// Returns values for a field that is not set.
pub fn for_missing_field(kind: TypeRef) -> Vec<Value> {
    match kind {
        TypeRef::String => vec![json!("a"), json!("Not valid!")],
        TypeRef::Named(scalar) => match &scalar.values {
            Some(values) => values.iter().map(|value| json!(value)).chain([json!("Bogus")]).collect(),
            None => vec![json!("a"), json!("Bogus One")],
        },
        TypeRef::Bool => vec![json!(true), json!(false)],
        TypeRef::Int32 | TypeRef::Int64 => vec![json!(1), json!(-1), json!(0)],
        TypeRef::Float64 => vec![json!(1.5)],
        TypeRef::IntOrString => vec![json!(1), json!("50%"), json!(-1)],
        TypeRef::Quantity => vec![json!("1"), json!("-1")],
        TypeRef::Time | TypeRef::MicroTime => vec![json!("2026-01-01T00:00:00.000000Z")],
        TypeRef::Bytes => vec![json!("YQ==")],
        TypeRef::List(list) => match list.element {
            TypeRef::Struct(_) => vec![json!([{}])],
            element => {
                let first = for_missing_field(element).into_iter().next();
                first.into_iter().map(|element| json!([element, element])).collect()
            }
        },
        TypeRef::Map(map) => {
            let value = for_missing_field(map.value).into_iter().next().unwrap_or_default();
            vec![json!({"a": value}), json!({"bad key!": value})]
        }
        TypeRef::Struct(_) => vec![json!({})],
        TypeRef::RawExtension | TypeRef::FieldsV1 => vec![json!({"a": 1})],
        TypeRef::Json | TypeRef::Any | TypeRef::JsonSchemaOrBool => vec![json!(true)],
        TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrStringArray => vec![json!({"type": "object"})],
    }
}
