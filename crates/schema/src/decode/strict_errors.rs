//! Errors of strict decoding, in the order of the text.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/kubernetes_patch.go
// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/error.go

use std::collections::HashMap;

use atoll_meta::json::DocumentNode;

use super::locate::Position;
use crate::error::{StrictError, UnknownField};
use crate::normalise::{MAX_STRICT_ERRORS, Problem};
use crate::types::{TypeRef, Types};

#[derive(Default)]
pub(super) struct StrictErrors {
    found: Vec<(Position, PendingError)>,
}

/// A strict error before its path, which may be long, is formatted.
enum PendingError {
    Unknown(Problem),
    Duplicate(String),
}

impl StrictErrors {
    pub fn unknown(&mut self, position: Position, problem: Problem) {
        self.found.push((position, PendingError::Unknown(problem)));
    }

    /// Adds the duplicate keys, wherever strict decoding looks for them.
    pub fn repeated(&mut self, types: Option<&Types>, kind: TypeRef, root: &DocumentNode) {
        let mut search = DuplicateSearch { types, position: Vec::new(), path: Vec::new(), found: Vec::new() };
        search.node(kind, root);
        self.found.extend(
            search.found.into_iter().map(|(position, path)| (position, PendingError::Duplicate(path))),
        );
    }

    /// Returns the errors in order, without duplicates, up to Go's limit.
    pub fn finish(mut self) -> Vec<StrictError> {
        self.found.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut listed = Vec::new();
        for (_, error) in self.found {
            if listed.len() == MAX_STRICT_ERRORS {
                break;
            }
            let error = match error {
                PendingError::Unknown(problem) => {
                    StrictError::Unknown(UnknownField { path: problem.strict_path() })
                }
                PendingError::Duplicate(path) => StrictError::Duplicate(path),
            };
            if !listed.contains(&error) {
                listed.push(error);
            }
        }
        listed
    }
}

/// A search for duplicate keys.
struct DuplicateSearch<'n> {
    types: Option<&'n Types>,
    position: Position,
    /// Path in parts, as strict decoding prints it.
    path: Vec<PathElement<'n>>,
    found: Vec<(Position, String)>,
}

enum PathElement<'n> {
    Key(&'n str),
    Index(usize),
}

impl<'n> DuplicateSearch<'n> {
    fn node(&mut self, kind: TypeRef, node: &'n DocumentNode) {
        match (kind, node) {
            (TypeRef::List(list), DocumentNode::Array(elements)) => self.elements(list.element, elements),
            (TypeRef::Any, DocumentNode::Array(elements)) => self.elements(kind, elements),
            (TypeRef::Struct(_) | TypeRef::Map(_) | TypeRef::Any, DocumentNode::Object(members)) => {
                self.members(kind, members);
            }
            // Other types have custom unmarshalers, which strict decoding does not check.
            _ => {}
        }
    }

    fn elements(&mut self, kind: TypeRef, elements: &'n [DocumentNode]) {
        for (index, element) in elements.iter().enumerate() {
            self.position.push(index);
            self.path.push(PathElement::Index(index));
            self.node(kind, element);
            self.path.pop();
            self.position.pop();
        }
    }

    fn members(&mut self, kind: TypeRef, members: &'n [(String, DocumentNode)]) {
        let mut seen: HashMap<&str, usize> = HashMap::with_capacity(members.len());
        for (index, (key, member)) in members.iter().enumerate() {
            let inner = match (kind, self.types) {
                (TypeRef::Struct(id), Some(types)) => match types[id].slot(key) {
                    Some((_, slot)) => slot.kind,
                    None => continue,
                },
                (TypeRef::Map(map), _) => map.value,
                _ => TypeRef::Any,
            };
            self.position.push(index);
            self.path.push(PathElement::Key(key));
            let times = seen.entry(key).or_default();
            *times += 1;
            if *times == 2 {
                self.report();
            }
            self.node(inner, member);
            self.path.pop();
            self.position.pop();
        }
    }

    /// Records a duplicate. The search follows the text, so later ones than the limit are never listed.
    fn report(&mut self) {
        if self.found.len() == MAX_STRICT_ERRORS {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                PathElement::Key(key) if path.is_empty() => path.push_str(key),
                PathElement::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                PathElement::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        self.found.push((self.position.clone(), path));
    }
}
