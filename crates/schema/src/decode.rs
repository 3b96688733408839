//! Objects from text: what [`normalise`](crate::normalise) does, with everything found in the order of the text.
//!
//! Text without mistakes is read once. Only where something is found it is read again into nodes that remember order
//! and spelling.

mod locate;
mod remarks;

use serde_json::Value;

use crate::error::{Error, StrictRemark, TypeMismatch};
use crate::normalise::{Problem, Segment, Trouble, Walk};
use crate::text::{Node, Nodes, Values, read};
use crate::types::{TypeId, TypeRef, Types};
use locate::locate;
use remarks::Remarks;

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
        let spots = locate(&root, &problems);
        let mut remarks = Remarks::default();
        let mut mismatches = Vec::new();
        for (problem, spot) in problems.into_iter().zip(spots) {
            match problem.trouble {
                Trouble::Unknown => remarks.unknown(spot.place, problem),
                Trouble::Mismatch(_) => mismatches.push((spot, problem)),
                Trouble::Literal => {}
            }
        }
        // The first of those that end the reading counts, else the first of all.
        let first = mismatches
            .into_iter()
            .min_by(|(left, a), (right, b)| b.ends.cmp(&a.ends).then_with(|| left.place.cmp(&right.place)));
        if let Some(mismatch) = first.and_then(|(spot, problem)| problem.into_mismatch(spot.literal)) {
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
        for (problem, spot) in problems.iter().zip(locate(root, problems)) {
            if let (Trouble::Literal, Some(literal)) = (&problem.trouble, spot.literal)
                && let Some(number) = at(&mut value, &problem.path)
            {
                *number = Value::String(literal.to_owned());
            }
        }
        let problems = Walk::run(types, id, &mut value);
        (value, problems)
    }
}

fn at<'v>(value: &'v mut Value, path: &[Segment]) -> Option<&'v mut Value> {
    path.iter().rev().try_fold(value, |value, segment| match (segment, segment.name()) {
        (_, Some(name)) => value.get_mut(name),
        (Segment::Index(index), _) => value.get_mut(index),
        _ => None,
    })
}
