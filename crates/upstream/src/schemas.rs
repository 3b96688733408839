//! Random schemas of custom resources, and objects that almost match them.

use serde_json::{Map, Value, json};

use crate::SeededRandom;

pub struct Generator {
    random: SeededRandom,
}

const NAMES: &[&str] = &["a", "b", "name", "type", "spec", "items", "kind", "metadata", "port", "x-y"];
const TEXTS: &[&str] = &[
    "",
    "a",
    "abc",
    "web-1",
    "10",
    "é世",
    "2024-02-29",
    "2014-12-15T19:30:20Z",
    "1h",
    "YQ==",
    "10.0.0.1",
    "::1",
    "a@b.c",
    "http://a/b",
    "<&>",
];
const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "byte",
    "ipv4",
    "ipv6",
    "cidr",
    "uri",
    "email",
    "hostname",
    "uuid",
    "mac",
    "password",
    "int32",
    "int64",
    "float",
    "double",
    "k8s-short-name",
    "unknown",
    "hexcolor",
];
const PATTERNS: &[&str] =
    &["^[a-z]+$", r"^\d+$", "^$|^a", r"\w", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "(?i)ABC"];

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { random: SeededRandom::new(seed) }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.random.chance(percent)
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        self.random.pick(choices)
    }

    /// A schema of complete objects.
    pub fn root(&mut self) -> Value {
        let mut spec = self.object_schema(3);
        if self.chance(10) {
            spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        let mut properties = Map::new();
        properties.insert("spec".to_owned(), spec);
        if self.chance(50) {
            let status = self.object_schema(2);
            properties.insert("status".to_owned(), status);
        }
        if self.chance(10) {
            let scaled = self.schema(1);
            properties.insert("scaled".to_owned(), scaled);
        }
        if self.chance(10) {
            properties.insert(
                "metadata".to_owned(),
                json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}),
            );
        }
        if self.chance(20) {
            properties.insert("kind".to_owned(), json!({"type": "string"}));
            properties.insert("apiVersion".to_owned(), json!({"type": "string", "maxLength": 5}));
        }
        let mut root = json!({"type": "object", "properties": properties});
        if self.chance(30) {
            root["required"] = json!(["spec"]);
        }
        root
    }

    fn object_schema(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        for _ in 0..=self.below(5) {
            let name = self.pick(NAMES);
            let schema = self.schema(depth.saturating_sub(1));
            properties.insert(name.to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if self.chance(40) {
            let required: Vec<&str> = (0..=self.below(2)).map(|_| self.pick(NAMES)).collect();
            schema["required"] = json!(required);
        }
        if self.chance(8) {
            schema["minProperties"] = json!(self.below(3));
        }
        if self.chance(8) {
            schema["maxProperties"] = json!(self.below(4));
        }
        if self.chance(10) {
            schema["x-kubernetes-map-type"] = json!(self.pick(&["atomic", "granular"]));
        }
        if self.chance(10) {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        if self.chance(10) {
            schema["x-kubernetes-embedded-resource"] = json!(true);
            for name in ["apiVersion", "kind", "metadata"] {
                if let Some(property) = schema["properties"].get_mut(name) {
                    plain(property);
                }
            }
        }
        self.conditions(&mut schema);
        schema
    }

    fn schema(&mut self, depth: usize) -> Value {
        let mut schema = match self.below(if depth == 0 { 6 } else { 11 }) {
            0 => self.number("integer"),
            1 => self.number("number"),
            2 | 3 => self.text(),
            4 => json!({"type": "boolean"}),
            5 => match self.below(3) {
                0 => json!({"x-kubernetes-preserve-unknown-fields": true}),
                1 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                _ => json!({"x-kubernetes-int-or-string": true}),
            },
            6 | 7 => self.list(depth),
            8 => {
                let rest = match self.below(6) {
                    0 => json!(true),
                    1 => json!(false),
                    _ => self.schema(depth - 1),
                };
                json!({"type": "object", "additionalProperties": rest})
            }
            _ => self.object_schema(depth),
        };
        if self.chance(20) {
            schema["nullable"] = json!(true);
        }
        if self.chance(6) {
            let format = self.pick(FORMATS);
            schema["format"] = json!(format);
        }
        if self.chance(12) {
            let default = self.fitting(&schema, 2);
            if !default.is_null() {
                schema["default"] = default;
            }
        }
        if self.chance(10) {
            let values: Vec<Value> = (0..=self.below(3)).map(|_| self.fitting(&schema, 1)).collect();
            schema["enum"] = json!(values);
        }
        self.conditions(&mut schema);
        schema
    }

    fn number(&mut self, kind: &str) -> Value {
        let mut schema = json!({"type": kind});
        let bound = |generator: &mut Generator| match generator.below(4) {
            0 => json!(generator.below(10)),
            1 => json!(0.5),
            2 => json!(-3),
            _ => json!(1e7),
        };
        if self.chance(25) {
            schema["minimum"] = bound(self);
            if self.chance(30) {
                schema["exclusiveMinimum"] = json!(true);
            }
        }
        if self.chance(25) {
            schema["maximum"] = bound(self);
            if self.chance(30) {
                schema["exclusiveMaximum"] = json!(true);
            }
        }
        if self.chance(15) {
            schema["multipleOf"] = self.pick(&[2.0, 0.5, 3.0, 0.1]).into();
        }
        if self.chance(30) {
            schema["format"] = json!(self.pick(&["int32", "int64", "float", "double", "date"]));
        }
        schema
    }

    fn text(&mut self) -> Value {
        let mut schema = json!({"type": "string"});
        if self.chance(20) {
            schema["minLength"] = json!(self.below(4));
        }
        if self.chance(20) {
            schema["maxLength"] = json!(self.below(6));
        }
        if self.chance(20) {
            schema["pattern"] = json!(self.pick(PATTERNS));
        }
        if self.chance(30) {
            schema["format"] = json!(self.pick(FORMATS));
        }
        schema
    }

    fn list(&mut self, depth: usize) -> Value {
        let mut schema = json!({"type": "array"});
        match self.below(5) {
            0 => {
                schema["x-kubernetes-list-type"] = json!("set");
                schema["items"] = self.schema(0);
            }
            1 | 2 => {
                let mut items = self.object_schema(depth - 1);
                let keys: &[&str] = if self.chance(60) { &["name"] } else { &["name", "port"] };
                for key in keys {
                    items["properties"][key] =
                        json!({"type": if *key == "port" { "integer" } else { "string" }});
                }
                items["required"] = json!(keys);
                schema["x-kubernetes-list-type"] = json!("map");
                schema["x-kubernetes-list-map-keys"] = json!(keys);
                schema["items"] = items;
            }
            _ => schema["items"] = self.schema(depth - 1),
        }
        if self.chance(15) {
            schema["minItems"] = json!(self.below(3));
        }
        if self.chance(15) {
            schema["maxItems"] = json!(self.below(4));
        }
        schema
    }

    /// Conditions that refer only to declared fields.
    fn conditions(&mut self, schema: &mut Value) {
        for name in ["anyOf", "oneOf", "allOf"] {
            if self.chance(5) {
                let parts: Vec<Value> = (0..=self.below(3)).map(|_| self.part(schema, 2)).collect();
                schema[name] = json!(parts);
            }
        }
        if self.chance(3) {
            let part = self.part(schema, 2);
            schema["not"] = part;
        }
    }

    fn part(&mut self, declared: &Value, depth: usize) -> Value {
        let mut part = Map::new();
        match declared["type"].as_str() {
            Some("object") => {
                if self.chance(60) {
                    part.insert("required".to_owned(), json!([self.pick(NAMES)]));
                }
                if let (Some(properties), true) = (declared["properties"].as_object(), depth > 0) {
                    let names: Vec<&String> = properties.keys().filter(|name| *name != "metadata").collect();
                    if !names.is_empty() && self.chance(60) {
                        let name = names[self.below(names.len())];
                        let inner = self.part(&properties[name], depth - 1);
                        part.insert("properties".to_owned(), json!({ name: inner }));
                    }
                }
            }
            Some("array") => {
                if depth > 0 && self.chance(60) {
                    let items = self.part(&declared["items"], depth - 1);
                    part.insert("items".to_owned(), items);
                }
                if self.chance(40) {
                    part.insert("minItems".to_owned(), json!(self.below(3)));
                }
            }
            Some("string") => {
                if self.chance(50) {
                    part.insert("pattern".to_owned(), json!(self.pick(PATTERNS)));
                } else {
                    part.insert("minLength".to_owned(), json!(self.below(4)));
                }
            }
            Some("integer" | "number") => {
                part.insert("minimum".to_owned(), json!(self.below(5)));
                if self.chance(30) {
                    part.insert("enum".to_owned(), json!([self.below(5)]));
                }
            }
            _ => {
                if self.chance(50) {
                    part.insert("enum".to_owned(), json!([true, 1, "a"]));
                }
            }
        }
        if depth > 0 && self.chance(10) {
            let inner = self.part(declared, depth - 1);
            part.insert("not".to_owned(), inner);
        }
        Value::Object(part)
    }

    /// A complete object.
    pub fn object(&mut self, schema: &Value) -> Value {
        let mut object = self.fitting_object(schema, 6);
        object["apiVersion"] = json!("example.com/v1");
        object["kind"] = json!("Thing");
        let mut metadata =
            json!({"name": "thing", "namespace": "default", "resourceVersion": "1", "uid": "u"});
        if self.chance(5) {
            metadata["labels"] = json!({"a": self.pick(&["b", "/"])});
        }
        if self.chance(3) {
            metadata["unknown"] = json!(1);
        }
        if self.chance(2) {
            metadata["labels"] = json!([]);
        }
        object["metadata"] = metadata;
        object
    }

    /// A copy of an object with a few changes.
    pub fn changed(&mut self, object: &Value, schema: &Value) -> Value {
        let mut copy = object.clone();
        for _ in 0..=self.below(2) {
            self.change(&mut copy, schema);
        }
        if !copy.is_object() {
            copy = json!({});
        }
        copy["apiVersion"] = json!("example.com/v1");
        copy["kind"] = json!("Thing");
        copy["metadata"] = object["metadata"].clone();
        copy
    }

    fn change(&mut self, value: &mut Value, schema: &Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && self.chance(80) => {
                let names: Vec<String> = fields.keys().cloned().collect();
                let name = &names[self.below(names.len())];
                if self.chance(10) {
                    fields.remove(name);
                } else if let Some(field) = fields.get_mut(name) {
                    let inner = match schema["properties"].get(name) {
                        Some(inner) => inner,
                        None => &schema["additionalProperties"],
                    };
                    self.change(field, inner);
                }
            }
            Value::Array(items) if !items.is_empty() && self.chance(80) => {
                let index = self.below(items.len());
                match self.below(4) {
                    0 => drop(items.remove(index)),
                    1 => {
                        let copy = items[index].clone();
                        items.push(copy);
                    }
                    2 => items.reverse(),
                    _ => self.change(&mut items[index], &schema["items"]),
                }
            }
            _ => *value = if self.chance(60) { self.fitting(schema, 3) } else { self.anything(1) },
        }
    }

    /// A value that mostly matches.
    fn fitting(&mut self, schema: &Value, depth: usize) -> Value {
        if self.chance(3) {
            return self.anything(1);
        }
        if self.chance(3) {
            return Value::Null;
        }
        if let Some(values) = schema["enum"].as_array()
            && self.chance(80)
        {
            return values[self.below(values.len())].clone();
        }
        match schema["type"].as_str() {
            Some("object") => self.fitting_object(schema, depth),
            Some("array") => {
                let count = if depth == 0 { 0 } else { self.below(4) };
                Value::Array((0..count).map(|_| self.fitting(&schema["items"], depth - 1)).collect())
            }
            Some("string") => json!(self.pick(TEXTS)),
            Some("integer") => match self.below(8) {
                0 => json!(2.0),
                1 => json!(3_000_000_000_i64),
                _ => json!(self.below(12) as i64 - 3),
            },
            Some("number") => match self.below(4) {
                0 => json!(self.below(10)),
                1 => json!(1e40),
                _ => json!(self.below(20) as f64 / 4.0),
            },
            Some("boolean") => json!(self.chance(50)),
            _ if schema["x-kubernetes-int-or-string"] == json!(true) => {
                if self.chance(50) {
                    json!(self.below(9))
                } else {
                    json!(self.pick(TEXTS))
                }
            }
            _ => self.anything(depth.min(2)),
        }
    }

    fn fitting_object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut fields = Map::new();
        if depth > 0 {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if self.chance(75) {
                    fields.insert(name.clone(), self.fitting(property, depth - 1));
                }
            }
            let rest = &schema["additionalProperties"];
            if !rest.is_null() {
                for _ in 0..self.below(3) {
                    let name = self.pick(NAMES);
                    fields.insert(name.to_owned(), self.fitting(rest, depth - 1));
                }
            }
        }
        if schema["x-kubernetes-embedded-resource"] == json!(true) && self.chance(80) {
            fields.insert("apiVersion".to_owned(), json!(self.pick(&["v1", "a/b", "a/b/c", ""])));
            fields.insert("kind".to_owned(), json!(self.pick(&["Pod", "Foo", "-x", ""])));
            if self.chance(60) {
                let metadata = match self.below(4) {
                    0 => json!({"name": "a/b", "labels": {"a": 1}}),
                    1 => json!({"name": "a/b", "labels": {"a": "/"}, "extra": {"a": 1}}),
                    2 => json!({"namespace": "A", "creationTimestamp": null}),
                    _ => json!({"generateName": "x", "finalizers": ["a"], "managedFields": []}),
                };
                fields.insert("metadata".to_owned(), metadata);
            }
        }
        if self.chance(12) {
            fields.insert(self.pick(NAMES).to_owned(), self.anything(1));
        }
        Value::Object(fields)
    }

    fn anything(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.chance(50)),
            2 => json!(self.below(100)),
            3 => json!(1.5),
            4 | 5 => json!(self.pick(TEXTS)),
            6 => Value::Array((0..self.below(3)).map(|_| self.anything(depth - 1)).collect()),
            _ => {
                let fields = (0..self.below(3)).map(|_| {
                    let name = self.pick(NAMES).to_owned();
                    (name, self.anything(depth - 1))
                });
                Value::Object(fields.collect())
            }
        }
    }
}

/// Removes keywords that are not allowed in metadata.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("default");
            fields.remove("x-kubernetes-embedded-resource");
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}
