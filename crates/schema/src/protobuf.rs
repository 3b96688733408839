//! The effects of storing an object as protobuf. Kubernetes stores built-in objects as protobuf, so responses
//! show these effects: an empty list is returned as absent.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go

use serde_json::Value;

use crate::types::{TypeId, TypeRef, Types};

/// Changes a normalised `value` as storing it as protobuf would: empty lists and maps become unset, as do
/// fields that protobuf does not have (mainly the kind of nested objects).
///
/// Upstream stores all built-in objects as protobuf except for CustomResourceDefinitions and APIServices,
/// which are stored as JSON. Its conversion restores the kind of the claim templates of a StatefulSet, which
/// is not done here.
pub fn through_protobuf(types: &Types, id: TypeId, value: &mut Value) {
    structure(types, id, value, true);
}

fn structure(types: &Types, id: TypeId, value: &mut Value, outermost: bool) {
    let Value::Object(object) = value else { return };
    let owner = &types[id];
    let mut seen = 0u64;
    object.retain(|name, value| {
        let Some((index, slot)) = owner.slot(name) else { return false };
        // The outermost kind is stored beside the message.
        let kept = slot.in_protobuf || (outermost && matches!(slot.name, "kind" | "apiVersion"));
        if !kept {
            return false;
        }
        match (slot.kind, &mut *value) {
            (TypeRef::List(_), Value::Array(elements)) if elements.is_empty() => return false,
            (TypeRef::Map(_), Value::Object(members)) if members.is_empty() => return false,
            _ => part(types, slot.kind, value),
        }
        seen |= 1 << index;
        true
    });
    if owner.lacks(seen) {
        types.fill(owner, seen, object);
    }
}

fn part(types: &Types, kind: TypeRef, value: &mut Value) {
    match (kind, &mut *value) {
        (TypeRef::Struct(id), _) => structure(types, id, value, false),
        (TypeRef::List(list), Value::Array(elements)) => {
            elements.iter_mut().for_each(|value| element(types, list.element, value));
        }
        (TypeRef::Map(map), Value::Object(members)) => {
            members.values_mut().for_each(|value| element(types, map.value, value));
        }
        _ => {}
    }
}

/// Changes an element of a list or map, which is always written and so becomes empty rather than unset.
fn element(types: &Types, kind: TypeRef, value: &mut Value) {
    match (kind, &*value) {
        (TypeRef::Bytes, Value::Null) => *value = Value::String(String::new()),
        (TypeRef::List(_), Value::Null) => *value = Value::Array(Vec::new()),
        _ => part(types, kind, value),
    }
}
