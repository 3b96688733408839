//! Objects from text: what [`normalise`](crate::normalise) does, with everything found in the order of the text.
//!
//! Text without mistakes is read once. Only where something is found it is read again into nodes that remember order
//! and spelling.

use std::collections::HashSet;

use serde_json::Value;

use crate::error::{Error, StrictRemark, TypeMismatch, UnknownField};
use crate::normalise::{MOST_REMARKS, Problem, Segment, Trouble, Walk};
use crate::text::{Node, Nodes, Values, read};
use crate::types::{TypeId, TypeRef, Types};

/// An object as it is stored and served, and what strict reading would object to, in the order of the text.
#[derive(Debug)]
pub struct Decoded {
    pub value: Value,
    pub remarks: Vec<StrictRemark>,
}

/// JSON that was read and not yet understood: enough to look up its kind.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t [u8],
    value: Value,
    repeated: bool,
}

/// Reads text as a type: what Go's strict decoding and encoding again give.
pub fn decode(types: &Types, id: TypeId, text: &[u8]) -> Result<Decoded, Error> {
    Ok(Document::parse(text)?.decode(types, id)?)
}

impl<'t> Document<'t> {
    /// Reads the text; the only error is one of syntax.
    pub fn parse(text: &'t [u8]) -> Result<Document<'t>, Error> {
        let mut values = Values::default();
        let value = read(text, &mut values).map_err(Error::Syntax)?;
        Ok(Document { text, value, repeated: values.repeated })
    }

    /// The value as it was written.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Reads it as a built-in type.
    pub fn decode(mut self, types: &Types, id: TypeId) -> Result<Decoded, TypeMismatch> {
        let problems = Walk::run(types, id, &mut self.value);
        if problems.is_empty() && !self.repeated {
            return Ok(Decoded { value: self.value, remarks: Vec::new() });
        }
        self.look_again(types, id, problems)
    }

    /// Reads it without a type, as custom objects are.
    pub fn untyped(self) -> Decoded {
        let mut remarks = Remarks::default();
        if self.repeated {
            remarks.repeated(None, TypeRef::Any, &self.nodes());
        }
        Decoded { value: self.value, remarks: remarks.finish() }
    }

    fn nodes(&self) -> Node {
        // The text was read before, so it reads.
        read(self.text, &mut Nodes).unwrap_or(Node::Plain)
    }

    #[cold]
    fn look_again(self, types: &Types, id: TypeId, problems: Vec<Problem>) -> Result<Decoded, TypeMismatch> {
        let root = self.nodes();
        let (value, problems) = if problems.iter().any(|problem| matches!(problem.trouble, Trouble::Literal))
        {
            self.with_literals(types, id, &root, &problems)
        } else {
            (self.value, problems)
        };
        let mut remarks = Remarks::default();
        let mut mismatches = Vec::new();
        for problem in problems {
            let mut place = place(&root, &problem.path);
            match problem.trouble {
                Trouble::Unknown => {
                    first_of_its_name(&root, &problem.path, &mut place);
                    let path = problem.strict_path();
                    remarks.add(place, StrictRemark::Unknown(UnknownField { path }));
                }
                Trouble::Mismatch(_) => mismatches.push((place, problem)),
                Trouble::Literal => {}
            }
        }
        // The first of those that end the reading counts, else the first of all.
        mismatches.sort_by(|(left, a), (right, b)| b.ends.cmp(&a.ends).then_with(|| left.cmp(right)));
        let first = mismatches.into_iter().next().and_then(|(_, problem)| {
            let literal = literal(&root, &problem.path).map(str::to_owned);
            problem.into_mismatch(literal)
        });
        if let Some(mismatch) = first {
            return Err(mismatch);
        }
        if self.repeated {
            remarks.repeated(Some(types), TypeRef::Struct(id), &root);
        }
        Ok(Decoded { value, remarks: remarks.finish() })
    }

    /// Reads it once more with the numbers in question as they are written.
    fn with_literals(
        &self,
        types: &Types,
        id: TypeId,
        root: &Node,
        problems: &[Problem],
    ) -> (Value, Vec<Problem>) {
        let mut value = read(self.text, &mut Values::default()).unwrap_or(Value::Null);
        for problem in problems {
            if let (Trouble::Literal, Some(literal)) = (&problem.trouble, literal(root, &problem.path))
                && let Some(number) = at(&mut value, &problem.path)
            {
                *number = Value::String(literal.to_owned());
            }
        }
        let problems = Walk::run(types, id, &mut value);
        (value, problems)
    }
}

/// Where something is in the text: its place among its siblings, and that of each holder.
type Place = Vec<usize>;

/// Finds the node at a path (innermost first); of a key that stands twice the last counts.
fn walk<'n>(root: &'n Node, path: &[Segment], mut step: impl FnMut(usize)) -> Option<&'n Node> {
    let mut node = root;
    for segment in path.iter().rev() {
        let (index, next) = match (node, segment) {
            (Node::Array(elements), Segment::Index(index)) => (*index, elements.get(*index)?),
            (Node::Object(members), Segment::Key(key)) => {
                let index = members.iter().rposition(|(name, _)| name == key)?;
                (index, &members[index].1)
            }
            _ => return None,
        };
        step(index);
        node = next;
    }
    Some(node)
}

fn place(root: &Node, path: &[Segment]) -> Place {
    let mut place = Vec::with_capacity(path.len());
    walk(root, path, |index| place.push(index));
    place
}

/// Moves the place of a member to where its key stands first: that is where Go remarks on it.
fn first_of_its_name(root: &Node, path: &[Segment], place: &mut Place) {
    if let Some((Segment::Key(key), holders)) = path.split_first()
        && let Some(Node::Object(members)) = walk(root, holders, |_| {})
        && let (Some(first), Some(last)) =
            (members.iter().position(|(name, _)| name == key), place.last_mut())
    {
        *last = first;
    }
}

fn literal<'n>(root: &'n Node, path: &[Segment]) -> Option<&'n str> {
    match walk(root, path, |_| {})? {
        Node::Number(literal) => Some(literal),
        _ => None,
    }
}

fn at<'v>(value: &'v mut Value, path: &[Segment]) -> Option<&'v mut Value> {
    path.iter().rev().try_fold(value, |value, segment| match segment {
        Segment::Key(key) => value.get_mut(key),
        Segment::Index(index) => value.get_mut(index),
    })
}

/// Strict reading's remarks with their places.
#[derive(Default)]
struct Remarks {
    found: Vec<(Place, StrictRemark)>,
}

impl Remarks {
    fn add(&mut self, place: Place, remark: StrictRemark) {
        self.found.push((place, remark));
    }

    /// In order, each once, and no more of them than Go lists.
    fn finish(mut self) -> Vec<StrictRemark> {
        self.found.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut seen = HashSet::new();
        self.found
            .into_iter()
            .map(|(_, remark)| remark)
            .filter(|remark| seen.insert(remark.to_string()))
            .take(MOST_REMARKS)
            .collect()
    }

    /// Adds the keys that stand twice, wherever strict reading looks.
    fn repeated(&mut self, types: Option<&Types>, kind: TypeRef, root: &Node) {
        self.search(types, kind, root, &mut Vec::new(), "");
    }

    fn search(&mut self, types: Option<&Types>, kind: TypeRef, node: &Node, place: &mut Place, path: &str) {
        match (kind, node) {
            (TypeRef::List(list), Node::Array(elements)) => {
                self.elements(types, list.element, elements, place, path);
            }
            (TypeRef::Any, Node::Array(elements)) => self.elements(types, kind, elements, place, path),
            (TypeRef::Struct(_) | TypeRef::Map(_) | TypeRef::Any, Node::Object(members)) => {
                let mut seen = HashSet::with_capacity(members.len());
                for (index, (key, member)) in members.iter().enumerate() {
                    let inner = match (kind, types) {
                        (TypeRef::Struct(id), Some(types)) => match types[id].slot(key) {
                            Some((_, slot)) => slot.kind,
                            None => continue,
                        },
                        (TypeRef::Map(map), _) => map.value,
                        _ => TypeRef::Any,
                    };
                    let inner_path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    place.push(index);
                    if !seen.insert(key) {
                        self.add(place.clone(), StrictRemark::Duplicate(inner_path.clone()));
                    }
                    self.search(types, inner, member, place, &inner_path);
                    place.pop();
                }
            }
            // Other types read themselves, and strict reading does not look inside.
            _ => {}
        }
    }

    fn elements(
        &mut self,
        types: Option<&Types>,
        kind: TypeRef,
        elements: &[Node],
        place: &mut Place,
        path: &str,
    ) {
        for (index, element) in elements.iter().enumerate() {
            place.push(index);
            self.search(types, kind, element, place, &format!("{path}[{index}]"));
            place.pop();
        }
    }
}
