//! Sets and maps that are written as lists have no item twice.

use std::collections::HashMap;

use atoll_meta::{FieldError, FieldPath, json};
use serde_json::{Map, Value};

use crate::node::{Flags, ListType, Node, NodeId};
use crate::schema::Schema;

impl Schema {
    /// The items that are there twice.
    pub(crate) fn validate_lists(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (true, Value::Object(fields)) = (self.root().is(Flags::HOLDS_LISTS), object) {
            Walk { nodes: &self.nodes, errors: &mut errors }.object(self.root(), fields, &FieldPath::nil());
        }
        errors
    }
}

struct Walk<'n, 'e> {
    nodes: &'n [Node],
    errors: &'e mut Vec<FieldError>,
}

impl<'n> Walk<'n, '_> {
    fn at(&self, id: NodeId) -> &'n Node {
        &self.nodes[id.0 as usize]
    }

    fn value(&mut self, node: &'n Node, value: &Value, path: impl FnOnce() -> FieldPath) {
        if !node.is(Flags::HOLDS_LISTS) {
            return;
        }
        match value {
            Value::Array(items) => self.list(node, items, &path()),
            Value::Object(fields) => self.object(node, fields, &path()),
            _ => {}
        }
    }

    fn object(&mut self, node: &'n Node, fields: &Map<String, Value>, path: &FieldPath) {
        if let Some(child) = node.rest.node().map(|id| self.at(id)) {
            fields.iter().for_each(|(key, value)| self.value(child, value, || path.key(key)));
        }
        for (key, value) in fields {
            if let Some(child) = node.property(key).map(|id| self.at(id)) {
                self.value(child, value, || path.child(key.clone()));
            }
        }
    }

    fn list(&mut self, node: &'n Node, items: &[Value], path: &FieldPath) {
        match node.list() {
            ListType::Atomic => {}
            ListType::Set => {
                let items: Vec<Item<'_>> = items.iter().map(Item::Value).collect();
                for index in repeated(&items) {
                    self.errors.push(FieldError::duplicate(&path.index(index), items[index].shown()));
                }
            }
            ListType::Map => self.map(node, items, path),
        }
        if let Some(child) = node.items.map(|id| self.at(id)) {
            for (index, item) in items.iter().enumerate() {
                self.value(child, item, || path.index(index));
            }
        }
    }

    fn map(&mut self, node: &Node, items: &[Value], path: &FieldPath) {
        for (index, item) in items.iter().enumerate() {
            if !item.is_object() && !item.is_null() {
                let detail = "must be an object for an array of list-type map";
                self.errors.push(FieldError::invalid(&path.index(index), item.clone(), detail));
                return;
            }
        }
        if items.len() <= 1 {
            return;
        }
        let keys = node.keys();
        if let [key] = keys {
            let values: Vec<Item<'_>> =
                items.iter().map(|item| item.get(key.as_ref()).map_or(Item::Absent, Item::Value)).collect();
            for index in repeated(&values) {
                let mut shown = Map::new();
                if let Item::Value(value) = values[index] {
                    shown.insert(key.to_string(), value.clone());
                }
                self.errors.push(FieldError::duplicate(&path.index(index), Value::Object(shown)));
            }
            return;
        }
        let values: Vec<Value> = items
            .iter()
            .map(|item| {
                let fields =
                    keys.iter().filter_map(|key| Some((key.to_string(), item.get(key.as_ref())?.clone())));
                Value::Object(fields.collect())
            })
            .collect();
        let values: Vec<Item<'_>> = values.iter().map(Item::Value).collect();
        for index in repeated(&values) {
            self.errors.push(FieldError::duplicate(&path.index(index), values[index].shown()));
        }
    }
}

#[derive(Clone, Copy)]
enum Item<'v> {
    /// The key is not there.
    Absent,
    Value(&'v Value),
}

impl Item<'_> {
    fn shown(&self) -> Value {
        match self {
            Item::Absent => Value::Object(Map::new()),
            Item::Value(value) => (*value).clone(),
        }
    }

    fn is_same(&self, other: &Item<'_>) -> bool {
        match (self, other) {
            (Item::Absent, Item::Absent) => true,
            (Item::Value(one), Item::Value(other)) => one == other,
            _ => false,
        }
    }

    /// What it is compared by where there are many. Lists and objects are compared as they are written.
    fn text(&self) -> String {
        match self {
            Item::Absent => "absent".to_owned(),
            Item::Value(Value::Number(number)) if !number.is_i64() => format!("float {number}"),
            Item::Value(value) => json::to_string(value),
        }
    }
}

/// As many items are compared each with each.
const FEW: usize = 16;

/// Where values appear for the second time.
fn repeated(items: &[Item<'_>]) -> Vec<usize> {
    let compound = |item: &Item<'_>| matches!(item, Item::Value(Value::Object(_) | Value::Array(_)));
    if items.len() <= FEW && !items.iter().any(compound) {
        let second =
            |index: &usize| items[..*index].iter().filter(|item| item.is_same(&items[*index])).count() == 1;
        return (1..items.len()).filter(second).collect();
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(items.len());
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.text()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
