//! What storing an object in protobuf loses. Kubernetes stores built-in objects so, and what it answers has been
//! through the store: an empty list comes back as none.

use serde_json::Value;

use crate::types::{TypeId, TypeRef, Types};

/// Makes a normalised `value` what it is once it has been stored as protobuf and read again: empty lists and maps are
/// unset, and so is what has no field in protobuf (above all the kind of objects within objects).
///
/// Upstream stores all built-in objects in this form but CRDs and APIServices, which stay JSON. Its conversion gives the
/// claim templates of a StatefulSet their kind again, which is not done here.
pub fn through_protobuf(types: &Types, id: TypeId, value: &mut Value) {
    structure(types, id, value, true);
}

fn structure(types: &Types, id: TypeId, value: &mut Value, outermost: bool) {
    let Value::Object(object) = value else { return };
    let owner = &types[id];
    let mut seen = 0u64;
    object.retain(|name, value| {
        let Some((place, slot)) = owner.slot(name) else { return false };
        // The outermost kind is kept beside the message.
        let kept = slot.in_protobuf || (outermost && matches!(slot.name, "kind" | "apiVersion"));
        if !kept {
            return false;
        }
        match (slot.kind, &mut *value) {
            (TypeRef::List(_), Value::Array(elements)) if elements.is_empty() => return false,
            (TypeRef::Map(_), Value::Object(members)) if members.is_empty() => return false,
            _ => part(types, slot.kind, value),
        }
        seen |= 1 << place;
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

/// An element of a list or map is always written, so there it is empty rather than unset.
fn element(types: &Types, kind: TypeRef, value: &mut Value) {
    match (kind, &*value) {
        (TypeRef::Bytes, Value::Null) => *value = Value::String(String::new()),
        (TypeRef::List(_), Value::Null) => *value = Value::Array(Vec::new()),
        _ => part(types, kind, value),
    }
}
