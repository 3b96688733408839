//! Problems and their paths.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go
// upstream: sigs.k8s.io/json/internal/golang/encoding/json/kubernetes_patch.go

use std::rc::Rc;

use crate::error::{TypeMismatch, UnknownField};

/// One element of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A field of a struct.
    Field(&'static str),
    /// A key of the input. It may be long and have many problems below it, which share it.
    Key(Rc<str>),
    Index(usize),
}

impl Segment {
    /// Returns the name of a member; an element has none.
    pub fn name(&self) -> Option<&str> {
        match self {
            Segment::Field(name) => Some(name),
            Segment::Key(key) => Some(key),
            Segment::Index(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum ProblemKind {
    Unknown,
    Mismatch(TypeMismatch),
    /// Not an error: the notation of the number matters and is not known.
    Literal,
}

#[derive(Debug)]
pub(crate) struct Problem {
    pub kind: ProblemKind,
    /// Path, innermost first: it is extended on the way back, so that values without problems cost nothing.
    pub path: Vec<Segment>,
    /// Go's path: field names and the names of embedded structs, innermost first.
    pub fields: Vec<&'static str>,
    /// Innermost struct.
    pub owner: Option<&'static str>,
    /// Whether decoding stops here.
    pub stops: bool,
}

impl Problem {
    pub fn new(kind: ProblemKind) -> Problem {
        Problem { kind, path: Vec::new(), fields: Vec::new(), owner: None, stops: false }
    }

    pub fn unknown(name: &str) -> Problem {
        let mut problem = Problem::new(ProblemKind::Unknown);
        problem.path.push(Segment::Key(name.into()));
        problem
    }

    pub fn kind(found: String, expected: String) -> Problem {
        Problem::new(ProblemKind::Mismatch(TypeMismatch::Kind { found, field: None, expected }))
    }

    /// Returns the path as strict decoding prints it: `spec.containers[0].foo`.
    pub fn strict_path(&self) -> String {
        let mut text = String::new();
        for segment in self.path.iter().rev() {
            match (segment, segment.name()) {
                (_, Some(name)) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                (Segment::Index(index), _) => {
                    text.push('[');
                    text.push_str(&index.to_string());
                    text.push(']');
                }
                _ => {}
            }
        }
        text
    }

    /// Returns the mismatch with its path, and with the original notation of a number if it is known.
    pub fn into_mismatch(self, literal: Option<&str>) -> Option<TypeMismatch> {
        let ProblemKind::Mismatch(mut mismatch) = self.kind else { return None };
        if let TypeMismatch::Kind { field, found, .. } = &mut mismatch {
            if let Some(owner) = self.owner {
                let names: Vec<&str> = self.fields.iter().rev().copied().collect();
                *field = Some((owner, names.join(".")));
            }
            if let Some(literal) = literal.filter(|_| found.starts_with("number ")) {
                *found = format!("number {literal}");
            }
        }
        Some(mismatch)
    }
}

/// Go's limit for strict decoding errors.
pub(crate) const MAX_STRICT_ERRORS: usize = 100;

/// Maximum number of problems that are kept. More than are ever reported, because the first in the text may
/// be found late, but bounded to limit the cost of a hostile object.
pub(crate) const MAX_PROBLEMS: usize = 200;

/// Returns the result of a walk whose problems are in Go's order.
pub(super) fn report(problems: Vec<Problem>) -> Result<Vec<UnknownField>, TypeMismatch> {
    let mut unknown = Vec::new();
    let mut first = None;
    for problem in problems {
        match problem.kind {
            ProblemKind::Unknown if unknown.len() < MAX_STRICT_ERRORS => {
                unknown.push(UnknownField { path: problem.strict_path() });
            }
            ProblemKind::Unknown | ProblemKind::Literal => {}
            ProblemKind::Mismatch(_) => {
                let stops = problem.stops;
                if first.is_none() || stops {
                    first = problem.into_mismatch(None);
                }
                if stops {
                    break;
                }
            }
        }
    }
    match first {
        Some(mismatch) => Err(mismatch),
        None => Ok(unknown),
    }
}
