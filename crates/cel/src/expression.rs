//! Checked expressions and executable programs.

// upstream: github.com/google/cel-go/cel/program.go

use std::sync::Arc;

use atoll_meta::Deadline;

use crate::check::{Checked, Reference};
use crate::cost::estimate::estimate;
use crate::cost::{CostEstimate, Sizes};
use crate::error::Error;
use crate::evaluate::evaluate;
use crate::plan::{Plan, plan};
use crate::shape::Shape;
use crate::types::Type;
use crate::value::Value;

/// A type-checked expression.
#[derive(Debug)]
pub struct Expression {
    checked: Checked,
}

/// Result and cost of an evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The value or the error.
    pub result: Result<Value<'a>, Error>,
    /// The cost charged, including the step that exceeded the limit.
    pub cost: u64,
}

impl Expression {
    pub(crate) fn new(checked: Checked) -> Expression {
        Expression { checked }
    }

    /// Returns the type of the expression.
    pub fn result_type(&self) -> &Type {
        &self.checked.types[self.checked.tree.root]
    }

    /// Whether the expression refers to a variable.
    pub fn uses(&self, variable: &str) -> bool {
        let named =
            |reference: &Reference| matches!(reference, Reference::Variable(name) if &**name == variable);
        self.checked.references.iter().any(named)
    }

    /// Estimates the cost from the shape of the variables. As upstream, all paths are followed from one root.
    pub fn estimate(&self, root: Option<&Shape>) -> CostEstimate {
        estimate(&self.checked, &Sizes { root })
    }

    /// Plans the expression as a reusable program.
    ///
    /// # Errors
    ///
    /// Returns an error if the conversion of a constant fails.
    pub fn program(&self) -> Result<Program, Error> {
        plan(&self.checked).map(|plan| Program { plan })
    }
}

/// An executable expression.
#[derive(Clone, Debug)]
pub struct Program {
    plan: Plan,
}

impl Program {
    /// Returns the variables that the program refers to.
    pub fn variables(&self) -> &[Arc<str>] {
        &self.plan.variables
    }

    /// Estimates the memory in bytes of the compiled constant patterns.
    pub fn patterns_size(&self) -> u64 {
        self.plan.patterns
    }

    /// Evaluates the program, up to a cost limit.
    pub fn evaluate<'a>(&'a self, variables: &[(&str, Value<'a>)], limit: u64) -> Evaluation<'a> {
        self.evaluate_until(variables, limit, &Deadline::never())
    }

    /// Evaluates the program, up to a cost limit and a deadline.
    pub fn evaluate_until<'a>(
        &'a self,
        variables: &[(&str, Value<'a>)],
        limit: u64,
        deadline: &Deadline<'_>,
    ) -> Evaluation<'a> {
        let bound = self.plan.variables.iter().map(|name| {
            variables.iter().find(|(given, _)| *given == &**name).map(|(_, value)| value.clone())
        });
        evaluate(&self.plan, bound.collect(), limit, deadline)
    }
}
