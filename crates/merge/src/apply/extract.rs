//! Extraction of the fields that managers have set, as opposed to defaulted ones.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/extract.go

use std::cmp::Ordering;

use atoll_meta::{json, object};
use serde_json::{Map, Value};

use super::MANAGED_FIELDS;
use super::element::Element;
use super::managed;
use super::path_set::Set;

/// Fields that are not extracted.
const EXCLUDED: &[&str] = &["apiVersion", "kind", "metadata", "status"];

/// Returns the fields of an object that managers have set, other than through its status; metadata, type and
/// status are not extracted. `None` if the object has no managers, or if they manage fields that it does not
/// have, because a manager that used another version may have used different names.
pub fn extract(object: &Value) -> Option<Map<String, Value>> {
    let entries = managed::decode(object::metadata(object)?.get(MANAGED_FIELDS)).ok()?;
    let version = object::api_version(object);
    let mut all = Set::default();
    let mut is_told = false;
    for mut entry in entries.into_iter().filter(|entry| entry.subresource != "status") {
        EXCLUDED.iter().for_each(|name| entry.set.remove(&[name], true));
        if entry.api_version != version && !entry.set.leads_into(object, 2) {
            return None;
        }
        is_told = true;
        all = all.union(entry.set);
    }
    let fields = object.as_object()?.iter();
    is_told.then(|| {
        fields
            .filter_map(|(name, value)| {
                let node = all.field(name)?;
                Some((name.clone(), node.below.part_of(value)))
            })
            .collect()
    })
}

impl Set<'_> {
    /// Whether a value has the fields of the first levels of the set.
    fn leads_into(&self, value: &Value, levels: usize) -> bool {
        levels == 0
            || self.nodes.iter().all(|node| match node.element {
                Element::Field(name) => {
                    value.get(name).is_some_and(|value| node.below.leads_into(value, levels - 1))
                }
                _ => true,
            })
    }

    /// Returns the part of a value that the set contains: the whole value if the set has no children here, or
    /// none that the value has.
    fn part_of(&self, value: &Value) -> Value {
        let leads_to_fields =
            self.nodes.first().is_some_and(|node| matches!(node.element, Element::Field(_)));
        match value {
            Value::Object(fields) if leads_to_fields => {
                let part = fields.iter().filter_map(|(name, value)| {
                    self.field(name).map(|node| (name.clone(), node.below.part_of(value)))
                });
                Value::Object(part.collect())
            }
            Value::Array(items) if !self.is_empty() && !leads_to_fields => {
                let part =
                    items.iter().enumerate().filter_map(|(index, item)| self.part_of_item(index, item));
                Value::Array(part.collect())
            }
            _ => value.clone(),
        }
    }

    fn part_of_item(&self, index: usize, item: &Value) -> Option<Value> {
        let node = self.nodes.iter().find(|node| match &node.element {
            Element::Field(_) => false,
            Element::Value(value) => is_same(value, item),
            Element::Index(position) => usize::try_from(*position).is_ok_and(|position| position == index),
            // Missing key fields of an item have their default values.
            Element::Key(key) => {
                let mut keys = key.iter().filter_map(|(name, value)| Some((value, item.get(&**name)?)));
                keys.clone().next().is_some() && keys.all(|(value, actual)| is_same(value, actual))
            }
        })?;
        let mut part = node.below.part_of(item);
        if let (Element::Key(key), Some(part)) = (&node.element, part.as_object_mut()) {
            for (name, value) in key.iter().filter_map(|(name, _)| Some((name, item.get(&**name)?))) {
                part.entry(&**name).or_insert_with(|| value.clone());
            }
        }
        Some(part)
    }
}

fn is_same(left: &Value, right: &Value) -> bool {
    json::compare(left, right) == Ordering::Equal
}
