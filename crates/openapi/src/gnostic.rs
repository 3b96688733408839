//! The OpenAPI v2 document in the protobuf form that Go clients read, which the library gnostic defines.
//!
//! The tables contain the part of its messages that Kubernetes' documents use.

// upstream: github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto

use serde_json::Value;

/// A message: the JSON names of its fields, their numbers and encodings, and the number of the field for `x-`
/// extensions.
struct Message {
    fields: &'static [(&'static str, u32, FieldEncoding)],
    extensions: u32,
}

/// The encoding of a JSON value as a field.
enum FieldEncoding {
    Text,
    Flag,
    /// Any value, as YAML; JSON is YAML as well.
    Free,
    One(&'static Message),
    /// Each element of an array.
    Many(&'static FieldEncoding),
    /// Each member of an object, as a message of name and value.
    Named(&'static FieldEncoding),
    /// A message with the value in the only field of this number.
    Within(u32, &'static FieldEncoding),
    /// A parameter: one of several messages, depending on its location.
    Parameter,
    /// A parameter, or a reference to one.
    ParameterOrReference,
}

use FieldEncoding::{Flag, Free, Many, Named, One, Parameter, ParameterOrReference, Text, Within};

/// Marks a message without extensions.
const NO_EXTENSIONS: u32 = 0;

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("paths", 8, Within(2, &Named(&One(&PATH)))),
        ("definitions", 9, Within(1, &Named(&One(&SCHEMA)))),
        ("parameters", 10, Within(1, &Named(&Parameter))),
        ("security", 12, Many(&Within(1, &Named(&Within(1, &Many(&Text)))))),
        ("securityDefinitions", 13, Within(1, &Named(&Within(2, &One(&API_KEY))))),
    ],
    extensions: 16,
};

static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: 7 };

static PATH: Message = Message {
    fields: &[
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Many(&ParameterOrReference)),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Many(&Text)),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Many(&Text)),
        ("consumes", 7, Many(&Text)),
        ("parameters", 8, Many(&ParameterOrReference)),
        ("responses", 9, Within(1, &Named(&Within(1, &One(&RESPONSE))))),
        ("schemes", 10, Many(&Text)),
        ("deprecated", 11, Flag),
    ],
    extensions: 13,
};

static RESPONSE: Message =
    Message { fields: &[("description", 1, Text), ("schema", 2, Within(1, &One(&SCHEMA)))], extensions: 5 };

static REFERENCE: Message = Message { fields: &[("$ref", 1, Text)], extensions: NO_EXTENSIONS };

static BODY: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: 6,
};

static IN_QUERY: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: 23,
};

static IN_PATH: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: 22,
};

static BODY_PARAMETER: FieldEncoding = Within(1, &One(&BODY));
static PATH_PARAMETER: FieldEncoding = Within(2, &Within(4, &One(&IN_PATH)));
static QUERY_PARAMETER: FieldEncoding = Within(2, &Within(3, &One(&IN_QUERY)));
static WRITTEN: FieldEncoding = Within(1, &Parameter);
static REFERRED: FieldEncoding = Within(2, &One(&REFERENCE));

static API_KEY: Message = Message {
    fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    extensions: 5,
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("description", 4, Text),
        ("pattern", 13, Text),
        ("required", 19, Many(&Text)),
        ("enum", 20, Many(&Free)),
        ("additionalProperties", 21, Within(1, &One(&SCHEMA))),
        ("type", 22, Within(1, &Text)),
        ("items", 23, Within(1, &One(&SCHEMA))),
        ("properties", 25, Within(1, &Named(&One(&SCHEMA)))),
    ],
    extensions: 31,
};

/// Encodes a v2 document, or some members of one.
pub fn message(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    fields(&mut out, &DOCUMENT, document);
    out
}

fn fields(out: &mut Vec<u8>, message: &Message, value: &Value) {
    for (name, number, shape) in message.fields {
        if let Some(value) = value.get(name) {
            field(out, *number, shape, value);
        }
    }
    let members = value.as_object().into_iter().flatten();
    for (name, value) in
        members.filter(|(name, _)| name.starts_with("x-") && message.extensions != NO_EXTENSIONS)
    {
        nested(out, message.extensions, |out| {
            text(out, 1, name);
            field(out, 2, &Free, value);
        });
    }
}

fn field(out: &mut Vec<u8>, number: u32, shape: &FieldEncoding, value: &Value) {
    match shape {
        Text => text(out, number, value.as_str().unwrap_or_default()),
        Flag => {
            if value == &Value::Bool(true) {
                varint(out, number << 3);
                out.push(1);
            }
        }
        Free => nested(out, number, |out| text(out, 2, &value.to_string())),
        One(inner) => nested(out, number, |out| fields(out, inner, value)),
        Many(inner) => {
            value.as_array().into_iter().flatten().for_each(|value| field(out, number, inner, value))
        }
        Named(inner) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                nested(out, number, |out| {
                    text(out, 1, name);
                    field(out, 2, inner, value);
                });
            }
        }
        Within(own, inner) => nested(out, number, |out| field(out, *own, inner, value)),
        Parameter => match value["in"].as_str() {
            Some("body") => field(out, number, &BODY_PARAMETER, value),
            Some("path") => field(out, number, &PATH_PARAMETER, value),
            _ => field(out, number, &QUERY_PARAMETER, value),
        },
        ParameterOrReference => match value.get("$ref") {
            Some(_) => field(out, number, &REFERRED, value),
            None => field(out, number, &WRITTEN, value),
        },
    }
}

fn text(out: &mut Vec<u8>, number: u32, text: &str) {
    varint(out, number << 3 | 2);
    varint(out, text.len() as u32);
    out.extend_from_slice(text.as_bytes());
}

/// Writes a field with the output of `write`, which is moved to insert its length.
fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    varint(out, number << 3 | 2);
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - start) as u32);
    out.splice(start..start, length);
}

fn varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_laid_out_as_the_library_has_them() {
        let cases = [
            (json!({ "swagger": "2.0" }), &b"\x0a\x032.0"[..]),
            (json!({ "info": { "title": "K" } }), b"\x12\x03\x0a\x01K"),
            // definitions(9) { additional_properties(1) { name(1) "a", value(2) { type(22) { value(1) "b" } }
            // } }
            (
                json!({ "definitions": { "a": { "type": "b" } } }),
                b"\x4a\x0d\x0a\x0b\x0a\x01a\x12\x06\xb2\x01\x03\x0a\x01b",
            ),
            // An extension is a name and a value as YAML.
            (json!({ "x-a": [1] }), b"\x82\x01\x0c\x0a\x03x-a\x12\x05\x12\x03[1]"),
            // parameters(10) { (1) { name "p", value { non_body(2) { query(3) { in "query", unique_items(20)
            // } } } } }
            (
                json!({ "parameters": { "p": { "in": "query", "uniqueItems": true } } }),
                b"\x52\x15\x0a\x13\x0a\x01p\x12\x0e\x12\x0c\x1a\x0a\x12\x05query\xa0\x01\x01",
            ),
        ];
        for (document, expected) in cases {
            assert_eq!(message(&document), expected, "{document}");
        }
    }
}
