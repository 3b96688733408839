//! The steps of a plan.

// upstream: github.com/google/cel-go/interpreter/interpretable.go
// upstream: github.com/google/cel-go/interpreter/attributes.go

use std::sync::Arc;

use regex::Regex;

use crate::functions::OverloadDecl;
use crate::library::Search;
use crate::value::Value;

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A value.
    Constant(Value<'static>),
    /// A variable or a value with selections.
    Attribute(Box<Attribute>),
    /// `has()`: whether the last selection of an attribute finds a value.
    Test(Box<Attribute>),
    And(Box<[Step; 2]>),
    Or(Box<[Step; 2]>),
    Equal(Box<[Step; 2]>),
    NotEqual(Box<[Step; 2]>),
    /// `x in` a constant list.
    Member(Box<(Step, Value<'static>)>),
    /// `matches` with a constant pattern.
    Matches(Box<MatchesCall>),
    /// `find` or `findAll` with a constant pattern.
    Find(Box<FindCall>),
    Call(Box<Call>),
    List(Box<[(Step, bool)]>),
    Map(Box<[(Step, Step, bool)]>),
    Comprehension(Box<ComprehensionStep>),
    /// `a.or(b)`.
    OptionalOr(Box<[Step; 2]>),
    /// `a.orValue(b)`.
    OptionalOrValue(Box<[Step; 2]>),
}

/// A base value with selections.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub base: Base,
    pub selections: Vec<Selection>,
}

/// The base of an attribute.
#[derive(Clone, Debug)]
pub enum Base {
    /// A variable by its index.
    Variable(usize, Arc<str>),
    /// A comprehension variable by its slot.
    Local(usize),
    /// Any value.
    Value(Step),
    /// One of two attributes, which are not observed themselves.
    Either(Box<(Step, Attribute, Attribute)>),
}

/// One selection.
#[derive(Clone, Debug)]
pub struct Selection {
    pub key: SelectionKey,
    /// Whether the value may be absent.
    pub optional: bool,
    /// Whether only to test for presence.
    pub test: bool,
}

/// The key of a selection.
#[derive(Clone, Debug)]
pub enum SelectionKey {
    /// A field, or a constant key or index.
    Constant(Value<'static>),
    /// An attribute whose last step is not observed itself.
    Attribute(Attribute),
    /// Any value.
    Value(Step),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    pub function: &'static str,
    /// Possible overloads.
    pub overloads: Vec<&'static OverloadDecl>,
    pub arguments: Vec<Step>,
    /// Whether the first argument is an accumulator, which may be modified in place.
    pub accumulates: bool,
}

impl Call {
    /// Whether the first failing argument ends the call before other arguments are evaluated. Upstream has
    /// special cases for calls with one or two arguments, except if several overloads of a library are
    /// possible.
    pub fn stops_at_first_error(&self) -> bool {
        let is_ambiguous =
            self.overloads.len() > 1 && self.overloads.iter().all(|declared| !declared.standard);
        self.arguments.len() > 2
            || self.function == "format"
            || is_ambiguous && self.function != "@sortByAssociatedKeys"
    }

    /// Whether upstream panics when it computes the cost, because the list that determines it is missing.
    pub fn panics_upstream(&self, arguments: &[Value<'_>]) -> bool {
        let slot = match self.function {
            "sort" | "distinct" => 0,
            "@sortByAssociatedKeys" => 1,
            _ => return false,
        };
        self.overloads.len() == 1 && !matches!(arguments.get(slot), Some(Value::List(_)))
    }
}

/// `matches` with a compiled pattern.
#[derive(Clone, Debug)]
pub struct MatchesCall {
    pub text: Step,
    pub pattern: Value<'static>,
    pub regex: Arc<Regex>,
    /// Memory of the compiled pattern.
    pub size: u64,
    /// Whether this is a method call, which has a different cost.
    pub method: bool,
}

/// `find` or `findAll` with a compiled pattern.
#[derive(Clone, Debug)]
pub struct FindCall {
    pub text: Step,
    pub pattern: Value<'static>,
    pub limit: Option<Step>,
    pub regex: Arc<Regex>,
    /// Memory of the compiled pattern.
    pub size: u64,
    pub call: Search,
}

/// A comprehension. Its variables have slots of their own.
#[derive(Clone, Debug)]
pub struct ComprehensionStep {
    pub range: Step,
    /// Slot of the accumulator. The slots of the variables follow.
    pub slot: usize,
    pub two: bool,
    pub start: Step,
    pub condition: Step,
    pub step: Step,
    pub result: Step,
}

/// The steps of a program, its variables, and the number of slots that its comprehensions need.
#[derive(Clone, Debug)]
pub struct Plan {
    pub root: Step,
    pub variables: Vec<Arc<str>>,
    pub slots: usize,
    /// Memory of the compiled constant patterns.
    pub patterns: u64,
}
