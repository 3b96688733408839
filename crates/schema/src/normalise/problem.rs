//! What was found wrong, and where.

use std::rc::Rc;

use crate::error::{TypeMismatch, UnknownField};

/// One step from the object to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A field of a struct.
    Field(&'static str),
    /// A key of the text's own. It may be long and have many problems under it, which share it.
    Key(Rc<str>),
    Index(usize),
}

impl Segment {
    /// The name of a member; an element has none.
    pub fn name(&self) -> Option<&str> {
        match self {
            Segment::Field(name) => Some(name),
            Segment::Key(key) => Some(key),
            Segment::Index(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Trouble {
    Unknown,
    Mismatch(TypeMismatch),
    /// Not a mistake: how the number was written matters and is not known.
    Literal,
}

#[derive(Debug)]
pub(crate) struct Problem {
    pub trouble: Trouble,
    /// Where it is, innermost first: it grows as the walk returns, so that values without problems cost nothing.
    pub path: Vec<Segment>,
    /// Go's way there: field names and the names of embedded structs, innermost first.
    pub fields: Vec<&'static str>,
    /// The innermost struct.
    pub owner: Option<&'static str>,
    /// Whether reading ends with it.
    pub ends: bool,
}

impl Problem {
    pub fn new(trouble: Trouble) -> Problem {
        Problem { trouble, path: Vec::new(), fields: Vec::new(), owner: None, ends: false }
    }

    pub fn unknown(name: &str) -> Problem {
        let mut problem = Problem::new(Trouble::Unknown);
        problem.path.push(Segment::Key(name.into()));
        problem
    }

    pub fn kind(found: String, expected: String) -> Problem {
        Problem::new(Trouble::Mismatch(TypeMismatch::Kind { found, field: None, expected }))
    }

    /// The way as strict reading prints it: `spec.containers[0].foo`.
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

    /// The mismatch with its place in it, and with a number as it was written where that is known.
    pub fn into_mismatch(self, literal: Option<&str>) -> Option<TypeMismatch> {
        let Trouble::Mismatch(mut mismatch) = self.trouble else { return None };
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

/// Go's limit for what strict reading lists.
pub(crate) const MOST_REMARKS: usize = 100;

/// How many problems are kept. More than is ever told, since what comes first in the text may be found late; but no
/// more than a hostile object should be able to cost.
pub(crate) const MOST_PROBLEMS: usize = 200;

/// The outcome of a walk whose problems are in the order in which Go would meet them.
pub(super) fn report(problems: Vec<Problem>) -> Result<Vec<UnknownField>, TypeMismatch> {
    let mut unknown = Vec::new();
    let mut first = None;
    for problem in problems {
        match problem.trouble {
            Trouble::Unknown if unknown.len() < MOST_REMARKS => {
                unknown.push(UnknownField { path: problem.strict_path() });
            }
            Trouble::Unknown | Trouble::Literal => {}
            Trouble::Mismatch(_) => {
                let ends = problem.ends;
                if first.is_none() || ends {
                    first = problem.into_mismatch(None);
                }
                if ends {
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
