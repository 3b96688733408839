//! The declarations that an expression can refer to.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go
// upstream: github.com/google/cel-go/cel/env.go

use std::sync::Arc;

use crate::check::check;
use crate::expression::Expression;
use crate::shape::Shape;
use crate::source::Issues;
use crate::syntax::parse;
use crate::types::Type;

/// The functions of Kubernetes and the declared variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(Arc<str>, Type)>,
}

impl Environment {
    /// Creates an environment with all functions and no variables.
    pub fn new() -> Environment {
        Environment::default()
    }

    /// Declares a variable.
    #[must_use]
    pub fn with(mut self, name: &str, kind: Type) -> Environment {
        self.variables.push((name.into(), kind));
        self
    }

    /// Declares a variable of a shape. A shape that expressions cannot access is not declared.
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

    /// Parses and checks an expression.
    ///
    /// # Errors
    ///
    /// Returns the syntax or type errors.
    pub fn compile(&self, text: &str) -> Result<Expression, Issues> {
        check(self, text, parse(text)?).map(Expression::new)
    }
}
