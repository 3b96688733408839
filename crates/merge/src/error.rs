//! What can be wrong with a patch.

use std::fmt;

use atoll_meta::{Status, json};

use crate::{MAX_COPIED_BYTES, MAX_OPERATIONS};

/// Why a patch was not applied. The texts are those of the library that upstream uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// The document is not a patch.
    Malformed {
        /// What Go says about it.
        message: String,
    },
    /// The document is JSON, but nothing that could be merged.
    NotMergeable,
    /// There are more operations than allowed.
    TooManyOperations {
        /// How many there are.
        count: usize,
    },
    /// An operation has a name that is not known, or none.
    UnknownOperation {
        /// The name.
        kind: String,
    },
    /// Something that an operation needs is not there.
    Missing {
        /// What is not there.
        message: String,
    },
    /// A step of a path is no index of the list it leads into.
    InvalidIndex {
        /// Which step of which path.
        message: String,
    },
    /// A test found another value.
    TestFailed {
        /// Where.
        path: String,
    },
    /// The whole document would become something that is neither object nor list.
    InvalidRoot,
    /// Copies would make the document too large.
    TooMuchCopied {
        /// How many bytes were copied.
        bytes: usize,
    },
    /// The document would nest too deeply.
    TooDeep,
    /// A directive of a strategic merge is not what it has to be.
    InvalidDirective(&'static str),
    /// Lists of lists have no strategic merge.
    ListOfLists,
    /// A strategic merge of things that do not go together.
    Unmergeable {
        /// What does not go together.
        message: String,
    },
    /// A strategic merge would have to tell apart what Go cannot compare. Upstream panics and hangs up.
    Incomparable,
}

impl PatchError {
    /// The answer to the request.
    pub fn status(&self) -> Status {
        match self {
            PatchError::Malformed { message } => {
                Status::bad_request(format!("error decoding patch: {message}"))
            }
            PatchError::NotMergeable | PatchError::InvalidDirective(_) => {
                Status::bad_request(self.to_string())
            }
            PatchError::TooManyOperations { .. } => Status::request_entity_too_large(self.to_string()),
            // Upstream finds out when it reads the result, which is then no valid object.
            PatchError::TooDeep => Status::bad_request(self.to_string()),
            // Upstream blames itself for these.
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
            PatchError::TooDeep => {
                write!(f, "the patched object nests more than {} levels deep", json::MAX_DEPTH)
            }
        }
    }
}

impl std::error::Error for PatchError {}
