//! JSONPath as in upstream's client library, for columns and selectable fields.
//!
//! Only the first result of the first expression is used, and errors give no result. Therefore templates with
//! text between expressions, `range` and `end` are parsed but give no result.

// upstream: staging/src/k8s.io/client-go/util/jsonpath/jsonpath.go

mod parse;

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Box<[PathStep]>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathStep {
    Field(Box<str>),
    Slice([Bound; 3]),
    Filter {
        left: Box<[PathStep]>,
        operator: Box<str>,
        right: Box<[PathStep]>,
    },
    Wildcard,
    Recursive,
    Union(Box<[Box<[PathStep]>]>),
    Literal(Value),
    /// `range`, `end` and all other words, which are errors here.
    Word,
}

/// A part of `[from:to:step]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bound {
    pub known: bool,
    pub value: i64,
    /// Not written, but implied as one after the first.
    pub derived: bool,
}

/// The result of a path: a part of the object, or a literal of the path.
#[derive(Clone, Debug)]
pub(crate) struct PathResult<'v>(Cow<'v, Value>);

impl<'v> PathResult<'v> {
    pub fn value(&self) -> &Cow<'v, Value> {
        &self.0
    }
}

/// The evaluation failed. The message is not used.
struct EvaluationError;

type Row<'v> = Vec<Cow<'v, Value>>;

impl JsonPath {
    /// Parses a path of a definition, without braces.
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        Ok(JsonPath { steps: parse::expression(text)?.into() })
    }

    /// The first result.
    pub(crate) fn first<'v>(&self, object: &'v Value) -> Option<PathResult<'v>> {
        // Fast path: nearly all paths are names separated by dots.
        let mut value = object;
        for step in &self.steps {
            match (step, value) {
                (PathStep::Field(name), Value::Object(fields)) => value = fields.get(name.as_ref())?,
                (PathStep::Field(_), _) => return None,
                _ => return self.search(object),
            }
        }
        Some(PathResult(Cow::Borrowed(value)))
    }

    fn search<'v>(&self, object: &'v Value) -> Option<PathResult<'v>> {
        let row = walk(vec![Cow::Borrowed(object)], &self.steps).ok()?;
        row.into_iter().next().map(PathResult)
    }

    /// The value for field selectors: as Go prints it, empty if there is none.
    pub fn text(&self, object: &Value) -> String {
        match self.first(object) {
            None => String::new(),
            Some(found) if found.value().is_null() => String::new(),
            Some(found) => crate::scale::go_print(found.value()),
        }
    }
}

fn walk<'v>(row: Row<'v>, steps: &[PathStep]) -> Result<Row<'v>, EvaluationError> {
    steps.iter().try_fold(row, |row, step| one(row, step))
}

/// The children of a value.
fn children<'v>(value: &Cow<'v, Value>) -> Row<'v> {
    match value {
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        _ => Row::new(),
    }
}

fn one<'v>(row: Row<'v>, step: &PathStep) -> Result<Row<'v>, EvaluationError> {
    match step {
        PathStep::Literal(value) => Ok(row.iter().map(|_| Cow::Owned(value.clone())).collect()),
        PathStep::Word => Err(EvaluationError),
        PathStep::Field(name) => Ok(row
            .into_iter()
            .filter_map(|value| match value {
                Cow::Borrowed(Value::Object(fields)) => fields.get(name.as_ref()).map(Cow::Borrowed),
                _ => None,
            })
            .collect()),
        PathStep::Wildcard => Ok(row.iter().flat_map(children).collect()),
        PathStep::Recursive => {
            let mut all = Row::new();
            row.into_iter().for_each(|value| descend(value, &mut all));
            Ok(all)
        }
        PathStep::Union(parts) => {
            let mut all = Row::new();
            for part in parts {
                all.extend(walk(row.clone(), part)?);
            }
            Ok(all)
        }
        PathStep::Slice(bounds) => {
            let mut all = Row::new();
            for value in row.iter().filter(|value| !value.is_null()) {
                let Cow::Borrowed(Value::Array(items)) = value else { return Err(EvaluationError) };
                match slice(items, bounds)? {
                    Some(found) => all.extend(found.map(Cow::Borrowed)),
                    None => return Ok(all),
                }
            }
            Ok(all)
        }
        PathStep::Filter { left, operator, right } => {
            let mut all = Row::new();
            for value in &row {
                let Cow::Borrowed(Value::Array(items)) = value else { return Err(EvaluationError) };
                for item in items {
                    if keeps(item, left, operator, right)? {
                        all.push(Cow::Borrowed(item));
                    }
                }
            }
            Ok(all)
        }
    }
}

fn descend<'v>(value: Cow<'v, Value>, all: &mut Row<'v>) {
    let below = children(&value);
    if !below.is_empty() {
        all.push(value);
        below.into_iter().for_each(|child| descend(child, all));
    }
}

/// The items between two bounds, or none if the bounds are invalid.
fn slice<'v>(
    items: &'v [Value],
    [from, to, step]: &[Bound; 3],
) -> Result<Option<impl Iterator<Item = &'v Value> + use<'v>>, EvaluationError> {
    let length = items.len() as i64;
    let mut start = if from.known { from.value } else { 0 };
    if start < 0 {
        start += length;
    }
    let mut end = if to.known { to.value } else { length };
    if end < 0 || (end == 0 && to.derived) {
        end += length;
    }
    if start == end {
        return Ok(None);
    }
    if start < 0
        || start >= length
        || end < 0
        || end > length
        || start > end
        || (step.known && step.value <= 0)
    {
        return Err(EvaluationError);
    }
    let step = if step.known { step.value as usize } else { 1 };
    Ok(Some(items[start as usize..end as usize].iter().step_by(step)))
}

/// Whether a filter keeps an item.
fn keeps(
    item: &Value,
    left: &[PathStep],
    operator: &str,
    right: &[PathStep],
) -> Result<bool, EvaluationError> {
    let lefts = walk(vec![Cow::Borrowed(item)], left);
    if operator == "exists" {
        return Ok(lefts.is_ok_and(|lefts| !lefts.is_empty()));
    }
    let left = match lefts?.as_slice() {
        [] => return Ok(false),
        [left] => left.clone(),
        _ => return Err(EvaluationError),
    };
    let right = match walk(vec![Cow::Borrowed(item)], right)?.as_slice() {
        [] => return Ok(false),
        [right] => right.clone(),
        _ => return Err(EvaluationError),
    };
    let order = compare(&left, &right)?;
    let ordered = || if left.is_boolean() { Err(EvaluationError) } else { Ok(()) };
    Ok(match operator {
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => ordered().map(|()| order == Ordering::Less)?,
        "<=" => ordered().map(|()| order != Ordering::Greater)?,
        ">" => ordered().map(|()| order == Ordering::Greater)?,
        ">=" => ordered().map(|()| order != Ordering::Less)?,
        _ => return Err(EvaluationError),
    })
}

/// Compares scalars of the same type; fails for all others.
fn compare(left: &Value, right: &Value) -> Result<Ordering, EvaluationError> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Ok(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()).ok_or(EvaluationError),
            _ => Err(EvaluationError),
        },
        _ => Err(EvaluationError),
    }
}

#[cfg(test)]
mod tests;
