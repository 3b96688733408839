//! Decoding of objects: like [`normalise`](crate::normalise), with all problems in the order of the text.
//!
//! Text without problems is parsed once. Only if there are problems it is parsed again into nodes that keep
//! order and notation.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

mod locate;
mod strict_errors;

use atoll_meta::json::{self, DocumentNode, Nodes, Values};
use serde_json::Value;

use crate::error::{Error, StrictError, TypeMismatch};
use crate::normalise::{Normaliser, Problem, ProblemKind, Segment};
use crate::types::{TypeId, TypeRef, Types};
use locate::locate;
use strict_errors::StrictErrors;

/// A decoded object in its stored form, and the errors of strict decoding in the order of the text.
#[derive(Debug)]
pub struct Decoded {
    pub value: Value,
    pub strict_errors: Vec<StrictError>,
}

/// Parsed JSON whose kind is not known yet.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t [u8],
    value: Value,
    repeated: bool,
}

/// Decodes an object of a type: the result of Go's strict decoding followed by encoding.
pub fn decode(types: &Types, id: TypeId, text: &[u8]) -> Result<Decoded, Error> {
    Ok(Document::parse(text)?.decode(types, id)?)
}

impl<'t> Document<'t> {
    /// Parses the text. The only possible error is a syntax error.
    pub fn parse(text: &'t [u8]) -> Result<Document<'t>, Error> {
        let mut values = Values::typed();
        let value = json::build(text, &mut values).map_err(|error| Error::Syntax(error.to_string()))?;
        Ok(Document { text, value, repeated: values.repeated })
    }

    /// Returns the value as it was sent.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Decodes the document as a built-in type.
    pub fn decode(mut self, types: &Types, id: TypeId) -> Result<Decoded, TypeMismatch> {
        let problems = Normaliser::run(types, id, &mut self.value);
        if problems.is_empty() && !self.repeated {
            return Ok(Decoded { value: self.value, strict_errors: Vec::new() });
        }
        self.decode_with_positions(types, id, problems)
    }

    /// Decodes the document without a type, as for custom resources.
    pub fn untyped(self) -> Decoded {
        let mut strict_errors = StrictErrors::default();
        if self.repeated {
            strict_errors.repeated(None, TypeRef::Any, &self.nodes());
        }
        Decoded { value: self.value, strict_errors: strict_errors.finish() }
    }

    fn nodes(&self) -> DocumentNode {
        // The text was parsed before, so this cannot fail.
        json::build(self.text, &mut Nodes).unwrap_or(DocumentNode::Plain)
    }

    #[cold]
    fn decode_with_positions(
        self,
        types: &Types,
        id: TypeId,
        problems: Vec<Problem>,
    ) -> Result<Decoded, TypeMismatch> {
        let root = self.nodes();
        let (value, problems) = if problems.iter().any(|problem| matches!(problem.kind, ProblemKind::Literal))
        {
            self.with_literals(types, id, &root, &problems)
        } else {
            (self.value, problems)
        };
        let located = locate(&root, &problems);
        let mut strict_errors = StrictErrors::default();
        let mut mismatches = Vec::new();
        for (problem, located) in problems.into_iter().zip(located) {
            match problem.kind {
                ProblemKind::Unknown => strict_errors.unknown(located.position, problem),
                ProblemKind::Mismatch(_) => mismatches.push((located, problem)),
                ProblemKind::Literal => {}
            }
        }
        // Errors that stop Go's decoder take precedence, then the first one in the text.
        let first = mismatches.into_iter().min_by(|(left, a), (right, b)| {
            b.stops.cmp(&a.stops).then_with(|| left.position.cmp(&right.position))
        });
        if let Some(mismatch) = first.and_then(|(located, problem)| problem.into_mismatch(located.literal)) {
            return Err(mismatch);
        }
        if self.repeated {
            strict_errors.repeated(Some(types), TypeRef::Struct(id), &root);
        }
        Ok(Decoded { value, strict_errors: strict_errors.finish() })
    }

    /// Decodes the document again with the original notation of the numbers in question.
    fn with_literals(
        &self,
        types: &Types,
        id: TypeId,
        root: &DocumentNode,
        problems: &[Problem],
    ) -> (Value, Vec<Problem>) {
        let mut value = json::build(self.text, &mut Values::typed()).unwrap_or(Value::Null);
        for (problem, located) in problems.iter().zip(locate(root, problems)) {
            if let (ProblemKind::Literal, Some(literal)) = (&problem.kind, located.literal)
                && let Some(number) = at(&mut value, &problem.path)
            {
                *number = Value::String(literal.to_owned());
            }
        }
        let problems = Normaliser::run(types, id, &mut value);
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
