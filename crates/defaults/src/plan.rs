//! What is to be done for each type, worked out once from the types and the rules.

use std::collections::HashMap;
use std::sync::OnceLock;

use atoll_schema::{List, Map, TypeId, TypeRef, Types};
use serde_json::Value;

use crate::object::{Object, child_mut};
use crate::resources::round;
use crate::rules::{Literal, RULES, Rule, UNFILLED};

pub struct Plans {
    all: Vec<Plan>,
    by_type: HashMap<TypeId, Option<u16>>,
}

/// What is to be done for one struct type: first the literals, then the functions, then what is below.
struct Plan {
    literals: Vec<Fill>,
    functions: Vec<fn(&mut Object)>,
    below: Vec<(&'static str, Below)>,
}

struct Fill {
    /// The struct that holds the field, where that is not the type itself.
    holder: Option<&'static str>,
    name: &'static str,
    /// Whether an empty value is different from none.
    pointer: bool,
    literal: Literal,
}

/// Where a field leads, if there is something to do there.
enum Below {
    Struct(u16),
    List(u16),
    Resources,
}

pub fn get() -> &'static Plans {
    static PLANS: OnceLock<Plans> = OnceLock::new();
    PLANS.get_or_init(|| {
        let types = Types::get();
        let rules = RULES.iter().map(|rule| (rule.of, rule)).collect();
        let mut builder = Builder { types, rules, plans: Plans { all: Vec::new(), by_type: HashMap::new() } };
        for (group, _, _, id) in types.kinds() {
            if !UNFILLED.contains(&group) {
                builder.plan(id);
            }
        }
        builder.plans
    })
}

impl Plans {
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<u16> {
        if UNFILLED.contains(&group) {
            return None;
        }
        let id = Types::get().by_kind(group, version, kind)?;
        self.by_type.get(&id).copied().flatten()
    }

    pub fn apply(&self, place: u16, object: &mut Object) {
        let plan = &self.all[usize::from(place)];
        plan.literals.iter().for_each(|fill| fill.apply(object));
        plan.functions.iter().for_each(|function| function(object));
        for (name, below) in &plan.below {
            match (below, object.get_mut(*name)) {
                (Below::Struct(place), Some(Value::Object(fields))) => self.apply(*place, fields),
                (Below::List(place), Some(Value::Array(items))) => {
                    for item in items {
                        if let Value::Object(fields) = item {
                            self.apply(*place, fields);
                        }
                    }
                }
                (Below::Resources, Some(Value::Object(amounts))) => round(amounts),
                _ => {}
            }
        }
    }
}

impl Fill {
    fn apply(&self, object: &mut Object) {
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
    rules: HashMap<&'static str, &'static Rule>,
    plans: Plans,
}

impl Builder {
    /// The place of a type's plan, if there is anything to do for it or below it.
    fn plan(&mut self, id: TypeId) -> Option<u16> {
        if let Some(known) = self.plans.by_type.get(&id) {
            return *known;
        }
        // Types that hold themselves (schemas) have nothing to fill in, so to say nothing meanwhile is right.
        self.plans.by_type.insert(id, None);
        let mut plan = Plan { literals: Vec::new(), functions: Vec::new(), below: Vec::new() };
        self.own(id, &mut plan);
        for slot in &self.types[id].slots {
            let below = match slot.kind {
                TypeRef::Struct(id) => self.plan(id).map(Below::Struct),
                TypeRef::List(List { element: TypeRef::Struct(id), .. }) => self.plan(*id).map(Below::List),
                TypeRef::Map(Map { key: Some("core/v1.ResourceList"), .. }) => Some(Below::Resources),
                _ => None,
            };
            plan.below.extend(below.map(|below| (slot.name, below)));
        }
        if plan.literals.is_empty() && plan.functions.is_empty() && plan.below.is_empty() {
            return None;
        }
        let place = u16::try_from(self.plans.all.len()).ok();
        self.plans.all.push(plan);
        self.plans.by_type.insert(id, place);
        place
    }

    /// What the rules and the markers of a type say, and those of the structs embedded in it.
    fn own(&self, id: TypeId, plan: &mut Plan) {
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
            plan.literals.push(Fill { holder, name, pointer: field.pointer, literal: *literal });
        }
        plan.functions.extend(rule.and_then(|rule| rule.then));
        for field in &owner.fields {
            if let (true, TypeRef::Struct(id)) = (field.inline, field.kind) {
                self.own(id, plan);
            }
            let marked = field.default.and_then(Literal::of_marker);
            // Upstream marks zeros as well, which says something only of pointers.
            if let Some(literal) = marked.filter(|literal| field.pointer || !literal.is_zero()) {
                plan.literals.push(Fill { holder: None, name: field.name, pointer: field.pointer, literal });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_for_a_type_that_exists() {
        get();
        for rule in RULES {
            assert!(Types::get().by_key(rule.of).is_some(), "no type is called {}", rule.of);
        }
    }
}
