//! Defaults of the offered schema that the merged one no longer accepts.

use std::collections::HashSet;

use atoll_crd::validate_defaults::validate;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::SchemaWalk;
use crate::difference::{Difference, shortened};
use crate::schema_path::push_field;

impl SchemaWalk<'_> {
    /// A default is part of every object without the field, so it is not removed: if the cluster does not
    /// accept it, the schemas contradict.
    pub(super) fn check_defaults(&mut self, offered: &Value, merged: &Value) {
        let errors = |schema: &Value| validate(schema, &FieldPath::nil(), true, self.deadline);
        let found = errors(merged);
        if found.is_empty() {
            return;
        }
        let text = |error: &FieldError| (error.field().to_owned(), error.kind().reason());
        let before: HashSet<_> = errors(offered).iter().map(text).collect();
        for error in found.iter().filter(|error| !before.contains(&text(error))) {
            self.contradictions.push(Difference::new(
                field(error.field()),
                "a default",
                format!("a schema that refuses it ({})", words(error)),
            ));
        }
    }
}

/// The message without the name of the value, which is empty here.
fn words(error: &FieldError) -> String {
    shortened(&error.body().replace(":  in body ", ": "))
}

/// The field of a path in a schema: `properties[spec].items.default.name` is `.spec[]`.
fn field(path: &str) -> String {
    let mut text = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.trim_start_matches('.');
        if let Some(inside) = rest.strip_prefix("properties[") {
            let Some(end) = inside.find(']') else { break };
            push_field(&mut text, &inside[..end]);
            rest = &inside[end + 1..];
        } else if let Some(after) = rest.strip_prefix("items") {
            text.push_str("[]");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("additionalProperties") {
            text.push_str("[*]");
            rest = after;
        } else {
            break;
        }
    }
    if text.is_empty() { ".".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_schemas_name_fields() {
        assert_eq!(field("properties[spec].properties[a].default"), ".spec.a");
        assert_eq!(field("properties[spec].items.additionalProperties.default.b"), ".spec[][*]");
        assert_eq!(field("<nil>"), ".");
    }
}
