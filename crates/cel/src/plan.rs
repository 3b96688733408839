//! From a checked expression to steps: names become places, calls know what they may call, constants are folded.
//!
//! The steps are cut as upstream cuts them, because costs count steps: a variable with its selections is one attribute.

use std::sync::Arc;

use regex::Regex;

use crate::check::{Checked, Meaning};
use crate::error::Error;
use crate::evaluate::fold;
use crate::functions::Declared;
use crate::library::{Search, search_all, search_first};
use crate::regexp;
use crate::syntax::tree::{ACCUMULATOR, Id, Node};
use crate::value::{Text, Value};

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A value.
    Constant(Value<'static>),
    /// A variable or a value with selections.
    Attribute(Box<Attribute>),
    /// `has()`: whether the last selection of an attribute finds something.
    Test(Box<Attribute>),
    And(Box<[Step; 2]>),
    Or(Box<[Step; 2]>),
    Equal(Box<[Step; 2]>),
    NotEqual(Box<[Step; 2]>),
    /// `x in` a constant list.
    Member(Box<(Step, Value<'static>)>),
    /// `matches` with a constant pattern.
    Matches(Box<Matches>),
    /// `find` or `findAll` with a constant pattern.
    Find(Box<Find>),
    Call(Box<Call>),
    List(Box<[(Step, bool)]>),
    Map(Box<[(Step, Step, bool)]>),
    Loop(Box<LoopStep>),
    /// `a.or(b)`.
    OptionalOr(Box<[Step; 2]>),
    /// `a.orValue(b)`.
    OptionalOrValue(Box<[Step; 2]>),
}

/// A value to begin with and what is selected from it.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub base: Base,
    pub selections: Vec<Selection>,
}

/// Where an attribute begins.
#[derive(Clone, Debug)]
pub enum Base {
    /// A variable, by its place.
    Variable(usize, Arc<str>),
    /// A loop's variable, by its place.
    Local(usize),
    /// Any value.
    Value(Step),
    /// One attribute or another: they are not observed themselves.
    Either(Box<(Step, Attribute, Attribute)>),
}

/// One selection.
#[derive(Clone, Debug)]
pub struct Selection {
    pub by: By,
    /// Whether to find nothing is fine.
    pub optional: bool,
    /// Whether only to look if there is something.
    pub test: bool,
}

/// What selects.
#[derive(Clone, Debug)]
pub enum By {
    /// A field, or a constant key or index.
    Constant(Value<'static>),
    /// An attribute, whose last step is not observed itself.
    Attribute(Attribute),
    /// Any value.
    Value(Step),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    pub function: &'static str,
    /// What it may be.
    pub overloads: Vec<&'static Declared>,
    pub arguments: Vec<Step>,
    /// Whether the first argument is a loop's accumulator, which may be changed in place.
    pub accumulates: bool,
}

impl Call {
    /// Whether the first error ends it before the other arguments are looked at. Upstream has a way of its own to call
    /// functions of one or two arguments, but not if several overloads of a library are left to choose from.
    pub fn stops_early(&self) -> bool {
        let is_ambiguous =
            self.overloads.len() > 1 && self.overloads.iter().all(|declared| !declared.standard);
        self.arguments.len() > 2
            || self.function == "format"
            || is_ambiguous && self.function != "@sortByAssociatedKeys"
    }

    /// Whether upstream cannot say what the call costs because the list that it costs by is not there.
    pub fn breaks_without(&self, arguments: &[Value<'_>]) -> bool {
        let place = match self.function {
            "sort" | "distinct" => 0,
            "@sortByAssociatedKeys" => 1,
            _ => return false,
        };
        self.overloads.len() == 1 && !matches!(arguments.get(place), Some(Value::List(_)))
    }
}

/// `matches` with a pattern that was compiled.
#[derive(Clone, Debug)]
pub struct Matches {
    pub text: Step,
    pub pattern: Value<'static>,
    pub regex: Regex,
    /// Whether it was called as a method, and costs accordingly.
    pub method: bool,
}

/// `find` or `findAll` with a pattern that was compiled.
#[derive(Clone, Debug)]
pub struct Find {
    pub text: Step,
    pub pattern: Value<'static>,
    pub limit: Option<Step>,
    pub regex: Regex,
    pub call: Search,
}

/// A loop. Its variables have places of their own.
#[derive(Clone, Debug)]
pub struct LoopStep {
    pub range: Step,
    /// The accumulator's place; the variables' are the next ones.
    pub place: usize,
    pub two: bool,
    pub start: Step,
    pub condition: Step,
    pub step: Step,
    pub result: Step,
}

/// A program's steps, its variables, and how many places its loops need.
#[derive(Clone, Debug)]
pub struct Plan {
    pub root: Step,
    pub variables: Vec<Arc<str>>,
    pub places: usize,
}

/// Plans a checked expression.
///
/// # Errors
///
/// If a conversion of a constant fails.
pub fn plan(checked: &Checked) -> Result<Plan, Error> {
    let mut planner = Planner { checked, variables: Vec::new(), locals: Vec::new(), places: 0 };
    let root = planner.step(checked.tree.root)?;
    Ok(Plan { root, variables: planner.variables, places: planner.places })
}

struct Planner<'a> {
    checked: &'a Checked,
    variables: Vec<Arc<str>>,
    /// Loops' variables in scope and their places.
    locals: Vec<(Arc<str>, usize)>,
    places: usize,
}

type Planned = Result<Step, Error>;
/// A step of two.
type Binary = fn(Box<[Step; 2]>) -> Step;

impl Planner<'_> {
    fn step(&mut self, id: Id) -> Planned {
        let checked = self.checked;
        if let Meaning::Variable(name) = &checked.meanings[id] {
            let base = self.variable(name);
            return Ok(Step::Attribute(Box::new(Attribute { base, selections: Vec::new() })));
        }
        if let Meaning::TypeName(name) = &checked.meanings[id] {
            if let "duration" | "timestamp" = &**name {
                return Err(Error::new(format!("reference to undefined type: {name}")));
            }
            return Ok(Step::Constant(Value::Type(name.clone())));
        }
        match &checked.tree.nodes[id] {
            Node::Literal(value) => Ok(Step::Constant(value.clone())),
            Node::Select { operand, field, test } => {
                let by = By::Constant(Value::String(Text::Shared(field.clone())));
                let operand = self.step(*operand)?;
                let mut attribute = attribute_of(operand);
                attribute.add(Selection { by, optional: false, test: *test });
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
            Node::Loop(it) => {
                let outside = self.locals.len();
                let start = self.step(it.start)?;
                let range = self.step(it.range)?;
                let place = outside;
                self.locals.push((it.accumulator.clone(), place));
                self.locals.push((it.variable.clone(), place + 1));
                let second = it.second.clone().unwrap_or_else(|| "".into());
                self.locals.push((second, place + 2));
                self.places = self.places.max(self.locals.len());
                let condition = self.step(it.condition)?;
                let step = self.step(it.step)?;
                // The result does not see the variables, but its own loops must not use their places.
                self.locals[outside + 1].0 = "".into();
                self.locals[outside + 2].0 = "".into();
                let result = self.step(it.result)?;
                self.locals.truncate(outside);
                let two = it.second.is_some();
                Ok(Step::Loop(Box::new(LoopStep { range, place, two, start, condition, step, result })))
            }
            Node::Message { name, .. } => Err(Error::new(format!("unknown type: {name}"))),
            Node::Name(name) => Err(Error::new(format!("no such attribute(s): {name}"))),
            Node::Wrong => Err(Error::new("invalid expression")),
        }
    }

    fn variable(&mut self, name: &Arc<str>) -> Base {
        if let Some((_, place)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Base::Local(*place);
        }
        let known = self.variables.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.variables.push(name.clone());
            self.variables.len() - 1
        });
        Base::Variable(place, name.clone())
    }

    fn list(&mut self, items: &[(Id, bool)]) -> Planned {
        let mut steps = Vec::with_capacity(items.len());
        for (item, optional) in items {
            steps.push((self.step(*item)?, *optional));
        }
        let constant = steps.iter().all(|(step, _)| matches!(step, Step::Constant(_)));
        let step = Step::List(steps.into());
        if constant { fold(&step).map(Step::Constant) } else { Ok(step) }
    }

    fn map(&mut self, entries: &[(Id, Id, bool)]) -> Planned {
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

    fn call(&mut self, id: Id, function: &str, mut arguments: Vec<Step>) -> Planned {
        let Meaning::Function(declaration, overloads) = &self.checked.meanings[id] else {
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
                let by = match take(index) {
                    Step::Constant(value) => By::Constant(value),
                    Step::Attribute(attribute) | Step::Test(attribute) => By::Attribute(*attribute),
                    other => By::Value(other),
                };
                let mut attribute = attribute_of(take(operand));
                attribute.add(Selection { by, optional: declaration.name != "_[_]", test: false });
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
                let regex = regexp::compile(pattern.as_str().unwrap_or_default())?;
                let (text, pattern) = (take(text), pattern.clone());
                let method = single == Some("matches_string");
                return Ok(Step::Matches(Box::new(Matches { text, pattern, regex, method })));
            }
            ("find" | "findAll", [text, Step::Constant(pattern), limit @ ..])
                if pattern.as_str().is_some() =>
            {
                let regex = regexp::compile(pattern.as_str().unwrap_or_default())?;
                let call = if declaration.name == "find" { search_first } else { search_all };
                let (text, pattern, limit) = (take(text), pattern.clone(), limit.first_mut().map(take));
                return Ok(Step::Find(Box::new(Find { text, pattern, limit, regex, call })));
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

    /// Whether a step is nothing but the accumulator of a macro's loop.
    fn is_accumulator(&self, step: Option<&Step>) -> bool {
        let Some(Step::Attribute(attribute)) = step else { return false };
        match attribute.base {
            Base::Local(place) if attribute.selections.is_empty() => {
                self.locals.iter().any(|(name, own)| *own == place && &**name == ACCUMULATOR)
            }
            _ => false,
        }
    }
}

/// A step out of its place, which nothing looks at again.
fn take(step: &mut Step) -> Step {
    std::mem::replace(step, Step::Constant(Value::Null))
}

/// What further selections can be added to.
fn attribute_of(step: Step) -> Attribute {
    match step {
        Step::Attribute(attribute) => *attribute,
        other => Attribute { base: Base::Value(other), selections: Vec::new() },
    }
}

/// A branch of a conditional: of an attribute the attribute itself, unobserved.
fn inner(step: Step) -> Attribute {
    match step {
        Step::Attribute(attribute) | Step::Test(attribute) => *attribute,
        other => Attribute { base: Base::Value(other), selections: Vec::new() },
    }
}

impl Attribute {
    /// Adds a selection: to both branches of a conditional.
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
