//! The planner: turns a checked expression into steps. Names become slots, calls get their overloads,
//! constants are folded.
//!
//! The steps are split as upstream does, because costs count steps: a variable with its selections is one
//! attribute.

// upstream: github.com/google/cel-go/interpreter/planner.go

mod steps;

use std::sync::Arc;

pub use steps::*;

use crate::check::{Checked, Reference};
use crate::error::Error;
use crate::evaluate::fold;
use crate::library::{search_all, search_first};
use crate::regexp;
use crate::syntax::tree::{ACCUMULATOR, Id, Node};
use crate::value::{Text, Value};

/// Plans a checked expression.
///
/// # Errors
///
/// Returns an error if the conversion of a constant fails.
pub fn plan(checked: &Checked) -> Result<Plan, Error> {
    let mut planner = Planner { checked, variables: Vec::new(), locals: Vec::new(), slots: 0, patterns: 0 };
    let root = planner.step(checked.tree.root)?;
    Ok(Plan { root, variables: planner.variables, slots: planner.slots, patterns: planner.patterns })
}

struct Planner<'a> {
    checked: &'a Checked,
    variables: Vec<Arc<str>>,
    /// Comprehension variables in scope and their slots.
    locals: Vec<(Arc<str>, usize)>,
    slots: usize,
    /// Memory of the compiled constant patterns.
    patterns: u64,
}

type StepResult = Result<Step, Error>;
/// A constructor of a step with two operands.
type Binary = fn(Box<[Step; 2]>) -> Step;

impl Planner<'_> {
    fn step(&mut self, id: Id) -> StepResult {
        let checked = self.checked;
        if let Reference::Variable(name) = &checked.references[id] {
            let base = self.variable(name);
            return Ok(Step::Attribute(Box::new(Attribute { base, selections: Vec::new() })));
        }
        if let Reference::TypeName(name) = &checked.references[id] {
            if let "duration" | "timestamp" = &**name {
                return Err(Error::new(format!("reference to undefined type: {name}")));
            }
            return Ok(Step::Constant(Value::Type(name.clone())));
        }
        match &checked.tree.nodes[id] {
            Node::Literal(value) => Ok(Step::Constant(value.clone())),
            Node::Select { operand, field, test } => {
                let key = SelectionKey::Constant(Value::String(Text::Shared(field.clone())));
                let operand = self.step(*operand)?;
                let mut attribute = attribute_of(operand);
                attribute.add(Selection { key, optional: false, test: *test });
                let attribute = Box::new(attribute);
                Ok(if *test { Step::Test(attribute) } else { Step::Attribute(attribute) })
            }
            Node::Call { target, function, arguments } => {
                let mut steps = Vec::with_capacity(arguments.len() + 1);
                for argument in target.iter().chain(arguments) {
                    steps.push(self.step(*argument)?);
                }
                self.call(id, function, steps)
            }
            Node::List { items } => self.list(items),
            Node::Map { entries } => self.map(entries),
            Node::Comprehension(it) => {
                let outside = self.locals.len();
                let start = self.step(it.start)?;
                let range = self.step(it.range)?;
                let slot = outside;
                self.locals.push((it.accumulator.clone(), slot));
                self.locals.push((it.variable.clone(), slot + 1));
                let second = it.second.clone().unwrap_or_else(|| "".into());
                self.locals.push((second, slot + 2));
                self.slots = self.slots.max(self.locals.len());
                let condition = self.step(it.condition)?;
                let step = self.step(it.step)?;
                // The result expression cannot refer to the variables, but comprehensions in it must not
                // reuse their slots.
                self.locals[outside + 1].0 = "".into();
                self.locals[outside + 2].0 = "".into();
                let result = self.step(it.result)?;
                self.locals.truncate(outside);
                let two = it.second.is_some();
                Ok(Step::Comprehension(Box::new(ComprehensionStep {
                    range,
                    slot,
                    two,
                    start,
                    condition,
                    step,
                    result,
                })))
            }
            Node::Message { name, .. } => Err(Error::new(format!("unknown type: {name}"))),
            Node::Name(name) => Err(Error::new(format!("no such attribute(s): {name}"))),
            Node::Invalid => Err(Error::new("invalid expression")),
        }
    }

    fn variable(&mut self, name: &Arc<str>) -> Base {
        if let Some((_, slot)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Base::Local(*slot);
        }
        let known = self.variables.iter().position(|known| known == name);
        let slot = known.unwrap_or_else(|| {
            self.variables.push(name.clone());
            self.variables.len() - 1
        });
        Base::Variable(slot, name.clone())
    }

    fn list(&mut self, items: &[(Id, bool)]) -> StepResult {
        let mut steps = Vec::with_capacity(items.len());
        for (item, optional) in items {
            steps.push((self.step(*item)?, *optional));
        }
        let constant = steps.iter().all(|(step, _)| matches!(step, Step::Constant(_)));
        let step = Step::List(steps.into());
        if constant { fold(&step).map(Step::Constant) } else { Ok(step) }
    }

    fn map(&mut self, entries: &[(Id, Id, bool)]) -> StepResult {
        let mut steps = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            steps.push((self.step(*key)?, self.step(*value)?, *optional));
        }
        let constant = steps
            .iter()
            .all(|(key, value, _)| matches!((key, value), (Step::Constant(_), Step::Constant(_))));
        let step = Step::Map(steps.into());
        if constant { fold(&step).map(Step::Constant) } else { Ok(step) }
    }

    fn call(&mut self, id: Id, function: &str, mut arguments: Vec<Step>) -> StepResult {
        let Reference::Function(declaration, overloads) = &self.checked.references[id] else {
            return Err(Error::new(format!("no such overload: {function}")));
        };
        let single = match &overloads[..] {
            [only] => Some(only.overload.id),
            _ => None,
        };
        if let [_, _] = &arguments[..] {
            let pair = |arguments: Vec<Step>| <Box<[Step; 2]>>::try_from(arguments.into_boxed_slice());
            let special: Option<Binary> = match (declaration.name, single) {
                ("_&&_", _) => Some(Step::And),
                ("_||_", _) => Some(Step::Or),
                ("_==_", _) => Some(Step::Equal),
                ("_!=_", _) => Some(Step::NotEqual),
                ("or", None | Some("optional_or_optional")) => Some(Step::OptionalOr),
                ("orValue", None | Some("optional_orValue_value")) => Some(Step::OptionalOrValue),
                _ => None,
            };
            if let Some(special) = special {
                return pair(arguments).map(special).map_err(|_| Error::NoSuchOverload);
            }
        }
        match (declaration.name, &mut arguments[..]) {
            ("_?_:_", [condition, yes, no]) => {
                let (condition, yes, no) = (take(condition), take(yes), take(no));
                let either = Base::Either(Box::new((condition, inner(yes), inner(no))));
                return Ok(Step::Attribute(Box::new(Attribute { base: either, selections: Vec::new() })));
            }
            ("_[_]" | "_[?_]" | "_?._", [operand, index]) => {
                let key = match take(index) {
                    Step::Constant(value) => SelectionKey::Constant(value),
                    Step::Attribute(attribute) | Step::Test(attribute) => SelectionKey::Attribute(*attribute),
                    other => SelectionKey::Value(other),
                };
                let mut attribute = attribute_of(take(operand));
                attribute.add(Selection { key, optional: declaration.name != "_[_]", test: false });
                return Ok(Step::Attribute(Box::new(attribute)));
            }
            ("@in", [value, Step::Constant(list)]) if single == Some("in_list") => {
                if list.size() == Some(0) {
                    return Ok(Step::Constant(Value::Bool(false)));
                }
                let simple = |item: Result<Value<'static>, Error>| {
                    matches!(
                        item,
                        Ok(Value::Bool(_)
                            | Value::Int(_)
                            | Value::Uint(_)
                            | Value::Double(_)
                            | Value::String(_))
                    )
                };
                if list.as_list().is_some_and(|list| list.iter().all(simple)) {
                    return Ok(Step::Member(Box::new((take(value), list.clone()))));
                }
            }
            ("matches", [text, Step::Constant(pattern)]) if pattern.as_str().is_some() => {
                let (regex, size) = self.pattern(pattern.as_str().unwrap_or_default())?;
                let (text, pattern) = (take(text), pattern.clone());
                let method = single == Some("matches_string");
                return Ok(Step::Matches(Box::new(MatchesCall { text, pattern, regex, size, method })));
            }
            ("find" | "findAll", [text, Step::Constant(pattern), limit @ ..])
                if pattern.as_str().is_some() =>
            {
                let (regex, size) = self.pattern(pattern.as_str().unwrap_or_default())?;
                let call = if declaration.name == "find" { search_first } else { search_all };
                let (text, pattern, limit) = (take(text), pattern.clone(), limit.first_mut().map(take));
                return Ok(Step::Find(Box::new(FindCall { text, pattern, limit, regex, size, call })));
            }
            _ => {}
        }
        let converts = matches!(
            declaration.name,
            "bool"
                | "bytes"
                | "double"
                | "duration"
                | "dyn"
                | "int"
                | "string"
                | "timestamp"
                | "type"
                | "uint"
        );
        let constant = converts && matches!(arguments[..], [Step::Constant(_)]);
        let accumulates =
            matches!(declaration.name, "_+_" | "cel.@mapInsert") && self.is_accumulator(arguments.first());
        let step = Step::Call(Box::new(Call {
            function: declaration.name,
            overloads: overloads.clone(),
            arguments,
            accumulates,
        }));
        if constant { fold(&step).map(Step::Constant) } else { Ok(step) }
    }

    /// Compiles a constant pattern and returns its size. The limit applies to all patterns of an expression
    /// together.
    fn pattern(&mut self, pattern: &str) -> Result<(Arc<regex::Regex>, u64), Error> {
        let size = regexp::size(pattern).map_err(|error| Error::new(error.to_string()))?;
        self.patterns = self.patterns.saturating_add(size);
        if self.patterns > regexp::MAX_COMPILED_SIZE {
            return Err(Error::new("the patterns of the expression are too large"));
        }
        Ok((regexp::compile(pattern)?, size))
    }

    /// Whether a step is just the accumulator of a comprehension.
    fn is_accumulator(&self, step: Option<&Step>) -> bool {
        let Some(Step::Attribute(attribute)) = step else { return false };
        match attribute.base {
            Base::Local(slot) if attribute.selections.is_empty() => {
                self.locals.iter().any(|(name, own)| *own == slot && &**name == ACCUMULATOR)
            }
            _ => false,
        }
    }
}

/// Takes a step out of its slot, which is not read again.
fn take(step: &mut Step) -> Step {
    std::mem::replace(step, Step::Constant(Value::Null))
}

/// Returns a step as an attribute to which selections can be added.
fn attribute_of(step: Step) -> Attribute {
    match step {
        Step::Attribute(attribute) => *attribute,
        other => Attribute { base: Base::Value(other), selections: Vec::new() },
    }
}

/// Returns a branch of a conditional. An attribute is used directly, so that it is not observed itself.
fn inner(step: Step) -> Attribute {
    match step {
        Step::Attribute(attribute) | Step::Test(attribute) => *attribute,
        other => Attribute { base: Base::Value(other), selections: Vec::new() },
    }
}

impl Attribute {
    /// Adds a selection, to both branches of a conditional.
    fn add(&mut self, selection: Selection) {
        match &mut self.base {
            Base::Either(either) if self.selections.is_empty() => {
                either.1.add(selection.clone());
                either.2.add(selection);
            }
            _ => self.selections.push(selection),
        }
    }
}
