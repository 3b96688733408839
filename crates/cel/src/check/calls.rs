//! Calls: function lookup and overload resolution.

// upstream: github.com/google/cel-go/checker/checker.go

use super::assign::Substitutions;
use super::{Checker, Reference};
use crate::functions::{self, FunctionDecl};
use crate::syntax::tree::{Id, Node};
use crate::types::Type;
use crate::value::Value;

impl Checker<'_> {
    pub(super) fn call(&mut self, id: Id) {
        let Node::Call { target, function, arguments } = self.tree.nodes[id].clone() else { return };
        if &*function == "_?._" {
            let Node::Literal(Value::String(field)) = self.tree.nodes[arguments[1]].clone() else { return };
            let kind = self.field(id, arguments[0], &field, true);
            self.types[arguments[1]] = Type::String;
            self.types[id] = self.substitutions.applied(&kind, false);
            if let Some(declaration) = functions::find("_?._") {
                self.references[id] =
                    Reference::Function(declaration, declaration.overloads.iter().collect());
            }
            return;
        }
        for argument in &arguments {
            self.check(*argument);
        }
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(&function);
            return match functions::find(name) {
                Some(declaration) => self.resolve(id, declaration, None, &arguments),
                None => self.undeclared(id, &function),
            };
        };
        // `a.b.f(x)` may be a namespaced function.
        if let Some(prefix) = self.tree.qualified_name(target) {
            let name = format!("{}.{function}", prefix.strip_prefix('.').unwrap_or(&prefix));
            if let Some(declaration) = functions::find(&name) {
                self.tree.nodes[id] = Node::Call {
                    target: None,
                    function: declaration.name.into(),
                    arguments: arguments.clone(),
                };
                return self.resolve(id, declaration, None, &arguments);
            }
        }
        self.check(target);
        match functions::find(&function) {
            Some(declaration) => self.resolve(id, declaration, Some(target), &arguments),
            None => self.undeclared(id, &function),
        }
    }

    /// Resolves the matching overloads.
    fn resolve(&mut self, id: Id, declaration: &'static FunctionDecl, target: Option<Id>, arguments: &[Id]) {
        if let "_&&_" | "_||_" = declaration.name {
            let mut right = true;
            for argument in arguments {
                let kind = self.types[*argument].clone();
                if !self.substitutions.assignable(&kind, &Type::Bool) {
                    self.mismatch(*argument, &Type::Bool, &kind);
                    right = false;
                }
            }
            self.types[id] = if right { Type::Bool } else { Type::Error };
            self.references[id] = Reference::Function(declaration, declaration.overloads.iter().collect());
            return;
        }
        let argument_types: Vec<Type> =
            target.iter().chain(arguments).map(|argument| self.types[*argument].clone()).collect();
        let (mut result, mut fitting) = (None, Vec::new());
        for declared in &declaration.overloads {
            if declared.signature.receiver != target.is_some()
                || declared.signature.arguments.len() != argument_types.len()
            {
                continue;
            }
            let mut fresh = Substitutions::default();
            for name in &declared.parameters {
                let unknown = self.unknown();
                fresh.assignable(&unknown, &Type::Parameter(name.clone()));
            }
            let expected: Vec<Type> =
                declared.signature.arguments.iter().map(|kind| fresh.applied(kind, false)).collect();
            if !self.substitutions.all_assignable(&argument_types, &expected) {
                continue;
            }
            fitting.push(declared);
            let own = self.substitutions.applied(&fresh.applied(&declared.signature.result, false), false);
            result = Some(match result {
                None => own,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if before == own => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(result) => {
                self.types[id] = result;
                self.references[id] = Reference::Function(declaration, fitting);
            }
            None => {
                let argument_types: Vec<String> = argument_types
                    .iter()
                    .map(|kind| self.substitutions.applied(kind, true).to_string())
                    .collect();
                let signature = match target {
                    Some(_) => format!("{}.({})", argument_types[0], argument_types[1..].join(", ")),
                    None => format!("({})", argument_types.join(", ")),
                };
                let name = declaration.name;
                self.report_error(
                    id,
                    format!("found no matching overload for '{name}' applied to '{signature}'"),
                );
                self.types[id] = Type::Error;
            }
        }
    }
}
