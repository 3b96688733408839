//! JSON patch (RFC 6902), as the API server's library implements it.
//!
//! It deviates from the RFC in ways that clients may rely on: negative indices count from the end, replacing
//! an absent field adds it, testing an absent field for null succeeds, copying an absent field creates null,
//! and everything before the first slash of a path is ignored.

// upstream: gopkg.in/evanphx/json-patch.v4/patch.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go

mod operation;
mod pointer;

use atoll_meta::json;
use serde_json::Value;

use crate::PatchError;
use operation::{Operation, decode};
use pointer::{Container, find, steps};

pub(crate) use operation::go_type;
pub use operation::unknown_fields;

/// Maximum number of operations of a patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of bytes that all copies of a patch may add.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Maximum number of list elements that all operations of a patch may move. Inserting at the beginning of a list
/// moves the others; thousands of such operations in a long list would take seconds.
pub const MAX_MOVED_ELEMENTS: usize = 50_000_000;

/// Maximum number of times that the depth of the document is measured; after that an upper bound is used.
/// Without a limit, a patch of many moves in a large document would spend too much time on measuring.
const MAX_MEASUREMENTS: usize = 16;

/// Applies the operations of a patch in order.
///
/// # Errors
///
/// Returns an error if the patch is malformed or one of its operations fails. The target is then partially
/// changed and must be discarded.
pub fn json_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    json_patch_within(target, patch, &mut PatchCost::default())
}

/// Applies a patch. The limits apply to the cost of all patches with the same `cost`.
///
/// # Errors
///
/// See [`json_patch`].
pub fn json_patch_within(target: &mut Value, patch: &Value, cost: &mut PatchCost) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    cost.operations += operations.len();
    if cost.operations > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { count: cost.operations });
    }
    let depth = depth_of(target);
    let PatchCost { copied, moved, .. } = *cost;
    let mut document = Document { root: target, copied, moved, depth, measurements: 0 };
    let applied = operations.iter().try_for_each(|operation| document.apply(operation));
    (cost.copied, cost.moved) = (document.copied, document.moved);
    applied
}

/// The cost of patches so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatchCost {
    operations: usize,
    /// Number of bytes copied.
    copied: usize,
    /// Number of list elements moved.
    moved: usize,
}

struct Document<'a> {
    root: &'a mut Value,
    /// Number of bytes copied so far.
    copied: usize,
    /// Number of list elements moved so far.
    moved: usize,
    /// Upper bound of the depth of the document.
    depth: usize,
    measurements: usize,
}

impl Document<'_> {
    fn apply(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        match operation.kind {
            Some("add") => self.add_operation(operation),
            Some("remove") => self.remove_operation(operation),
            Some("replace") => self.replace_operation(operation),
            Some("move") => self.move_operation(operation),
            Some("copy") => self.copy_operation(operation),
            Some("test") => self.test_operation(operation),
            other => Err(PatchError::UnknownOperation { kind: other.unwrap_or("unknown").to_owned() }),
        }
    }

    fn add_operation(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = operation.path.ok_or_else(|| missing("add operation failed to decode path"))?;
        let value = operation.value.cloned().unwrap_or_default();
        let depth = depth_of(&value);
        let (container, key) = find(self.root, path).ok_or_else(|| {
            missing(&format!("add operation does not apply: doc is missing path: \"{path}\""))
        })?;
        let context = format!("error in add for path: '{path}'");
        container.add(&key, value, &mut self.moved, &context)?;
        self.check_depth(steps(path) + depth)
    }

    fn remove_operation(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = operation.path.ok_or_else(|| missing("remove operation failed to decode path"))?;
        let (container, key) = find(self.root, path).ok_or_else(|| {
            missing(&format!("remove operation does not apply: doc is missing path: \"{path}\""))
        })?;
        container.remove(&key, &mut self.moved, &format!("error in remove for path: '{path}'")).map(drop)
    }

    fn replace_operation(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = operation.path.ok_or_else(|| {
            missing("replace operation failed to decode path: operation missing path field")
        })?;
        let value = operation.value.cloned().unwrap_or_default();
        let depth = depth_of(&value);
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(PatchError::InvalidRoot);
            }
            *self.root = value;
            self.depth = depth;
            return Ok(());
        }
        let (mut container, key) = find(self.root, path).ok_or_else(|| {
            missing(&format!("replace operation does not apply: doc is missing path: {path}"))
        })?;
        match container {
            Container::Object(fields) => {
                fields.insert(key.into_owned(), value);
            }
            Container::Array(_) => {
                let element = container.get_mut(&key, "").map_err(|_| {
                    missing(&format!("replace operation does not apply: doc is missing key: {path}"))
                })?;
                if let Some(element) = element {
                    *element = value;
                }
            }
        }
        self.check_depth(steps(path) + depth)
    }

    fn move_operation(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let from = operation
            .from
            .ok_or_else(|| missing("move operation failed to decode from: operation, missing from field"))?;
        let (container, key) = find(self.root, from).ok_or_else(|| {
            missing(&format!("move operation does not apply: doc is missing from path: {from}"))
        })?;
        let value = container.remove(&key, &mut self.moved, &format!("error in move for path: '{key}'"))?;
        let path = operation
            .path
            .ok_or_else(|| missing("move operation failed to decode path: operation missing path field"))?;
        let (container, key) = find(self.root, path).ok_or_else(|| {
            missing(&format!("move operation does not apply: doc is missing destination path: {path}"))
        })?;
        container.add(&key, value, &mut self.moved, &format!("error in move for path: '{path}'"))?;
        // A moved value is at most as deep as the document below its old position.
        self.check_depth(self.depth.saturating_sub(steps(from)) + steps(path))
    }

    fn copy_operation(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let from = operation
            .from
            .ok_or_else(|| missing("copy operation failed to decode from: operation, missing from field"))?;
        let (mut container, key) = find(self.root, from).ok_or_else(|| {
            missing(&format!("copy operation does not apply: doc is missing from path: {from}"))
        })?;
        let value = match container.get_mut(&key, &format!("error in copy for from: '{from}'"))? {
            Some(value) => {
                // Check before copying, because the limit protects the memory.
                self.copied += json::to_vec(value).len();
                if self.copied > MAX_COPIED_BYTES {
                    return Err(PatchError::TooMuchCopied { bytes: self.copied });
                }
                value.clone()
            }
            None => Value::Null,
        };
        let depth = depth_of(&value);
        let path = operation.path.ok_or_else(|| missing("copy operation failed to decode path"))?;
        let (container, key) = find(self.root, path).ok_or_else(|| {
            missing(&format!("copy operation does not apply: doc is missing destination path: {path}"))
        })?;
        container.add(&key, value, &mut self.moved, "error while adding value during copy")?;
        self.check_depth(steps(path) + depth)
    }

    fn test_operation(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = operation
            .path
            .ok_or_else(|| missing("test operation failed to decode path: operation missing path field"))?;
        let failed = || PatchError::TestFailed { path: path.to_owned() };
        if path.is_empty() {
            return if operation.value == Some(&*self.root) { Ok(()) } else { Err(failed()) };
        }
        let (mut container, key) = find(self.root, path)
            .ok_or_else(|| missing(&format!("test operation does not apply: is missing path: {path}")))?;
        let actual = container.get_mut(&key, &format!("error in test for path: '{path}'"))?;
        let actual = actual.map_or(&Value::Null, |actual| &*actual);
        // A missing value equals null only.
        if *actual == *operation.value.unwrap_or(&Value::Null) { Ok(()) } else { Err(failed()) }
    }

    /// Records that the document may have this depth, and measures it if that would exceed the limit.
    fn check_depth(&mut self, depth: usize) -> Result<(), PatchError> {
        self.depth = self.depth.max(depth);
        if self.depth > json::MAX_DEPTH && self.measurements < MAX_MEASUREMENTS {
            self.measurements += 1;
            self.depth = depth_of(self.root);
        }
        if self.depth > json::MAX_DEPTH { Err(PatchError::TooDeep) } else { Ok(()) }
    }
}

/// Returns the nesting depth. The recursion is safe: no operation is applied to a document that is too deep,
/// and one operation at most doubles the depth.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
        Value::Array(elements) => 1 + elements.iter().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

fn missing(message: &str) -> PatchError {
    PatchError::Missing { message: format!("{message}: missing value") }
}

#[cfg(test)]
mod tests;
