//! What strict reading objects to, in the order of the text.

use std::collections::HashMap;

use super::locate::Place;
use crate::error::{StrictRemark, UnknownField};
use crate::normalise::{MOST_REMARKS, Problem};
use crate::text::Node;
use crate::types::{TypeRef, Types};

#[derive(Default)]
pub(super) struct Remarks {
    found: Vec<(Place, Remark)>,
}

/// A remark before its path is spelled, which may be long.
enum Remark {
    Unknown(Problem),
    Duplicate(String),
}

impl Remarks {
    pub fn unknown(&mut self, place: Place, problem: Problem) {
        self.found.push((place, Remark::Unknown(problem)));
    }

    /// Adds the keys that stand twice, wherever strict reading looks.
    pub fn repeated(&mut self, types: Option<&Types>, kind: TypeRef, root: &Node) {
        let mut search = Search { types, place: Vec::new(), path: Vec::new(), found: Vec::new() };
        search.node(kind, root);
        self.found.extend(search.found.into_iter().map(|(place, path)| (place, Remark::Duplicate(path))));
    }

    /// In order, each once, and no more of them than Go lists.
    pub fn finish(mut self) -> Vec<StrictRemark> {
        self.found.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut listed = Vec::new();
        for (_, remark) in self.found {
            if listed.len() == MOST_REMARKS {
                break;
            }
            let remark = match remark {
                Remark::Unknown(problem) => {
                    StrictRemark::Unknown(UnknownField { path: problem.strict_path() })
                }
                Remark::Duplicate(path) => StrictRemark::Duplicate(path),
            };
            if !listed.contains(&remark) {
                listed.push(remark);
            }
        }
        listed
    }
}

/// Looks for keys that stand twice.
struct Search<'n> {
    types: Option<&'n Types>,
    place: Place,
    /// As strict reading prints it, in parts.
    path: Vec<Step<'n>>,
    found: Vec<(Place, String)>,
}

enum Step<'n> {
    Key(&'n str),
    Index(usize),
}

impl<'n> Search<'n> {
    fn node(&mut self, kind: TypeRef, node: &'n Node) {
        match (kind, node) {
            (TypeRef::List(list), Node::Array(elements)) => self.elements(list.element, elements),
            (TypeRef::Any, Node::Array(elements)) => self.elements(kind, elements),
            (TypeRef::Struct(_) | TypeRef::Map(_) | TypeRef::Any, Node::Object(members)) => {
                self.members(kind, members);
            }
            // Other types read themselves, and strict reading does not look inside.
            _ => {}
        }
    }

    fn elements(&mut self, kind: TypeRef, elements: &'n [Node]) {
        for (index, element) in elements.iter().enumerate() {
            self.place.push(index);
            self.path.push(Step::Index(index));
            self.node(kind, element);
            self.path.pop();
            self.place.pop();
        }
    }

    fn members(&mut self, kind: TypeRef, members: &'n [(String, Node)]) {
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
            self.place.push(index);
            self.path.push(Step::Key(key));
            let times = seen.entry(key).or_default();
            *times += 1;
            if *times == 2 {
                self.report();
            }
            self.node(inner, member);
            self.path.pop();
            self.place.pop();
        }
    }

    /// The search follows the text, so the first hundred it finds are all that can be listed.
    fn report(&mut self) {
        if self.found.len() == MOST_REMARKS {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        self.found.push((self.place.clone(), path));
    }
}
