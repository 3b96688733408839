//! `allOf`, `anyOf`, `oneOf` and `not`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::SchemaWalk;
use crate::canonical::{CONDITIONS, canonical_text};
use crate::difference::shortened;
use crate::schema_view::{Fields, OtherFields, SchemaType, SchemaView, shown};

/// The parts of a condition by their canonical texts.
type Parts<'s> = BTreeMap<String, &'s Value>;

impl<'s> SchemaWalk<'s> {
    /// `losses` is the number of losses before this schema.
    pub(super) fn merge_conditions(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        losses: usize,
        merged: &mut Fields,
    ) {
        let contradictions = self.contradictions.len();
        if offered.kind() == SchemaType::IntOrString && merged.get("x-kubernetes-int-or-string").is_none() {
            // The usual condition of int-or-string is not true of its types alone.
            remove_int_or_string(merged);
        }
        self.merge_all_of(offered, cluster, merged);
        self.merge_any_of(offered, cluster, merged);
        self.merge_one_of(offered, cluster, merged);
        self.merge_not(offered, cluster, merged);
        if self.contradictions.len() == contradictions && self.losses.len() > losses {
            self.check_declared(offered, merged);
        }
    }

    /// All parts of both.
    fn merge_all_of(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>, merged: &mut Fields) {
        let (one, other) = (parts(offered, "allOf"), parts(cluster, "allOf"));
        let mut added = Vec::new();
        for (text, part) in &other {
            if !one.contains_key(text) {
                self.lose("no such condition", format!("allOf {}", shown(part)));
                added.push((*part).clone());
            }
        }
        if !added.is_empty() {
            let kept = merged.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default();
            merged.insert("allOf".to_owned(), kept.into_iter().chain(added).collect());
        }
    }

    /// The parts that both have: a value that matches one of them is valid in both.
    fn merge_any_of(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>, merged: &mut Fields) {
        let (one, other) = (parts(offered, "anyOf"), parts(cluster, "anyOf"));
        if other.is_empty() || !one.is_empty() && one.keys().all(|part| other.contains_key(part)) {
            return;
        }
        let words = |parts: &Parts<'_>| condition_words("anyOf", parts);
        let common: Vec<Value> = match one.is_empty() {
            true => other.values().map(|part| (*part).clone()).collect(),
            false => {
                let shared = one.iter().filter(|(text, _)| other.contains_key(*text));
                shared.map(|(_, part)| (*part).clone()).collect()
            }
        };
        if common.is_empty() {
            return self.contradict(words(&one), words(&other));
        }
        self.lose(words(&one), words(&other));
        merged.insert("anyOf".to_owned(), Value::Array(common));
    }

    /// Fewer parts may accept more or fewer values, so that different lists cannot be compared.
    fn merge_one_of(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>, merged: &mut Fields) {
        let (one, other) = (offered.list("oneOf"), cluster.list("oneOf"));
        let texts = |parts: &[Value]| {
            let mut texts: Vec<String> = parts.iter().map(canonical_text).collect();
            texts.sort_unstable();
            texts
        };
        if other.is_empty() || texts(one) == texts(other) {
            return;
        }
        let words = |view| condition_words("oneOf", &parts(view, "oneOf"));
        if !one.is_empty() {
            return self.contradict(words(offered), words(cluster));
        }
        self.lose(words(offered), words(cluster));
        merged.insert("oneOf".to_owned(), Value::Array(other.to_vec()));
    }

    fn merge_not(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>, merged: &mut Fields) {
        let part = |view: SchemaView<'s>| view.fields().get("not").filter(|part| part.is_object());
        let words = |part: Option<&Value>| match part {
            Some(part) => format!("not {}", shown(part)),
            None => "no such condition".to_owned(),
        };
        let (one, Some(other)) = (part(offered), part(cluster)) else { return };
        match one {
            Some(found) if canonical_text(found) == canonical_text(other) => {}
            Some(_) => self.contradict(words(one), words(Some(other))),
            None => {
                self.lose(words(None), words(Some(other)));
                merged.insert("not".to_owned(), other.clone());
            }
        }
    }

    /// Conditions may name only fields that the schema declares.
    fn check_declared(&mut self, offered: SchemaView<'s>, merged: &mut Fields) {
        let has_conditions = CONDITIONS.iter().chain(&["not"]).any(|name| merged.contains_key(*name));
        if !has_conditions || self.is_exhausted(1) {
            return;
        }
        let whole = Value::Object(std::mem::take(merged));
        let mut schema = SchemaView::of(&whole, offered.is_open);
        schema.is_resource |= offered.is_resource;
        let missing = undeclared_in_conditions(&whole, schema);
        if let Some(missing) = missing {
            let with = format!("a condition on the field {}", shortened(missing));
            let without = format!("no field {}", shortened(missing));
            let (one, other) = match offered.properties().contains_key(missing) {
                true => (with, without),
                false => (without, with),
            };
            self.contradict(one, other);
        }
        if let Value::Object(fields) = whole {
            *merged = fields;
        }
    }
}

/// The parts of a condition. The alternatives that int-or-string already says are left out.
fn parts<'s>(view: SchemaView<'s>, name: &str) -> Parts<'s> {
    let list = view.list(name);
    let is_int_or_string = view.kind() == SchemaType::IntOrString;
    if is_int_or_string && name == "anyOf" && list.len() == 2 && list.iter().all(is_type_only) {
        return Parts::new();
    }
    let is_usual = |part: &Value| {
        let nested = part.get("anyOf").and_then(Value::as_array);
        is_int_or_string
            && name == "allOf"
            && part.as_object().is_some_and(|part| part.len() == 1)
            && nested.is_some_and(|nested| nested.len() == 2 && nested.iter().all(is_type_only))
    };
    list.iter().filter(|part| !is_usual(part)).map(|part| (canonical_text(part), part)).collect()
}

/// Whether a part consists of the type of an integer or string, as below int-or-string.
fn is_type_only(part: &Value) -> bool {
    *part == json!({ "type": "integer" }) || *part == json!({ "type": "string" })
}

fn remove_int_or_string(merged: &mut Fields) {
    let is_usual = |value: &Value| {
        value.as_array().is_some_and(|parts| parts.len() == 2 && parts.iter().all(is_type_only))
    };
    if merged.get("anyOf").is_some_and(is_usual) {
        merged.remove("anyOf");
    }
    if let Some(Value::Array(all)) = merged.get_mut("allOf") {
        all.retain(|part| !part.get("anyOf").is_some_and(is_usual));
        if all.is_empty() {
            merged.remove("allOf");
        }
    }
}

fn condition_words(name: &str, parts: &Parts<'_>) -> String {
    if parts.is_empty() {
        return "no such condition".to_owned();
    }
    let list = Value::Array(parts.values().map(|part| (*part).clone()).collect());
    format!("{name} {}", shown(&list))
}

/// The first field in a condition that the schema does not declare.
fn undeclared<'p>(part: &'p Value, schema: SchemaView<'_>) -> Option<&'p str> {
    let fields = part.as_object()?;
    for (name, child) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let declared = match (schema.properties().get(name), schema.other_fields()) {
            (Some(property), _) => SchemaView::of(property, false),
            (None, OtherFields::Values(values)) => values,
            (None, OtherFields::Preserved | OtherFields::Shallow) => continue,
            (None, _)
                if schema.is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") =>
            {
                continue;
            }
            (None, _) => return Some(name),
        };
        if let Some(missing) = undeclared(child, declared) {
            return Some(missing);
        }
    }
    if let Some(missing) = fields.get("items").and_then(|items| undeclared(items, schema.items())) {
        return Some(missing);
    }
    undeclared_in_conditions(part, schema)
}

/// The first field in the conditions of a schema that another one does not declare.
fn undeclared_in_conditions<'p>(part: &'p Value, schema: SchemaView<'_>) -> Option<&'p str> {
    let lists = CONDITIONS.iter().filter_map(|name| part.get(name)?.as_array()).flatten();
    lists.chain(part.get("not")).find_map(|part| undeclared(part, schema))
}
