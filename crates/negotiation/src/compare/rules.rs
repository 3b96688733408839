//! `x-kubernetes-validations`: the rules of both.

use std::collections::HashSet;

use atoll_crd::rules;
use atoll_meta::json;
use serde_json::Value;

use super::SchemaWalk;
use crate::canonical::rule;
use crate::difference::shortened;
use crate::schema_view::{Fields, SchemaView};

const RULES: &str = "x-kubernetes-validations";

impl<'s> SchemaWalk<'s> {
    /// Adds the rules of the cluster. `losses` is the number of losses before this schema: rules compile
    /// again unless the schema is as before.
    pub(super) fn merge_rules(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        losses: usize,
        merged: &mut Fields,
    ) {
        let own = offered.list(RULES);
        let known: HashSet<String> = own.iter().map(|one| json::to_string(&rule(one))).collect();
        let mut added: Vec<&Value> = Vec::new();
        let mut seen = known.clone();
        for other in cluster.list(RULES) {
            if seen.insert(json::to_string(&rule(other))) {
                added.push(other);
            }
        }
        let is_changed = self.losses.len() > losses;
        if added.is_empty() && (own.is_empty() || !is_changed) || self.is_exhausted(size(merged)) {
            return;
        }
        let kept: Vec<Value> = own.iter().chain(added.iter().copied()).cloned().collect();
        merged.insert(RULES.to_owned(), Value::Array(kept));
        let is_resource = self.path.is_empty() || offered.is_resource;
        let whole = Value::Object(std::mem::take(merged));
        let reports = rules::reports(&whole, is_resource).unwrap_or_default();
        if let Value::Object(fields) = whole {
            *merged = fields;
        }
        let fails = |index: usize| reports.get(index).is_none_or(|report| report.error.is_some());
        let mut kept = own.to_vec();
        for (index, one) in own.iter().enumerate() {
            if is_changed && fails(index) {
                let text = words(one);
                self.contradict(text, "fields to which it does not apply");
            }
        }
        for (index, other) in added.into_iter().enumerate() {
            let words = words(other);
            if fails(own.len() + index) {
                self.remark("fields to which it does not apply", words);
                continue;
            }
            self.lose("no such rule", words);
            let mut other = other.clone();
            if let Value::Object(fields) = &mut other {
                // The field may be one that only the cluster has.
                fields.remove("fieldPath");
            }
            kept.push(other);
        }
        if kept.is_empty() {
            merged.remove(RULES);
        } else {
            merged.insert(RULES.to_owned(), Value::Array(kept));
        }
    }
}

fn words(rule: &Value) -> String {
    let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    format!("rule {}", shortened(text))
}

/// Number of schemas in a schema.
fn size(fields: &Fields) -> usize {
    let mut size = 1;
    for (name, value) in fields {
        size += match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values().filter_map(Value::as_object).map(self::size).sum()
            }
            ("items" | "additionalProperties", Value::Object(part)) => self::size(part),
            _ => 0,
        };
    }
    size
}
