//! Memory limits of compiled definitions. Sizes are estimated from the JSON before compilation, so that
//! refusing a large definition is cheap.

use std::collections::HashSet;

use atoll_cel::regexp;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

/// Maximum total size of all compiled versions of a definition, in bytes.
pub const COMPILED: u64 = 16 << 20;
/// Maximum size of the patterns of a schema that stay compiled; larger ones share a cache.
pub(crate) const KEEP_COMPILED: u64 = 1 << 20;
/// Size of patterns from which they are compiled and matched on another thread.
pub(crate) const SLOW: u64 = 128 << 10;
/// Product of pattern size and text length from which smaller patterns are matched on another thread: tens of
/// milliseconds in the worst case.
pub(crate) const SLOW_MATCH: u64 = 1 << 30;

/// Size of a version without its schema: its row, its APIService, and its discovery and OpenAPI documents.
const VERSION: u64 = 16 << 10;
/// Size of a name or a column, and of each byte of its text.
const TEXT: u64 = 64;
const COLUMN: u64 = 512;
const COLUMN_BYTE: u64 = 8;
/// Size of a node with its property name.
const NODE: u64 = 160;
/// Size of a value in an `enum` or a default.
const VALUE: u64 = 64;
/// Size of a node's type in expressions: each node with rules declares all nodes below it.
const SHAPE: u64 = 240;
/// Size of a rule, and of each byte of its text.
const RULE: u64 = 2 << 10;
const RULE_BYTE: u64 = 48;
/// Maximum length of a quoted text in a message.
const MAX_QUOTED: usize = 128;

/// The estimated size of the compiled schemas of a definition.
#[derive(Default)]
pub struct Size<'v> {
    total: u64,
    /// Patterns that were already counted; each is compiled once.
    patterns: HashSet<&'v str>,
}

/// A path step from a schema to a part of it.
#[derive(Clone, Copy)]
enum SchemaStep<'v> {
    Field(&'static str),
    Key(&'v str),
    Index(usize),
}

impl<'v> Size<'v> {
    /// Adds a schema at `path`.
    ///
    /// # Errors
    ///
    /// The field with which the total exceeds the limit.
    pub fn add(&mut self, schema: &'v Value, path: &FieldPath) -> Result<(), FieldError> {
        let mut steps = Vec::new();
        self.schema(schema, &mut steps).map(|_| ()).map_err(|value| {
            let path = steps.iter().fold(path.clone(), |path, step| match step {
                SchemaStep::Field(name) => path.child(*name),
                SchemaStep::Key(key) => path.key(key),
                SchemaStep::Index(index) => path.index(*index),
            });
            let shown: String = value.chars().take(MAX_QUOTED).collect();
            FieldError::invalid(&path, shown, too_large())
        })
    }

    /// Adds everything of a version but its schema. Every version has the names of the definition.
    ///
    /// # Errors
    ///
    /// The version with which the total exceeds the limit.
    pub fn add_version(
        &mut self,
        version: &Value,
        names: &Value,
        path: &FieldPath,
    ) -> Result<(), FieldError> {
        let size = version_size(version, names);
        if self.take(size) {
            return Ok(());
        }
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        let shown: String = name.chars().take(MAX_QUOTED).collect();
        Err(FieldError::invalid(path, shown, too_many_versions()))
    }

    /// The total size so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn take(&mut self, size: u64) -> bool {
        self.total = self.total.saturating_add(size);
        self.total <= COMPILED
    }

    /// Number of schemas in a schema including itself, or the text at `steps` with which the limit is
    /// exceeded.
    fn schema(&mut self, schema: &'v Value, steps: &mut Vec<SchemaStep<'v>>) -> Result<u64, &'v str> {
        let Some(fields) = schema.as_object() else { return Ok(0) };
        if !self.take(NODE) {
            return Err("");
        }
        let mut count = 1;
        for (name, value) in fields {
            let Some(field) = KEYWORDS.iter().find(|keyword| **keyword == name.as_str()) else {
                if matches!(name.as_str(), "enum" | "default") && !self.take(values(value)) {
                    steps.push(SchemaStep::Field(if name == "enum" { "enum" } else { "default" }));
                    return Err("");
                }
                continue;
            };
            steps.push(SchemaStep::Field(field));
            match value {
                Value::Object(parts) if is_map(field) => {
                    for (key, part) in parts {
                        steps.push(SchemaStep::Key(key));
                        count += self.schema(part, steps)?;
                        steps.pop();
                    }
                }
                Value::Array(parts) => {
                    for (index, part) in parts.iter().enumerate() {
                        steps.push(SchemaStep::Index(index));
                        count += self.schema(part, steps)?;
                        steps.pop();
                    }
                }
                part => count += self.schema(part, steps)?,
            }
            steps.pop();
        }
        let pattern = fields.get("pattern").and_then(Value::as_str).unwrap_or_default();
        if !pattern.is_empty() && self.patterns.insert(pattern) {
            // Invalid patterns are refused elsewhere.
            let size = regexp::size(pattern).unwrap_or_default();
            if !self.take(size) {
                steps.push(SchemaStep::Field("pattern"));
                return Err(pattern);
            }
        }
        let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
        if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
            steps.push(SchemaStep::Field("x-kubernetes-validations"));
            if !self.take(count * SHAPE) {
                return Err("");
            }
            for (index, rule) in rules.iter().enumerate() {
                steps.push(SchemaStep::Index(index));
                for field in ["rule", "messageExpression"] {
                    let text = rule.get(field).and_then(Value::as_str).unwrap_or_default();
                    steps.push(SchemaStep::Field(field));
                    if !text.is_empty() && !self.take(rule_size(text)) {
                        return Err(text);
                    }
                    steps.pop();
                }
                steps.pop();
            }
            steps.pop();
        }
        Ok(count)
    }
}

/// Size of a version without its schema.
fn version_size(version: &Value, names: &Value) -> u64 {
    let items = |field: &str| version.get(field).and_then(Value::as_array).into_iter().flatten();
    let columns = items("additionalPrinterColumns").chain(items("selectableFields"));
    let columns: u64 = columns.map(|column| COLUMN + COLUMN_BYTE * values(column)).sum();
    let names = names.as_object().into_iter().flatten();
    let names: u64 = names.map(|(_, name)| TEXT + values(name)).sum();
    VERSION + columns + names
}

/// Whether the versions of a definition with these names exceed the limit, whatever their schemas are. They
/// are then not compiled.
pub fn has_too_many_versions(spec: &Value, names: &Value) -> bool {
    let mut versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let mut total = 0_u64;
    versions.any(|version| {
        total = total.saturating_add(version_size(version, names));
        total > COMPILED
    })
}

/// Size of a rule without its patterns.
fn rule_size(text: &str) -> u64 {
    RULE + RULE_BYTE * text.len() as u64
}

/// Size of the rules of a node that declares `seen` nodes.
pub(crate) fn rules_size<'r>(seen: u64, rules: impl Iterator<Item = &'r str>) -> u64 {
    seen.saturating_mul(SHAPE).saturating_add(rules.map(rule_size).sum())
}

/// Keywords that contain schemas.
const KEYWORDS: [&str; 11] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "definitions",
    "dependencies",
    "items",
    "not",
    "oneOf",
    "patternProperties",
    "properties",
];

fn is_map(keyword: &str) -> bool {
    matches!(keyword, "definitions" | "dependencies" | "patternProperties" | "properties")
}

/// Steps of a deadline that a default counts.
pub(crate) fn size_of_value(value: &Value) -> usize {
    usize::try_from(values(value) / VALUE).unwrap_or(usize::MAX)
}

/// Size of the values of an `enum` or a default.
pub(crate) fn values(value: &Value) -> u64 {
    VALUE
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Array(items) => items.iter().map(values).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() as u64 + values(value)).sum()
            }
            _ => 0,
        }
}

/// The message about a definition that exceeds the limit.
pub fn too_large() -> String {
    format!(
        "with this field the definition takes more than {} MiB of memory when it is compiled; simplify its patterns and \
         rules, for instance repetitions of classes such as \\pL, or divide it into several definitions",
        COMPILED >> 20
    )
}

/// The message about a version with which a definition exceeds the limit.
fn too_many_versions() -> String {
    format!(
        "with this version the definition takes more than {} MiB of memory when it is compiled; remove versions, names and \
         columns, or divide it into several definitions",
        COMPILED >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(schema: &Value) -> Option<String> {
        let mut size = Size::default();
        size.add(schema, &FieldPath::new("schema")).err().map(|error| error.field().to_string())
    }

    fn properties(count: usize, make: impl Fn(usize) -> Value) -> Value {
        let properties = (0..count).map(|index| (format!("f{index:05}"), make(index)));
        json!({ "type": "object", "properties": properties.collect::<serde_json::Map<_, _>>() })
    }

    #[test]
    fn the_error_names_the_field_that_exceeds_the_limit() {
        let letters =
            |index: usize| json!({ "type": "string", "pattern": format!(r"^(\pL{{40}}){{5}}{index}$") });
        assert_eq!(refused(&properties(1, letters)), None);
        let found = refused(&properties(3_000, letters)).unwrap();
        assert_eq!(found, "schema.properties[f00001].pattern");
        let same = |_| json!({ "type": "string", "pattern": r"^(\pL{40}){5}$" });
        assert_eq!(refused(&properties(3_000, same)), None, "a pattern is compiled once");
        let small = |index: usize| json!({ "type": "string", "pattern": format!("^a{index}$") });
        assert_eq!(refused(&properties(500, small)), None);
        assert!(refused(&properties(30_000, small)).unwrap().ends_with("].pattern"));
        let plain = |index: usize| json!({ "type": "string", "maxLength": index });
        assert_eq!(refused(&properties(50_000, plain)), None);
        assert!(refused(&properties(200_000, plain)).unwrap().starts_with("schema.properties["));
    }

    #[test]
    fn versions_count_with_their_names_and_columns() {
        let refused = |count: usize, version: &Value, names: &Value| {
            let mut size = Size::default();
            let path = FieldPath::new("versions");
            let spec = json!({ "versions": vec![version; count] });
            let errors =
                (0..count).find_map(|index| size.add_version(version, names, &path.index(index)).err());
            assert_eq!(has_too_many_versions(&spec, names), errors.is_some());
            errors.map(|error| error.field().to_string())
        };
        let (version, names) = (json!({ "name": "v1" }), json!({ "plural": "ws", "kind": "W" }));
        assert_eq!(refused(1_000, &version, &names), None);
        assert_eq!(refused(12_000, &version, &names).unwrap(), "versions[1008]");
        let short: Vec<String> = (0..10_000).map(|index| format!("n{index}")).collect();
        let many_names = json!({ "plural": "ws", "kind": "W", "shortNames": short });
        assert_eq!(refused(10, &version, &many_names), None);
        assert!(refused(100, &version, &many_names).is_some());
        let columns: Vec<Value> = (0..100).map(|_| json!({ "name": "a", "jsonPath": ".spec.a" })).collect();
        let with_columns = json!({ "name": "v1", "additionalPrinterColumns": columns });
        assert_eq!(refused(10, &with_columns, &names), None);
        assert!(refused(1_000, &with_columns, &names).is_some());
    }

    #[test]
    fn rules_count_with_all_declared_nodes() {
        let rule = json!([{ "rule": "self == self" }]);
        let mut nested = properties(2_000, |_| json!({ "type": "string" }));
        for _ in 0..3 {
            nested =
                json!({ "type": "object", "properties": { "a": nested }, "x-kubernetes-validations": rule });
        }
        assert_eq!(refused(&nested), None);
        for _ in 0..100 {
            nested =
                json!({ "type": "object", "properties": { "a": nested }, "x-kubernetes-validations": rule });
        }
        assert!(refused(&nested).unwrap().contains(".x-kubernetes-validations"));
    }
}
