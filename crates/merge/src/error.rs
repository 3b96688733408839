//! Errors of patches.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go

use std::fmt;

use atoll_meta::{Status, json};

use crate::{MAX_COPIED_BYTES, MAX_MOVED_ELEMENTS, MAX_OPERATIONS};

/// The reason why a patch cannot be applied. The messages are those of upstream's libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// The document is not a patch.
    Malformed {
        /// Go's message.
        message: String,
    },
    /// The document is valid JSON, but not a merge patch.
    NotMergeable,
    /// There are more operations than allowed.
    TooManyOperations {
        /// Number of operations.
        count: usize,
    },
    /// An operation has an unknown name, or none.
    UnknownOperation {
        /// Name of the operation.
        kind: String,
    },
    /// A field of an operation, or the value at its path, is missing.
    Missing {
        /// Message about the missing part.
        message: String,
    },
    /// A path element is not a valid index of the list.
    InvalidIndex {
        /// Message about the index.
        message: String,
    },
    /// A test operation failed.
    TestFailed {
        /// Path of the test.
        path: String,
    },
    /// The document would become neither an object nor a list.
    InvalidRoot,
    /// Copies would make the document too large.
    TooMuchCopied {
        /// Number of copied bytes.
        bytes: usize,
    },
    /// The operations move too many elements of lists.
    TooMuchMoved,
    /// The document would nest too deeply.
    TooDeep,
    /// A directive of a strategic merge is invalid.
    InvalidDirective(&'static str),
    /// Strategic merge does not support lists of lists.
    ListOfLists,
    /// The values of a strategic merge have different types.
    Unmergeable {
        /// Message about the types.
        message: String,
    },
    /// A strategic merge would compare values that Go cannot compare. Upstream panics and closes the
    /// connection.
    Incomparable,
}

impl PatchError {
    /// Returns the error response.
    pub fn status(&self) -> Status {
        match self {
            PatchError::Malformed { message } => {
                Status::bad_request(format!("error decoding patch: {message}"))
            }
            PatchError::NotMergeable | PatchError::InvalidDirective(_) => {
                Status::bad_request(self.to_string())
            }
            PatchError::TooManyOperations { .. } | PatchError::TooMuchMoved => {
                Status::request_entity_too_large(self.to_string())
            }
            // Upstream fails when it decodes the result, which is not a valid object.
            PatchError::TooDeep => Status::bad_request(self.to_string()),
            // Upstream reports these as internal errors.
            PatchError::Unmergeable { .. } | PatchError::Incomparable => {
                Status::plain_internal(self.to_string())
            }
            _ => Status::invalid_generic(),
        }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::Malformed { message }
            | PatchError::Missing { message }
            | PatchError::InvalidIndex { message }
            | PatchError::Unmergeable { message } => f.write_str(message),
            PatchError::InvalidDirective(message) => f.write_str(message),
            PatchError::ListOfLists => f.write_str("lists of lists are not supported"),
            PatchError::Incomparable => f.write_str(
                "elements of a merged list, and their merge keys, must be neither null, lists nor maps",
            ),
            PatchError::NotMergeable => f.write_str("Invalid JSON Patch"),
            PatchError::TooManyOperations { count } => {
                write!(f, "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}")
            }
            PatchError::UnknownOperation { kind } => write!(f, "Unexpected kind: {kind}"),
            PatchError::TestFailed { path } => write!(f, "testing value {path} failed: test failed"),
            PatchError::InvalidRoot => f.write_str("replace operation value must be object or array"),
            PatchError::TooMuchCopied { bytes } => write!(
                f,
                "Unable to complete the copy, the accumulated size increase of copy is {bytes}, exceeding the limit \
                 {MAX_COPIED_BYTES}"
            ),
            PatchError::TooMuchMoved => write!(
                f,
                "The operations of the JSON patch move more than {MAX_MOVED_ELEMENTS} list elements; replace the list as a \
                 whole, or split the patch"
            ),
            PatchError::TooDeep => {
                write!(f, "the patched object nests more than {} levels deep", json::MAX_DEPTH)
            }
        }
    }
}

impl std::error::Error for PatchError {}
