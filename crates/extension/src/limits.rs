//! What a definition may take when it is compiled. It is estimated from the JSON, before anything is compiled, so that
//! refusing one that is too large costs no more than reading it.

use std::collections::HashSet;

use atoll_cel::regexp;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

/// The most that all versions of a definition may take together, in bytes.
pub const COMPILED: u64 = 16 << 20;
/// Patterns stay compiled as long as those of a schema take no more than this; larger ones share one cache.
pub(crate) const KEPT: u64 = 1 << 20;
/// From here on, patterns are compiled and matched where nobody waits for the thread.
pub(crate) const SLOW: u64 = 128 << 10;
/// The same from here on for smaller ones, if this is their size times the length of what is matched: tens of milliseconds in
/// the worst case.
pub(crate) const SLOW_MATCH: u64 = 1 << 30;

/// A node of a schema, with its name in the properties of another.
const NODE: u64 = 160;
/// A value in an `enum` or a default.
const VALUE: u64 = 64;
/// What expressions see of a node: each node that has rules sees all below it.
const SHAPE: u64 = 240;
/// A rule, and each byte of its text.
const RULE: u64 = 2 << 10;
const RULE_BYTE: u64 = 48;
/// As much of a text is shown in a message.
const SHOWN: usize = 128;

/// What the schemas of a definition take, compiled.
#[derive(Default)]
pub struct Size<'v> {
    total: u64,
    /// Each is compiled once.
    patterns: HashSet<&'v str>,
}

/// A step from a schema to a part of it.
#[derive(Clone, Copy)]
enum Step<'v> {
    Field(&'static str),
    Key(&'v str),
    Index(usize),
}

impl<'v> Size<'v> {
    /// Adds a schema that stands at `path`.
    ///
    /// # Errors
    ///
    /// The field with which all together have become too large.
    pub fn add(&mut self, schema: &'v Value, path: &FieldPath) -> Result<(), FieldError> {
        let mut steps = Vec::new();
        self.schema(schema, &mut steps).map(|_| ()).map_err(|value| {
            let path = steps.iter().fold(path.clone(), |path, step| match step {
                Step::Field(name) => path.child(*name),
                Step::Key(key) => path.key(key),
                Step::Index(index) => path.index(*index),
            });
            let shown: String = value.chars().take(SHOWN).collect();
            FieldError::invalid(&path, shown, too_large())
        })
    }

    /// What has been added so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn take(&mut self, size: u64) -> bool {
        self.total = self.total.saturating_add(size);
        self.total <= COMPILED
    }

    /// How many schemas there are in a schema, itself included, or the text with which it became too large, at `steps`.
    fn schema(&mut self, schema: &'v Value, steps: &mut Vec<Step<'v>>) -> Result<u64, &'v str> {
        let Some(fields) = schema.as_object() else { return Ok(0) };
        if !self.take(NODE) {
            return Err("");
        }
        let mut count = 1;
        for (name, value) in fields {
            let Some(field) = KEYWORDS.iter().find(|keyword| **keyword == name.as_str()) else {
                if matches!(name.as_str(), "enum" | "default") && !self.take(values(value)) {
                    steps.push(Step::Field(if name == "enum" { "enum" } else { "default" }));
                    return Err("");
                }
                continue;
            };
            steps.push(Step::Field(field));
            match value {
                Value::Object(parts) if is_map(field) => {
                    for (key, part) in parts {
                        steps.push(Step::Key(key));
                        count += self.schema(part, steps)?;
                        steps.pop();
                    }
                }
                Value::Array(parts) => {
                    for (index, part) in parts.iter().enumerate() {
                        steps.push(Step::Index(index));
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
            // What is no pattern is refused for that.
            let size = regexp::size(pattern).unwrap_or_default();
            if !self.take(size) {
                steps.push(Step::Field("pattern"));
                return Err(pattern);
            }
        }
        let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
        if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
            steps.push(Step::Field("x-kubernetes-validations"));
            if !self.take(count * SHAPE) {
                return Err("");
            }
            for (index, rule) in rules.iter().enumerate() {
                steps.push(Step::Index(index));
                for field in ["rule", "messageExpression"] {
                    let text = rule.get(field).and_then(Value::as_str).unwrap_or_default();
                    steps.push(Step::Field(field));
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

/// What a rule takes, but for the patterns in it.
fn rule_size(text: &str) -> u64 {
    RULE + RULE_BYTE * text.len() as u64
}

/// What the rules of a node take that sees so many nodes.
pub(crate) fn rules_size<'r>(seen: u64, rules: impl Iterator<Item = &'r str>) -> u64 {
    seen.saturating_mul(SHAPE).saturating_add(rules.map(rule_size).sum())
}

/// Where schemas stand in schemas.
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

/// What the values of an `enum` or a default take.
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

/// Why a definition is refused.
pub fn too_large() -> String {
    format!(
        "with this field the definition takes more than {} MiB of memory when it is compiled; simplify its patterns and \
         rules, for instance repetitions of classes such as \\pL, or divide it into several definitions",
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
    fn the_field_is_named_with_which_it_becomes_too_large() {
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
    fn rules_count_with_all_that_they_see() {
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
