//! The type checker: determines the type of every node, resolves overloads and reports type errors.

// upstream: github.com/google/cel-go/checker/checker.go
// upstream: github.com/google/cel-go/common/ast/ast.go

mod assign;
mod calls;
mod literals;
mod templates;

use std::sync::Arc;

use assign::{Substitutions, most_general};

use crate::environment::Environment;
use crate::functions::{self, FunctionDecl, OverloadDecl};
use crate::source::{Issues, Location};
use crate::syntax::tree::{Comprehension, Id, Node, Tree};
use crate::types::Type;
use crate::value::Value;

/// The declaration that a node refers to.
#[derive(Clone, Debug)]
pub enum Reference {
    /// The node refers to no declaration.
    None,
    /// A variable of the environment or of a comprehension.
    Variable(Arc<str>),
    /// The name of a type.
    TypeName(Arc<str>),
    /// A function and its possible overloads.
    Function(&'static FunctionDecl, Vec<&'static OverloadDecl>),
}

/// A type-checked expression.
#[derive(Debug)]
pub struct Checked {
    /// The expression, with resolved names.
    pub tree: Tree,
    /// The type of each node.
    pub types: Vec<Type>,
    /// The reference of each node.
    pub references: Vec<Reference>,
}

/// Checks the types of an expression.
pub fn check(environment: &Environment, text: &str, tree: Tree) -> Result<Checked, Issues> {
    let count = tree.nodes.len();
    let mut checker = Checker {
        environment,
        text,
        issues: Issues::new(text),
        types: vec![Type::Error; count],
        references: vec![Reference::None; count],
        tree,
        substitutions: Substitutions::default(),
        locals: Vec::new(),
        free: 0,
    };
    checker.check(checker.tree.root);
    let Checker { issues, mut types, references, tree, substitutions, .. } = checker;
    if !issues.is_empty() {
        return Err(issues);
    }
    for kind in &mut types {
        *kind = substitutions.applied(kind, true);
    }
    let checked = Checked { tree, types, references };
    let issues = literals::check(text, &checked);
    match issues.is_empty() {
        true => Ok(checked),
        false => Err(issues),
    }
}

struct Checker<'a> {
    environment: &'a Environment,
    text: &'a str,
    issues: Issues,
    tree: Tree,
    types: Vec<Type>,
    references: Vec<Reference>,
    substitutions: Substitutions,
    /// Comprehension variables, innermost last.
    locals: Vec<(Arc<str>, Type)>,
    free: usize,
}

impl Checker<'_> {
    fn report_error(&mut self, id: Id, message: String) {
        self.issues.add(Location::at(self.text, self.tree.offsets[id]), message);
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report_error(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.report_error(id, format!("undeclared reference to '{name}' (in container '')"));
        self.types[id] = Type::Error;
    }

    /// Returns a fresh type variable.
    fn unknown(&mut self) -> Type {
        self.free += 1;
        Type::Parameter(format!("_var{}", self.free - 1).into())
    }

    /// Resolves a name.
    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let local = self.locals.iter().rev().find(|(local, _)| &**local == name);
        if let Some((name, kind)) = local.or_else(|| self.environment.variable_named(name)) {
            return Some((kind.clone(), Reference::Variable(name.clone())));
        }
        let kind = functions::type_named(name)?;
        Some((Type::Type(Some(Arc::new(kind))), Reference::TypeName(name.into())))
    }

    fn check(&mut self, id: Id) {
        match &self.tree.nodes[id] {
            Node::Literal(value) => {
                self.types[id] = match value {
                    Value::Null => Type::Null,
                    Value::Bool(_) => Type::Bool,
                    Value::Int(_) => Type::Int,
                    Value::Uint(_) => Type::Uint,
                    Value::Double(_) => Type::Double,
                    Value::Bytes(_) => Type::Bytes,
                    _ => Type::String,
                }
            }
            Node::Name(name) => {
                let name = name.clone();
                match self.lookup(&name) {
                    Some((kind, reference)) => {
                        self.types[id] = kind;
                        self.references[id] = reference;
                    }
                    None => self.undeclared(id, &name),
                }
            }
            Node::Select { operand, field, test } => {
                let (operand, field, test) = (*operand, field.clone(), *test);
                if !test
                    && let Some(name) = self.tree.qualified_name(id)
                    && let Some((kind, reference)) = self.lookup(&name)
                {
                    self.types[id] = kind;
                    self.references[id] = reference;
                    self.tree.nodes[id] = Node::Name(name.into());
                    return;
                }
                let kind = self.field(id, operand, &field, false);
                self.types[id] = if test { Type::Bool } else { self.substitutions.applied(&kind, false) };
            }
            Node::Call { .. } => self.call(id),
            Node::List { items } => {
                let mut kind = None;
                for (item, optional) in items.clone() {
                    self.check(item);
                    let found = self.item_type(item, optional);
                    kind = Some(self.join(kind, found));
                }
                let kind = kind.unwrap_or_else(|| self.unknown());
                self.types[id] = Type::list(kind);
            }
            Node::Map { entries } => {
                let (mut keys, mut values) = (None, None);
                for (key, value, optional) in entries.clone() {
                    self.check(key);
                    let found = self.types[key].clone();
                    keys = Some(self.join(keys, found));
                    self.check(value);
                    let found = self.item_type(value, optional);
                    values = Some(self.join(values, found));
                }
                let (keys, values) = match (keys, values) {
                    (Some(keys), Some(values)) => (keys, values),
                    _ => (self.unknown(), self.unknown()),
                };
                self.types[id] = Type::map(keys, values);
            }
            Node::Message { name, .. } => {
                let name = name.clone();
                self.message(id, &name);
            }
            Node::Comprehension(it) => {
                let it = (**it).clone();
                self.comprehension(id, &it);
            }
            Node::Invalid => {}
        }
    }

    /// Returns the type of an item or a value. Optional ones are unwrapped.
    fn item_type(&mut self, id: Id, optional: bool) -> Type {
        let kind = self.types[id].clone();
        if !optional {
            return kind;
        }
        match kind.unwrapped() {
            Some(inside) => inside.clone(),
            None => {
                if kind != Type::Dyn {
                    self.mismatch(id, &Type::optional(kind.clone()), &kind);
                }
                kind
            }
        }
    }

    /// Returns the type of a list's items after adding another one.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.substitutions.assignable(&previous, &current) {
            return most_general(&previous, &current).clone();
        }
        // Mixed lists and maps are reported once all types are known.
        Type::Dyn
    }

    /// Returns the type of `operand.field`.
    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.substitutions.applied(&self.types[operand], false);
        let target = operand_type.unwrapped().unwrap_or(&operand_type).clone();
        let result = match &target {
            Type::Map(both) => both[1].clone(),
            Type::Object(name, shape) => self.field_of(id, name, shape.as_deref(), field),
            Type::Parameter(_) => {
                self.substitutions.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report_error(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        match optional || operand_type.unwrapped().is_some() {
            true => Type::optional(result),
            false => result,
        }
    }

    fn field_of(&mut self, id: Id, name: &str, shape: Option<&crate::shape::Shape>, field: &str) -> Type {
        let Some(crate::shape::ShapeKind::Object(object)) = shape.map(|shape| &shape.kind) else {
            self.report_error(id, format!("unexpected failed resolution of '{name}'"));
            return Type::Error;
        };
        match object.field(field) {
            Some(field) => field.type_of.clone(),
            None => {
                self.report_error(id, format!("undefined field '{field}'"));
                Type::Error
            }
        }
    }

    fn message(&mut self, id: Id, name: &str) {
        let Some((kind, _)) = self.lookup(name) else { return self.undeclared(id, name) };
        let Node::Message { fields, .. } = self.tree.nodes[id].clone() else { return };
        let made = match &kind {
            Type::Type(Some(of)) => match &**of {
                Type::Object(..) => (**of).clone(),
                other => {
                    self.report_error(id, format!("'{}' is not a message type", other.name()));
                    Type::Error
                }
            },
            other => {
                self.report_error(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.types[id] = made.clone();
        for (field, value, optional, offset) in fields {
            self.check(value);
            let expected = match &made {
                Type::Object(name, shape) => self.field_of(id, name, shape.as_deref(), &field),
                _ => Type::Error,
            };
            let found = self.item_type(value, optional);
            if !self.substitutions.assignable(&expected, &found) {
                let message = format!(
                    "expected type of field '{field}' is '{expected}' but provided type is '{found}'"
                );
                self.issues.add(Location::at(self.text, offset), message);
            }
        }
    }

    fn comprehension(&mut self, id: Id, it: &Comprehension) {
        self.check(it.range);
        self.check(it.start);
        let range = self.substitutions.applied(&self.types[it.range], false);
        let so_far = self.types[it.start].clone();
        let (first, second) = match &range {
            Type::List(items) if it.second.is_some() => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Dyn),
            Type::Map(both) => (both[0].clone(), both[1].clone()),
            Type::Dyn | Type::Error | Type::Parameter(_) => {
                self.substitutions.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report_error(it.range, message);
                (Type::Error, Type::Error)
            }
        };
        let outside = self.locals.len();
        self.locals.push((it.accumulator.clone(), so_far.clone()));
        self.locals.push((it.variable.clone(), first));
        if let Some(name) = &it.second {
            self.locals.push((name.clone(), second));
        }
        self.check(it.condition);
        self.expect(it.condition, &Type::Bool);
        self.check(it.step);
        self.expect(it.step, &so_far);
        self.locals.truncate(outside + 1);
        self.check(it.result);
        self.locals.truncate(outside);
        self.types[id] = self.substitutions.applied(&self.types[it.result], false);
    }

    fn expect(&mut self, id: Id, expected: &Type) {
        let found = self.types[id].clone();
        if !self.substitutions.assignable(expected, &found) {
            self.mismatch(id, expected, &found);
        }
    }
}
