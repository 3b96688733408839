//! Strategic merge patch: a merge patch with types and directives.
//!
//! ```text
//! map ── $patch ─ $retainKeys ─ order ($setElementOrder) ─ fields ─┬─ map
//!   shape: type and patch strategy of a field                      └─ list: by merge key, by value, or replaced
//! ```
//!
//! Where types are unknown, maps are merged and lists are replaced. Upstream's peculiarities are reproduced:
//! lists that replace others and elements that are added to lists keep the nulls and directives that they
//! contain.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go

mod list;
mod order;
mod print;
mod shape;

use atoll_schema::{TypeId, Types};
use serde_json::{Map, Value};

use crate::PatchError;
use list::{List, merge_list};
use order::apply_orders;
use print::{Kind, map_text, text};
use shape::{Shape, Strategy};

pub use print::map_text as print_map;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Merges a patch into an object of the type.
///
/// The patch is consumed: the rest of it is what upstream shows if the result is not a valid object.
///
/// # Errors
///
/// Returns an error if a directive is invalid or values cannot be merged. The target is then partially
/// changed and must be discarded.
pub fn strategic_merge(
    types: &Types,
    id: TypeId,
    target: &mut Value,
    patch: &mut Value,
) -> Result<(), PatchError> {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => Merge { types }.map(Shape::of(id), target, patch),
        // Go decodes null as an empty map.
        (_, Value::Null) => Ok(()),
        (_, patch) => crate::check_merge_patch(patch),
    }
}

#[derive(Clone, Copy)]
struct Merge<'t> {
    types: &'t Types,
}

impl Merge<'_> {
    fn map(
        self,
        shape: Shape,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
    ) -> Result<(), PatchError> {
        if let Some(directive) = patch.get(DIRECTIVE) {
            match directive.as_str() {
                Some("replace") => {
                    patch.remove(DIRECTIVE);
                    original.clone_from(patch);
                }
                Some("delete") => original.clear(),
                _ => return Err(unknown_directive(directive, patch)),
            }
            return Ok(());
        }
        retain_keys(original, patch)?;
        apply_orders(self, shape, original, patch)?;
        for (key, change) in patch.iter_mut() {
            let (field, deletes) = match key.strip_prefix(DELETE_FROM_LIST) {
                None => (key.as_str(), false),
                Some(rest) => match rest.strip_prefix('/') {
                    Some("") => (key.as_str(), true),
                    Some(field) => (field, true),
                    None => {
                        return Err(PatchError::InvalidDirective("invalid patch format of primitive list"));
                    }
                },
            };
            if change.is_null() {
                original.remove(field);
                continue;
            }
            match original.get_mut(field) {
                Some(current) if Kind::of(current) == Kind::of(change) => {
                    self.field(shape, field, current, change, deletes)?;
                }
                _ if deletes => {}
                _ => {
                    discard_nulls(change);
                    match without_directives(change) {
                        Some(value) => original.insert(field.to_owned(), value),
                        None => original.remove(field),
                    };
                }
            }
        }
        Ok(())
    }

    /// Merges two values of the same kind.
    fn field(
        self,
        shape: Shape,
        name: &str,
        current: &mut Value,
        change: &mut Value,
        deletes: bool,
    ) -> Result<(), PatchError> {
        match (current, change) {
            (Value::Object(current), Value::Object(change)) => {
                let field = shape.field(self.types, name)?;
                if field.strategy == Strategy::Replace {
                    current.clone_from(change);
                    return Ok(());
                }
                self.map(field.shape, current, change)
            }
            (Value::Array(current), Value::Array(change)) => {
                let field = shape.list_field(self.types, name)?;
                if field.strategy == Strategy::Merge || deletes {
                    let list = List { elements: field.shape, merge_key: field.merge_key, deletes };
                    merge_list(self, &list, current, change).map(drop)
                } else {
                    current.clone_from(change);
                    Ok(())
                }
            }
            (current, change) => {
                current.clone_from(change);
                Ok(())
            }
        }
    }
}

/// Removes fields that `$retainKeys` does not list. It must list all fields that the patch sets.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let invalid = PatchError::InvalidDirective("invalid patch format of retainKeys");
    let Value::Array(retained) = retained else { return Err(invalid) };
    if retained.iter().any(|key| key.is_object() || key.is_array()) {
        return Err(PatchError::Incomparable);
    }
    let keys: std::collections::HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let free = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !free(key) && !keys.contains(key.as_str())) {
        return Err(invalid);
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// Removes null fields, also inside of lists. Null elements of lists stay.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, field| {
            discard_nulls(field);
            !field.is_null()
        }),
        Value::Array(elements) => elements.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Returns the value without directive maps, or `None` if it is one itself. As upstream, directives are also
/// removed from maps in the patch, but from lists only within a map.
fn without_directives(value: &mut Value) -> Option<Value> {
    match value {
        Value::Array(elements) => {
            Some(Value::Array(elements.iter_mut().filter_map(without_directives).collect()))
        }
        value => remove_directives(value).then(|| value.clone()),
    }
}

/// Removes directives. Returns whether to keep the value.
fn remove_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return false;
            }
            fields.retain(|_, field| remove_directives(field));
        }
        Value::Array(elements) => elements.retain_mut(remove_directives),
        _ => {}
    }
    true
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> PatchError {
    unmergeable(format!("unknown patch type: {} in map: {}", text(directive), map_text(patch)))
}

fn no_merge_key(element: &Map<String, Value>, key: &str) -> PatchError {
    unmergeable(format!("map: {} does not contain declared merge key: {key}", map_text(element)))
}

fn wrong_kind(expected: Kind, actual: &Value) -> PatchError {
    unmergeable(format!("expected a {}, but received a {}", expected.name(), Kind::of(actual).name()))
}

fn unmergeable(message: impl Into<String>) -> PatchError {
    PatchError::Unmergeable { message: message.into() }
}

#[cfg(test)]
mod tests;
