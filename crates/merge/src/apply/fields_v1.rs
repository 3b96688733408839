//! `fieldsV1`: the JSON encoding of a set of paths.
//!
//! Each path element is a member whose name starts with its kind; a path that is a prefix of others has a
//! member `.`.

// upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fields.go

use serde_json::{Map, Value};

use super::element::{Element, ElementError};
use super::path_set::{Set, SetNode};

/// The JSON is not a set of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedFields;

impl<'a> Set<'a> {
    /// Parses `fieldsV1`.
    pub fn from_fields(fields: &'a Value) -> Result<Set<'a>, MalformedFields> {
        match fields {
            Value::Null => Ok(Set::default()),
            Value::Object(map) => read(map).map(|(set, _)| set),
            _ => Err(MalformedFields),
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub fn to_fields(&self) -> Value {
        Value::Object(self.nodes.iter().map(|node| (node.element.encode(), node.to_fields())).collect())
    }
}

impl SetNode<'_> {
    fn to_fields(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.below.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        fields.extend(self.below.nodes.iter().map(|node| (node.element.encode(), node.to_fields())));
        Value::Object(fields)
    }
}

/// Returns the set, and whether the path of the map itself is a member.
fn read(map: &Map<String, Value>) -> Result<(Set<'_>, bool), MalformedFields> {
    let mut set = Set { nodes: Vec::with_capacity(map.len()) };
    let mut member = false;
    for (name, value) in map {
        if name == "." {
            member = true;
            continue;
        }
        let element = match Element::parse(name) {
            Ok(element) => element,
            Err(ElementError::Unknown) => continue,
            Err(ElementError::Malformed) => return Err(MalformedFields),
        };
        let (below, is_member) = match value {
            Value::Object(map) => read(map)?,
            Value::Null => (Set::default(), true),
            _ => return Err(MalformedFields),
        };
        set.push(element, is_member, below);
    }
    // JSON members are sorted by bytes, which for list items differs from the order of values.
    if !set.nodes.is_sorted_by(|left, right| left.element < right.element) {
        set.nodes.sort_by(|left, right| left.element.cmp(&right.element));
        set.nodes.dedup_by(|later, kept| {
            let same = later.element == kept.element;
            if same {
                kept.member |= later.member;
                kept.below = std::mem::take(&mut later.below);
            }
            same
        });
    }
    let member = member || set.is_empty();
    Ok((set, member))
}
