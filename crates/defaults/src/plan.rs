//! The defaulting plan of each type, computed once from the schema and the rules.

// upstream: pkg/apis/core/v1/zz_generated.defaults.go

use std::collections::HashMap;
use std::sync::OnceLock;

use atoll_schema::{List, Map, TypeId, TypeRef, Types};
use serde_json::Value;

use crate::object::{ObjectMap, child_mut};
use crate::resources::round_up_to_milli;
use crate::rules::{GROUPS_WITHOUT_DEFAULTS, Literal, RULES, TypeDefaults};

pub struct Plans {
    all: Vec<Plan>,
    by_type: HashMap<TypeId, Option<u16>>,
}

/// The steps for one struct type: first the literals, then the functions, then nested fields.
struct Plan {
    literals: Vec<FieldDefault>,
    functions: Vec<fn(&mut ObjectMap)>,
    nested: Vec<(&'static str, Nested)>,
}

struct FieldDefault {
    /// The field whose struct contains the defaulted field, if it is not the type itself.
    holder: Option<&'static str>,
    name: &'static str,
    /// Whether the field is a pointer in Go, so that an empty value counts as set.
    pointer: bool,
    literal: Literal,
}

/// A field whose value has a plan of its own.
enum Nested {
    Struct(u16),
    List(u16),
    Resources,
}

pub fn get() -> &'static Plans {
    static PLANS: OnceLock<Plans> = OnceLock::new();
    PLANS.get_or_init(|| {
        let types = Types::get();
        let rules = RULES.iter().map(|rule| (rule.type_key, rule)).collect();
        let mut builder = Builder { types, rules, plans: Plans { all: Vec::new(), by_type: HashMap::new() } };
        for (group, _, _, id) in types.kinds() {
            if !GROUPS_WITHOUT_DEFAULTS.contains(&group) {
                builder.plan(id);
            }
        }
        builder.plans
    })
}

impl Plans {
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<u16> {
        if GROUPS_WITHOUT_DEFAULTS.contains(&group) {
            return None;
        }
        let id = Types::get().by_kind(group, version, kind)?;
        self.by_type.get(&id).copied().flatten()
    }

    pub fn apply(&self, index: u16, object: &mut ObjectMap) {
        let plan = &self.all[usize::from(index)];
        plan.literals.iter().for_each(|default| default.apply(object));
        plan.functions.iter().for_each(|function| function(object));
        for (name, nested) in &plan.nested {
            match (nested, object.get_mut(*name)) {
                (Nested::Struct(index), Some(Value::Object(fields))) => self.apply(*index, fields),
                (Nested::List(index), Some(Value::Array(items))) => {
                    for item in items {
                        if let Value::Object(fields) = item {
                            self.apply(*index, fields);
                        }
                    }
                }
                (Nested::Resources, Some(Value::Object(amounts))) => round_up_to_milli(amounts),
                _ => {}
            }
        }
    }
}

impl FieldDefault {
    fn apply(&self, object: &mut ObjectMap) {
        let holder = match self.holder {
            Some(name) => child_mut(object, name),
            None => Some(object),
        };
        let Some(holder) = holder else { return };
        let unset = match holder.get(self.name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => !self.pointer && text.is_empty(),
            Some(Value::Number(number)) => !self.pointer && number.as_i64() == Some(0),
            Some(_) => false,
        };
        if unset {
            holder.insert(self.name.to_owned(), self.literal.value());
        }
    }
}

struct Builder {
    types: &'static Types,
    rules: HashMap<&'static str, &'static TypeDefaults>,
    plans: Plans,
}

impl Builder {
    /// Returns the index of a type's plan, if there is anything to default in it or below it.
    fn plan(&mut self, id: TypeId) -> Option<u16> {
        if let Some(known) = self.plans.by_type.get(&id) {
            return *known;
        }
        // Recursive types (schemas) have no defaults, so `None` is right while their plan is being built.
        self.plans.by_type.insert(id, None);
        let mut plan = Plan { literals: Vec::new(), functions: Vec::new(), nested: Vec::new() };
        self.collect(id, &mut plan);
        for slot in &self.types[id].slots {
            let nested = match slot.kind {
                TypeRef::Struct(id) => self.plan(id).map(Nested::Struct),
                TypeRef::List(List { element: TypeRef::Struct(id), .. }) => self.plan(*id).map(Nested::List),
                TypeRef::Map(Map { key: Some("core/v1.ResourceList"), .. }) => Some(Nested::Resources),
                _ => None,
            };
            plan.nested.extend(nested.map(|nested| (slot.name, nested)));
        }
        if plan.literals.is_empty() && plan.functions.is_empty() && plan.nested.is_empty() {
            return None;
        }
        let index = u16::try_from(self.plans.all.len()).ok();
        self.plans.all.push(plan);
        self.plans.by_type.insert(id, index);
        index
    }

    /// Adds the rules and the markers of a type and of the structs embedded in it.
    fn collect(&self, id: TypeId, plan: &mut Plan) {
        let owner = &self.types[id];
        let rule = self.rules.get(owner.key);
        for (path, literal) in rule.into_iter().flat_map(|rule| rule.fields) {
            let (holder, name) = match path.split_once('.') {
                Some((holder, name)) => (Some(holder), name),
                None => (None, *path),
            };
            let declared = match holder {
                Some(holder) => self.types.field(id, holder).and_then(|field| match field.kind {
                    TypeRef::Struct(id) => self.types.field(id, name),
                    _ => None,
                }),
                None => self.types.field(id, name),
            };
            let Some(field) = declared else { panic!("{} has no field {path}", owner.key) };
            plan.literals.push(FieldDefault { holder, name, pointer: field.pointer, literal: *literal });
        }
        plan.functions.extend(rule.and_then(|rule| rule.function));
        for field in &owner.fields {
            if let (true, TypeRef::Struct(id)) = (field.inline, field.kind) {
                self.collect(id, plan);
            }
            let marked = field.default.and_then(Literal::of_marker);
            // Upstream has markers with zero values too, which only matter for pointers.
            if let Some(literal) = marked.filter(|literal| field.pointer || !literal.is_zero()) {
                plan.literals.push(FieldDefault {
                    holder: None,
                    name: field.name,
                    pointer: field.pointer,
                    literal,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_an_existing_type() {
        get();
        for rule in RULES {
            assert!(Types::get().by_key(rule.type_key).is_some(), "no type is called {}", rule.type_key);
        }
    }
}
