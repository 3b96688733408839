//! Validates that the items of set and map lists are unique.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go

use std::collections::HashMap;
use std::sync::Arc;

use atoll_meta::{FieldError, FieldPath, json};
use serde_json::{Map, Value};

use crate::node::{Flags, ListType, Node, NodeId};
use crate::object_path::ObjectPath;
use crate::schema::Schema;
use crate::validate_value::MOST;

impl Schema {
    /// Errors for duplicate items.
    pub(crate) fn validate_lists(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (true, Value::Object(fields)) = (self.root().is(Flags::HOLDS_LISTS), object) {
            let path = &ObjectPath::Root(&FieldPath::nil());
            Walk { nodes: &self.nodes, errors: &mut errors }.object(self.root(), fields, path);
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

    fn value(&mut self, node: &'n Node, value: &Value, path: &ObjectPath<'_>) {
        if !node.is(Flags::HOLDS_LISTS) || self.errors.len() >= MOST {
            return;
        }
        match value {
            Value::Array(items) => self.list(node, items, path),
            Value::Object(fields) => self.object(node, fields, path),
            _ => {}
        }
    }

    fn object(&mut self, node: &'n Node, fields: &Map<String, Value>, path: &ObjectPath<'_>) {
        if let Some(child) = node.rest.node().map(|id| self.at(id)) {
            fields.iter().for_each(|(key, value)| self.value(child, value, &ObjectPath::Key(path, key)));
        }
        for (key, value) in fields {
            if let Some(child) = node.property(key).map(|id| self.at(id)) {
                self.value(child, value, &ObjectPath::Field(path, key));
            }
        }
    }

    fn list(&mut self, node: &'n Node, items: &[Value], path: &ObjectPath<'_>) {
        match node.list() {
            ListType::Atomic => {}
            ListType::Set => {
                for index in repeated(items.len(), |index| Item::Value(&items[index])) {
                    self.duplicate(path, index, items[index].clone());
                }
            }
            ListType::Map => self.map(node, items, path),
        }
        if let Some(child) = node.items.map(|id| self.at(id)) {
            for (index, item) in items.iter().enumerate() {
                self.value(child, item, &ObjectPath::Index(path, index));
            }
        }
    }

    fn duplicate(&mut self, path: &ObjectPath<'_>, index: usize, shown: Value) {
        if self.errors.len() < MOST {
            self.errors.push(FieldError::duplicate(&path.path().index(index), shown));
        }
    }

    fn map(&mut self, node: &Node, items: &[Value], path: &ObjectPath<'_>) {
        for (index, item) in items.iter().enumerate() {
            if !item.is_object() && !item.is_null() {
                let detail = "must be an object for an array of list-type map";
                self.errors.push(FieldError::invalid(&path.path().index(index), item.clone(), detail));
                return;
            }
        }
        if items.len() <= 1 {
            return;
        }
        let keys = node.keys();
        let found = match keys {
            [key] => repeated(items.len(), |index| {
                items[index].get(key.as_ref()).map_or(Item::Absent, Item::Value)
            }),
            _ => repeated(items.len(), |index| Item::Keys(keys, &items[index])),
        };
        for index in found {
            self.duplicate(path, index, Item::Keys(keys, &items[index]).shown());
        }
    }
}

#[derive(Clone, Copy)]
enum Item<'v> {
    /// The key is missing.
    Absent,
    Value(&'v Value),
    /// An item with several key fields.
    Keys(&'v [Arc<str>], &'v Value),
}

impl Item<'_> {
    fn shown(&self) -> Value {
        match self {
            Item::Absent => Value::Object(Map::new()),
            Item::Value(value) => (*value).clone(),
            Item::Keys(keys, item) => {
                let field = |key: &Arc<str>| Some((key.to_string(), item.get(key.as_ref())?.clone()));
                Value::Object(keys.iter().filter_map(field).collect())
            }
        }
    }

    /// Whether it is a scalar, which can be compared directly.
    fn is_plain(&self) -> bool {
        let plain = |value: &Value| !value.is_object() && !value.is_array();
        match self {
            Item::Absent => true,
            Item::Value(value) => plain(value),
            // With several key fields, numbers are compared as written.
            Item::Keys(keys, item) => {
                let mut fields = keys.iter().filter_map(|key| item.get(key.as_ref()));
                fields.all(|field| plain(field) && !field.is_f64())
            }
        }
    }

    fn is_same(&self, other: &Item<'_>) -> bool {
        match (self, other) {
            (Item::Absent, Item::Absent) => true,
            (Item::Value(one), Item::Value(other)) => one == other,
            (Item::Keys(keys, one), Item::Keys(_, other)) => {
                keys.iter().all(|key| one.get(key.as_ref()) == other.get(key.as_ref()))
            }
            _ => false,
        }
    }

    /// The text for comparison in long lists. Lists and objects are compared by their JSON.
    fn text(&self) -> String {
        match self {
            Item::Absent => "absent".to_owned(),
            Item::Value(Value::Number(number)) if !number.is_i64() => format!("float {number}"),
            Item::Value(value) => json::to_string(value),
            Item::Keys(..) => json::to_string(&self.shown()),
        }
    }
}

/// Maximum number of items for pairwise comparison.
const PAIRWISE_LIMIT: usize = 16;

/// The indices of duplicate values.
fn repeated<'v>(length: usize, item: impl Fn(usize) -> Item<'v>) -> Vec<usize> {
    if length <= PAIRWISE_LIMIT && (0..length).all(|index| item(index).is_plain()) {
        let second = |index: &usize| {
            let this = item(*index);
            (0..*index).filter(|other| item(*other).is_same(&this)).count() == 1
        };
        return (1..length).filter(second).collect();
    }
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(length);
    let mut found = Vec::new();
    for index in 0..length {
        let times = seen.entry(item(index).text()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
