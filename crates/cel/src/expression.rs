//! An expression that was read and checked, and a program that can be run.

use std::sync::Arc;

use atoll_meta::Deadline;

use crate::check::{Checked, Meaning};
use crate::cost::estimate::estimate;
use crate::cost::{CostEstimate, Sizes};
use crate::error::Error;
use crate::evaluate::evaluate;
use crate::plan::{Plan, plan};
use crate::shape::Shape;
use crate::types::Type;
use crate::value::Value;

/// An expression whose types are right.
#[derive(Debug)]
pub struct Expression {
    checked: Checked,
}

/// What an evaluation gave and cost.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The value, or why there is none.
    pub result: Result<Value<'a>, Error>,
    /// What was charged, up to the limit and the step that went beyond it.
    pub cost: u64,
}

impl Expression {
    pub(crate) fn new(checked: Checked) -> Expression {
        Expression { checked }
    }

    /// The type of its value.
    pub fn result_type(&self) -> &Type {
        &self.checked.types[self.checked.tree.root]
    }

    /// Whether a variable occurs in it.
    pub fn uses(&self, variable: &str) -> bool {
        let named = |meaning: &Meaning| matches!(meaning, Meaning::Variable(name) if &**name == variable);
        self.checked.meanings.iter().any(named)
    }

    /// What it may cost, by what its variables look like. All paths are followed from one root, as upstream does.
    pub fn estimate(&self, root: Option<&Shape>) -> CostEstimate {
        estimate(&self.checked, &Sizes { root })
    }

    /// A program that can be run often.
    ///
    /// # Errors
    ///
    /// If a constant cannot be converted to what it is to be.
    pub fn program(&self) -> Result<Program, Error> {
        plan(&self.checked).map(|plan| Program { plan })
    }
}

/// An expression that can be run.
#[derive(Clone, Debug)]
pub struct Program {
    plan: Plan,
}

impl Program {
    /// The variables that a run looks at.
    pub fn variables(&self) -> &[Arc<str>] {
        &self.plan.variables
    }

    /// An estimate of the bytes that its constant patterns take, compiled.
    pub fn patterns_size(&self) -> u64 {
        self.plan.patterns
    }

    /// Runs the program with values for its variables and ends it when it has cost more than the limit.
    pub fn evaluate<'a>(&'a self, variables: &[(&str, Value<'a>)], limit: u64) -> Evaluation<'a> {
        self.evaluate_until(variables, limit, &Deadline::never())
    }

    /// The same; it is cancelled as well once the deadline has passed.
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
