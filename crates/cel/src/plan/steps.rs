//! What a plan is made of.

use std::sync::Arc;

use regex::Regex;

use crate::functions::Declared;
use crate::library::Search;
use crate::value::Value;

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
    pub regex: Arc<Regex>,
    /// What the pattern takes, compiled.
    pub size: u64,
    /// Whether it was called as a method, and costs accordingly.
    pub method: bool,
}

/// `find` or `findAll` with a pattern that was compiled.
#[derive(Clone, Debug)]
pub struct Find {
    pub text: Step,
    pub pattern: Value<'static>,
    pub limit: Option<Step>,
    pub regex: Arc<Regex>,
    /// What the pattern takes, compiled.
    pub size: u64,
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
    /// What its constant patterns take, compiled.
    pub patterns: u64,
}
