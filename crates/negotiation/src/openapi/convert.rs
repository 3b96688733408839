//! Converts the schemas of an OpenAPI v3 document to structural ones: without references, recursion and
//! keywords that only clients read.

use serde_json::{Map, Value};

use crate::bounds::Excess;

type Fields = Map<String, Value>;

/// Maximum depth; deeper fields are preserved as they are.
const DEEPEST: usize = 48;
/// Maximum number of schemas of one type, with all references resolved.
const MOST_SCHEMAS: usize = 50_000;
/// Maximum number of schemas of all types in a document.
const MOST_IN_DOCUMENT: usize = 1_000_000;

const PREFIX: &str = "#/components/schemas/";
const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Keywords that are copied.
const COPIED: [&str; 23] = [
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Converts schemas of one document.
pub(super) struct Converter<'d> {
    schemas: Option<&'d Fields>,
    /// The references that are being resolved.
    open: Vec<String>,
    left: usize,
    left_in_document: usize,
}

impl<'d> Converter<'d> {
    pub fn of(document: &'d Value) -> Converter<'d> {
        Converter {
            schemas: document["components"]["schemas"].as_object(),
            open: Vec::new(),
            left: 0,
            left_in_document: MOST_IN_DOCUMENT,
        }
    }

    /// The schema of a complete object.
    pub fn object(&mut self, name: &str) -> Result<Value, Excess> {
        self.left = MOST_SCHEMAS;
        self.open.clear();
        let mut schema = self.reference(name, 0)?;
        // A definition may not describe the metadata of its objects.
        if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
            *metadata = Value::Object(of_type("object"));
        }
        Ok(schema)
    }

    fn schema(&mut self, source: &Value, depth: usize) -> Result<Value, Excess> {
        self.left = self.left.checked_sub(1).ok_or(Excess::Size)?;
        self.left_in_document = self.left_in_document.checked_sub(1).ok_or(Excess::Size)?;
        let Some(fields) = source.as_object().filter(|_| depth < DEEPEST) else { return Ok(anything("")) };
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            return self.reference(name(reference).unwrap_or_default().as_str(), depth);
        }
        // A reference with other keywords beside it.
        if let Some([part]) = fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
            && let Some(reference) = part.get("$ref").and_then(Value::as_str)
        {
            let mut schema = self.reference(name(reference).unwrap_or_default().as_str(), depth)?;
            if let Value::Object(target) = &mut schema {
                copy(fields, target);
            }
            return Ok(schema);
        }
        self.plain(fields, depth)
    }

    fn reference(&mut self, name: &str, depth: usize) -> Result<Value, Excess> {
        let Some(source) = self.schemas.and_then(|schemas| schemas.get(name)) else {
            return Ok(anything(""));
        };
        if self.open.iter().any(|open| open == name) {
            return Ok(anything(source.get("type").and_then(Value::as_str).unwrap_or_default()));
        }
        self.open.push(name.to_owned());
        let schema = self.schema(source, depth + 1);
        self.open.pop();
        schema
    }

    fn plain(&mut self, fields: &Fields, depth: usize) -> Result<Value, Excess> {
        if is_int_or_string(fields) {
            let mut schema = Fields::new();
            copy(fields, &mut schema);
            schema.remove("format");
            schema.insert(INT_OR_STRING.to_owned(), true.into());
            return Ok(Value::Object(schema));
        }
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind.is_empty() {
            return Ok(anything(""));
        }
        let mut schema = of_type(kind);
        copy(fields, &mut schema);
        self.copy_conditions(fields, &mut schema)?;
        if let Some(Value::Object(properties)) = fields.get("properties") {
            let mut converted = Fields::new();
            for (name, property) in properties {
                converted.insert(name.clone(), self.schema(property, depth + 1)?);
            }
            schema.insert("properties".to_owned(), Value::Object(converted));
        }
        match fields.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                schema.insert("additionalProperties".to_owned(), self.schema(values, depth + 1)?);
            }
            Some(Value::Bool(true)) => drop(schema.insert(PRESERVES.to_owned(), true.into())),
            _ => {}
        }
        let preserves = fields.get(PRESERVES) == Some(&Value::Bool(true));
        let says_nothing = !schema.contains_key("properties") && !schema.contains_key("additionalProperties");
        // An object without fields is one that the schema does not describe.
        if preserves || kind == "object" && says_nothing {
            schema.insert(PRESERVES.to_owned(), true.into());
        }
        if kind == "array" {
            let items =
                fields.get("items").map_or(Ok(anything("")), |items| self.schema(items, depth + 1))?;
            schema.insert("items".to_owned(), items);
            set_list_type(fields, &mut schema);
        }
        Ok(Value::Object(schema))
    }

    /// Copies conditions without references.
    fn copy_conditions(&mut self, fields: &Fields, schema: &mut Fields) -> Result<(), Excess> {
        for name in ["allOf", "anyOf", "oneOf", "not"] {
            let Some(condition) = fields.get(name) else { continue };
            let (count, is_copied) = measure(condition);
            self.left = self.left.checked_sub(count).ok_or(Excess::Size)?;
            self.left_in_document = self.left_in_document.checked_sub(count).ok_or(Excess::Size)?;
            if is_copied {
                schema.insert(name.to_owned(), condition.clone());
            }
        }
        Ok(())
    }
}

/// The number of values in a condition, and whether it has no references and little depth.
fn measure(condition: &Value) -> (usize, bool) {
    let mut open = vec![(condition, 0_usize)];
    let (mut count, mut is_plain) = (0, true);
    while let Some((value, depth)) = open.pop() {
        count += 1;
        is_plain &= depth < DEEPEST && value.get("$ref").is_none();
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    (count, is_plain)
}

fn of_type(kind: &str) -> Fields {
    Fields::from_iter([("type".to_owned(), Value::from(kind))])
}

/// A schema that preserves all fields; of a type unless that is empty.
fn anything(kind: &str) -> Value {
    let mut schema = if kind == "object" { of_type(kind) } else { Fields::new() };
    schema.insert(PRESERVES.to_owned(), true.into());
    Value::Object(schema)
}

fn copy(fields: &Fields, schema: &mut Fields) {
    for name in COPIED {
        if let Some(value) = fields.get(name) {
            schema.insert(name.to_owned(), value.clone());
        }
    }
    // Defaults of Go's zero values are not applied to fields that are not set.
    let default = fields.get("default").filter(|default| !is_zero(default));
    schema.extend(default.map(|default| ("default".to_owned(), default.clone())));
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn is_int_or_string(fields: &Fields) -> bool {
    if fields.contains_key("type") {
        return false;
    }
    let is_either = |parts: Option<&Value>| {
        let parts = parts.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let has = |kind: &str| parts.iter().any(|part| part.get("type").is_some_and(|found| found == kind));
        parts.len() == 2 && has("integer") && has("string")
    };
    fields.get(INT_OR_STRING) == Some(&Value::Bool(true))
        || is_either(fields.get("oneOf"))
        || is_either(fields.get("anyOf"))
}

/// Derives the list type from the keywords of strategic merge patches.
fn set_list_type(fields: &Fields, schema: &mut Fields) {
    let strategy = fields.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or_default();
    if schema.contains_key("x-kubernetes-list-type") || !strategy.split(',').any(|word| word == "merge") {
        return;
    }
    let Some(Value::Object(items)) = schema.get_mut("items") else { return };
    let kind = items.get("type").and_then(Value::as_str).unwrap_or_default();
    let key = fields.get("x-kubernetes-patch-merge-key").and_then(Value::as_str);
    let list_type = match key {
        Some(key) if kind == "object" => {
            let Some(property) = items.get("properties").and_then(|properties| properties.get(key)) else {
                return;
            };
            if property.get("default").is_none() {
                require(items, key);
            }
            schema.insert("x-kubernetes-list-map-keys".to_owned(), Value::Array(vec![key.into()]));
            "map"
        }
        None if !matches!(kind, "object" | "array" | "") => "set",
        _ => return,
    };
    schema.insert("x-kubernetes-list-type".to_owned(), list_type.into());
}

/// The keys of a map list are required in its items.
fn require(items: &mut Fields, key: &str) {
    let required = items.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(names) = required
        && !names.iter().any(|name| name == key)
    {
        names.push(key.into());
    }
}

/// The name in a reference.
fn name(reference: &str) -> Option<String> {
    Some(reference.strip_prefix(PREFIX)?.replace("~1", "/").replace("~0", "~"))
}
