//! Random strategic merge patches of an object, partly valid, with valid and invalid directives.

use atoll_meta::json;
use atoll_samples::Generator;
use atoll_schema::{Field, TypeId, TypeRef, Types};
use serde_json::{Map, Value, json};

pub struct Patches<'g> {
    pub types: &'static Types,
    pub generator: &'g mut Generator,
}

impl Patches<'_> {
    pub fn object(&mut self, id: TypeId, existing: &Value) -> Value {
        Value::Object(self.structure(id, existing, 0))
    }

    fn structure(&mut self, id: TypeId, existing: &Value, depth: usize) -> Map<String, Value> {
        let mut patch = Map::new();
        let slots = &self.types[id].slots;
        if slots.is_empty() {
            return patch;
        }
        for _ in 0..self.generator.below(if depth > 4 { 3 } else { 5 }) + 1 {
            // Prefer existing fields.
            let known: Vec<&str> =
                existing.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
            let there = !known.is_empty() && !self.generator.one_in(4);
            let name = if there {
                known[self.generator.below(known.len())]
            } else {
                slots[self.generator.below(slots.len())].name
            };
            let Some(field) = self.types.field(id, name) else { continue };
            self.field(field, &existing[name], depth, &mut patch);
        }
        self.directives(existing, &mut patch);
        patch
    }

    fn field(&mut self, field: &Field, existing: &Value, depth: usize, patch: &mut Map<String, Value>) {
        let value = match field.kind {
            _ if self.generator.one_in(14) => Value::Null,
            _ if self.generator.one_in(60) => self.invalid_value(),
            TypeRef::Struct(id) if depth < 9 => Value::Object(self.structure(id, existing, depth + 1)),
            TypeRef::Map(map) => {
                let mut members = Map::new();
                for _ in 0..self.generator.below(3) {
                    let key = format!("key.io/{}", self.generator.below(4));
                    let value = match map.value {
                        _ if self.generator.one_in(5) => Value::Null,
                        TypeRef::Struct(id) if depth < 9 => {
                            Value::Object(self.structure(id, &existing[&key], depth + 1))
                        }
                        kind => self.value(kind),
                    };
                    members.insert(key, value);
                }
                self.directives(existing, &mut members);
                Value::Object(members)
            }
            TypeRef::List(list) => return self.list(field, list.element, existing, depth, patch),
            kind => self.value(kind),
        };
        patch.insert(field.name.to_owned(), value);
    }

    fn list(
        &mut self,
        field: &Field,
        element: TypeRef,
        existing: &Value,
        depth: usize,
        patch: &mut Map<String, Value>,
    ) {
        let old = existing.as_array().map_or(&[][..], Vec::as_slice);
        let key = field.patch_merge_key.unwrap_or_default();
        let mut elements = Vec::new();
        for _ in 0..self.generator.below(5) {
            let chosen = (!old.is_empty()).then(|| &old[self.generator.below(old.len())]);
            elements.push(match (element, key) {
                _ if self.generator.one_in(80) => self.invalid_value(),
                (TypeRef::Struct(id), _) if depth < 9 => {
                    let chosen = chosen.filter(|_| !self.generator.one_in(3)).unwrap_or(&Value::Null);
                    let mut change = self.structure(id, chosen, depth + 2);
                    if !key.is_empty() && !self.generator.one_in(40) {
                        let value = chosen.get(key).cloned().unwrap_or_else(|| {
                            self.value(self.types.field(id, key).map_or(TypeRef::String, |field| field.kind))
                        });
                        change.insert(key.to_owned(), value);
                    }
                    if self.generator.one_in(7) {
                        let directive = ["delete", "delete", "delete", "replace", "merge", "odd"]
                            [self.generator.below(6)];
                        change.insert("$patch".to_owned(), json!(directive));
                    }
                    Value::Object(change)
                }
                _ => match chosen.filter(|_| self.generator.one_in(2)) {
                    Some(chosen) => chosen.clone(),
                    None => self.value(element),
                },
            });
        }
        if self.generator.one_in(3) {
            let order = self.order(old, &elements, key);
            patch.insert(format!("$setElementOrder/{}", field.name), order);
        }
        if self.generator.one_in(if key.is_empty() { 4 } else { 30 }) {
            let mut unwanted: Vec<Value> = old.iter().filter(|_| self.generator.one_in(2)).cloned().collect();
            if self.generator.one_in(3) {
                unwanted.push(self.value(element));
            }
            let unwanted = if self.generator.one_in(20) { Value::Null } else { Value::Array(unwanted) };
            patch.insert(format!("$deleteFromPrimitiveList/{}", field.name), unwanted);
        }
        if !self.generator.one_in(6) {
            patch.insert(field.name.to_owned(), Value::Array(elements));
        }
    }

    /// Generates an order that is mostly valid: the patched elements in order, and some of the others between
    /// them.
    fn order(&mut self, old: &[Value], elements: &[Value], key: &str) -> Value {
        let name = |element: &Value| match key {
            "" => element.clone(),
            key => json!({key: element[key]}),
        };
        let mut order: Vec<Value> = Vec::new();
        for element in elements.iter().filter(|element| element.get("$patch").is_none()).map(name) {
            if !order.contains(&element) {
                order.push(element);
            }
        }
        for element in old.iter().map(name) {
            if !order.contains(&element) && !self.generator.one_in(3) {
                order.insert(self.generator.below(order.len() + 1), element);
            }
        }
        if self.generator.one_in(12) {
            let invalid_value = self.invalid_value();
            order.insert(self.generator.below(order.len() + 1), invalid_value);
        }
        if self.generator.one_in(12) {
            order.reverse();
        }
        if self.generator.one_in(15) { Value::Array(Vec::new()) } else { Value::Array(order) }
    }

    fn directives(&mut self, existing: &Value, patch: &mut Map<String, Value>) {
        if self.generator.one_in(12) {
            let mut keys: Vec<Value> =
                patch.keys().filter(|key| !key.starts_with('$')).map(|key| json!(key)).collect();
            keys.extend(
                existing
                    .as_object()
                    .into_iter()
                    .flat_map(Map::keys)
                    .filter(|_| self.generator.one_in(2))
                    .map(|key| json!(key)),
            );
            if self.generator.one_in(10) {
                keys.pop();
            }
            let keys = if self.generator.one_in(15) { self.invalid_value() } else { Value::Array(keys) };
            patch.insert("$retainKeys".to_owned(), keys);
        }
        if self.generator.one_in(40) {
            let directive = ["replace", "replace", "delete", "merge", "odd"][self.generator.below(5)];
            patch.insert("$patch".to_owned(), json!(directive));
        }
        if self.generator.one_in(60) {
            let (invalid_value, key) = (
                self.invalid_value(),
                [
                    "$patch",
                    "$setElementOrder",
                    "$setElementOrder/odd",
                    "$deleteFromPrimitiveList",
                    "$deleteFromPrimitiveList/odd",
                    "$retainKeys",
                    "odd",
                ],
            );
            patch.insert(key[self.generator.below(key.len())].to_owned(), invalid_value);
        }
    }

    fn value(&mut self, kind: TypeRef) -> Value {
        let text = self.generator.anything_of(self.types, kind);
        json::parse(text.as_bytes()).map_or(Value::Null, |parsed| parsed.value)
    }

    fn invalid_value(&mut self) -> Value {
        let invalid_value = [
            json!(null),
            json!(1),
            json!(1.5),
            json!(3.0),
            json!("odd"),
            json!(true),
            json!([]),
            json!({}),
            json!([null]),
            json!([{}]),
            json!(["odd", 1]),
            json!({"name": null, "a": [1, "b"]}),
            json!([[1]]),
            json!(99_999_999_999_i64),
            json!({"$patch": "delete"}),
        ];
        invalid_value[self.generator.below(invalid_value.len())].clone()
    }
}
