//! What an expression can refer to.

use std::sync::Arc;

use crate::check::check;
use crate::expression::Expression;
use crate::shape::Shape;
use crate::source::Issues;
use crate::syntax::parse;
use crate::types::Type;

/// The functions of Kubernetes and these variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(Arc<str>, Type)>,
}

impl Environment {
    /// All functions and no variables.
    pub fn new() -> Environment {
        Environment::default()
    }

    /// The same with another variable.
    #[must_use]
    pub fn with(mut self, name: &str, kind: Type) -> Environment {
        self.variables.push((name.into(), kind));
        self
    }

    /// The same with another variable of a shape. One that expressions cannot see is not declared.
    #[must_use]
    pub fn with_shape(self, name: &str, shape: &Arc<Shape>) -> Environment {
        match shape.type_of() {
            Some(kind) => self.with(name, kind),
            None => self,
        }
    }

    pub(crate) fn variable_named(&self, name: &str) -> Option<&(Arc<str>, Type)> {
        self.variables.iter().find(|(known, _)| &**known == name)
    }

    /// Reads and checks an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with its syntax or its types.
    pub fn compile(&self, text: &str) -> Result<Expression, Issues> {
        check(self, text, parse(text)?).map(Expression::new)
    }
}
