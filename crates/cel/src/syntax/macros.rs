//! Macro expansion.

// upstream: github.com/google/cel-go/parser/macro.go
// upstream: github.com/google/cel-go/cel/macro.go
// upstream: github.com/google/cel-go/ext/comprehensions.go

use std::sync::Arc;

use super::parser::Parser;
use super::tree::{ACCUMULATOR, Comprehension, Id, Node};
use crate::value::Value;

/// Maximum number of nodes with which `optMap` still duplicates its target, because chains of it grow
/// exponentially.
const MAX_COPIED_NODES: usize = 100_000;

/// Expands a call if it is a macro, else returns the call.
pub(super) fn expand(
    parser: &mut Parser<'_>,
    offset: usize,
    target: Option<Id>,
    function: &Arc<str>,
    arguments: Vec<Id>,
) -> Id {
    let mut expander = Expander { parser, offset };
    let made = match (target, &**function, &arguments[..]) {
        (None, "has", [argument]) => expander.has(*argument),
        (Some(range), "all" | "exists" | "exists_one" | "existsOne", [variable, predicate]) => {
            expander.variable(*variable, "argument must be a simple name").map(|variable| {
                let it = expander.quantifier(function, *predicate);
                expander.comprehension(range, (variable, None), it)
            })
        }
        (Some(range), "all" | "exists" | "exists_one" | "existsOne", [first, second, predicate]) => {
            expander.variables(*first, *second).map(|variables| {
                let it = expander.quantifier(function, *predicate);
                expander.comprehension(range, variables, it)
            })
        }
        (Some(range), "map", [variable, rest @ ..]) if (1..=2).contains(&rest.len()) => {
            expander.map(range, *variable, rest)
        }
        (Some(range), "filter", [variable, predicate]) => {
            expander.variable(*variable, "argument is not an identifier").map(|name| {
                let it = expander.collect(Some(*predicate), *variable);
                expander.comprehension(range, (name, None), it)
            })
        }
        (Some(range), "transformList", [first, second, rest @ ..]) if (1..=2).contains(&rest.len()) => {
            expander.variables(*first, *second).map(|variables| {
                let (filter, transform) = split(rest);
                let it = expander.collect(filter, transform);
                expander.comprehension(range, variables, it)
            })
        }
        (Some(range), "transformMap" | "transformMapEntry", [first, second, rest @ ..])
            if (1..=2).contains(&rest.len()) =>
        {
            expander.variables(*first, *second).map(|variables| {
                let (filter, transform) = split(rest);
                let key = (&**function == "transformMap").then(|| variables.0.clone());
                let it = expander.insert(filter, key, transform);
                expander.comprehension(range, variables, it)
            })
        }
        (Some(target), "optMap" | "optFlatMap", [variable, transform]) => {
            expander.optional_map(target, function, *variable, *transform)
        }
        (Some(target), "sortBy", [variable, key]) => expander.sort_by(target, *variable, *key),
        _ => return parser.node(offset, Node::Call { target, function: function.clone(), arguments }),
    };
    made.unwrap_or_else(|(at, message)| {
        let offset = parser.tree.offsets[at];
        parser.report_error(offset, message)
    })
}

/// Result of an expansion. The error contains the node and the message.
type ExpandResult<T> = Result<T, (Id, String)>;

/// The parts of a comprehension that differ between macros.
struct Body {
    start: Id,
    condition: Id,
    step: Id,
    result: Id,
}

fn split(rest: &[Id]) -> (Option<Id>, Id) {
    match rest {
        [filter, transform] => (Some(*filter), *transform),
        _ => (None, rest[0]),
    }
}

struct Expander<'p, 'a> {
    parser: &'p mut Parser<'a>,
    offset: usize,
}

impl Expander<'_, '_> {
    fn node(&mut self, node: Node) -> Id {
        self.parser.node(self.offset, node)
    }

    fn literal(&mut self, value: Value<'static>) -> Id {
        self.node(Node::Literal(value))
    }

    fn name(&mut self, name: &str) -> Id {
        self.node(Node::Name(name.into()))
    }

    fn accumulator(&mut self) -> Id {
        self.name(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<Id>) -> Id {
        self.node(Node::Call { target: None, function: function.into(), arguments })
    }

    fn method(&mut self, target: Id, function: &str, arguments: Vec<Id>) -> Id {
        self.node(Node::Call { target: Some(target), function: function.into(), arguments })
    }

    fn has(&mut self, argument: Id) -> ExpandResult<Id> {
        match self.parser.tree.nodes[argument].clone() {
            Node::Select { operand, field, test: false } => {
                Ok(self.node(Node::Select { operand, field, test: true }))
            }
            Node::Select { operand, field, test: true } => {
                Ok(self.node(Node::Select { operand, field, test: true }))
            }
            _ => Err((argument, "invalid argument to has() macro".to_owned())),
        }
    }

    fn simple_name(&self, argument: Id, message: &str) -> ExpandResult<Arc<str>> {
        match &self.parser.tree.nodes[argument] {
            Node::Name(name) => Ok(name.clone()),
            _ => Err((argument, message.to_owned())),
        }
    }

    fn variable(&self, argument: Id, message: &str) -> ExpandResult<Arc<str>> {
        let name = self.simple_name(argument, message)?;
        match &*name {
            "__result__" => Err((argument, "iteration variable overwrites accumulator variable".to_owned())),
            _ => Ok(name),
        }
    }

    fn variables(&self, first: Id, second: Id) -> ExpandResult<(Arc<str>, Option<Arc<str>>)> {
        let message = "argument must be a simple name";
        let (one, two) = (self.simple_name(first, message)?, self.simple_name(second, message)?);
        if one == two {
            return Err((second, format!("duplicate variable name: {one}")));
        }
        self.variable(first, message)?;
        self.variable(second, message)?;
        Ok((one, Some(two)))
    }

    fn comprehension(
        &mut self,
        range: Id,
        (variable, second): (Arc<str>, Option<Arc<str>>),
        body: Body,
    ) -> Id {
        let Body { start, condition, step, result } = body;
        let accumulator = ACCUMULATOR.into();
        self.node(Node::Comprehension(Box::new(Comprehension {
            range,
            variable,
            second,
            accumulator,
            start,
            condition,
            step,
            result,
        })))
    }

    fn quantifier(&mut self, function: &str, predicate: Id) -> Body {
        match function {
            "all" => {
                let start = self.literal(Value::Bool(true));
                let so_far = self.accumulator();
                let condition = self.call("@not_strictly_false", vec![so_far]);
                let so_far = self.accumulator();
                let step = self.call("_&&_", vec![so_far, predicate]);
                Body { start, condition, step, result: self.accumulator() }
            }
            "exists" => {
                let start = self.literal(Value::Bool(false));
                let so_far = self.accumulator();
                let not = self.call("!_", vec![so_far]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let so_far = self.accumulator();
                let step = self.call("_||_", vec![so_far, predicate]);
                Body { start, condition, step, result: self.accumulator() }
            }
            _ => {
                let start = self.literal(Value::Int(0));
                let condition = self.literal(Value::Bool(true));
                let (so_far, one) = (self.accumulator(), self.literal(Value::Int(1)));
                let more = self.call("_+_", vec![so_far, one]);
                let so_far = self.accumulator();
                let step = self.call("_?_:_", vec![predicate, more, so_far]);
                let (so_far, one) = (self.accumulator(), self.literal(Value::Int(1)));
                Body { start, condition, step, result: self.call("_==_", vec![so_far, one]) }
            }
        }
    }

    /// Makes a step conditional on a filter.
    fn filtered(&mut self, filter: Option<Id>, step: Id) -> Id {
        match filter {
            None => step,
            Some(filter) => {
                let so_far = self.accumulator();
                self.call("_?_:_", vec![filter, step, so_far])
            }
        }
    }

    /// Collects transformed elements in a list.
    fn collect(&mut self, filter: Option<Id>, transform: Id) -> Body {
        let start = self.node(Node::List { items: Vec::new() });
        let condition = self.literal(Value::Bool(true));
        let so_far = self.accumulator();
        let item = self.node(Node::List { items: vec![(transform, false)] });
        let step = self.call("_+_", vec![so_far, item]);
        let step = self.filtered(filter, step);
        Body { start, condition, step, result: self.accumulator() }
    }

    /// Collects transformed elements in a map: values by key, or entries.
    fn insert(&mut self, filter: Option<Id>, key: Option<Arc<str>>, transform: Id) -> Body {
        let start = self.node(Node::Map { entries: Vec::new() });
        let condition = self.literal(Value::Bool(true));
        let mut arguments = vec![self.accumulator()];
        if let Some(key) = key {
            arguments.push(self.name(&key));
        }
        arguments.push(transform);
        let step = self.call("cel.@mapInsert", arguments);
        let step = self.filtered(filter, step);
        Body { start, condition, step, result: self.accumulator() }
    }

    fn map(&mut self, range: Id, variable: Id, rest: &[Id]) -> ExpandResult<Id> {
        let name = self.variable(variable, "argument is not an identifier")?;
        let (filter, transform) = split(rest);
        let body = self.collect(filter, transform);
        Ok(self.comprehension(range, (name, None), body))
    }

    /// Binds a name to a value within an expression, as a comprehension over an empty list.
    fn bind(&mut self, name: Arc<str>, value: Id, inside: Id) -> Id {
        let range = self.node(Node::List { items: Vec::new() });
        let condition = self.literal(Value::Bool(false));
        let step = self.name(&name);
        let it = Comprehension {
            range,
            variable: "#unused".into(),
            second: None,
            accumulator: name,
            start: value,
            condition,
            step,
            result: inside,
        };
        self.node(Node::Comprehension(Box::new(it)))
    }

    fn optional_map(&mut self, target: Id, function: &str, variable: Id, transform: Id) -> ExpandResult<Id> {
        let name =
            self.simple_name(variable, &format!("{function}() variable name must be a simple identifier"))?;
        let has = self.method(target, "hasValue", Vec::new());
        if self.parser.tree.nodes.len() > MAX_COPIED_NODES {
            return Err((target, "expression is too large".to_owned()));
        }
        let again = self.copy(target);
        let value = self.method(again, "value", Vec::new());
        let mut bound = self.bind(name, value, transform);
        if function == "optMap" {
            bound = self.call("optional.of", vec![bound]);
        }
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has, bound, none]))
    }

    fn sort_by(&mut self, target: Id, variable: Id, key: Id) -> ExpandResult<Id> {
        const INPUT: &str = "@__sortBy_input__";
        if let Node::Literal(_) | Node::Map { .. } | Node::Message { .. } | Node::Invalid =
            self.parser.tree.nodes[target]
        {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((target, message.to_owned()));
        }
        let input = self.name(INPUT);
        let keys = self.map(input, variable, &[key])?;
        let input = self.name(INPUT);
        let sorted = self.method(input, "@sortByAssociatedKeys", vec![keys]);
        Ok(self.bind(INPUT.into(), target, sorted))
    }

    /// Copies an expression to new nodes.
    fn copy(&mut self, id: Id) -> Id {
        let mut node = self.parser.tree.nodes[id].clone();
        match &mut node {
            Node::Select { operand, .. } => *operand = self.copy(*operand),
            Node::Call { target, arguments, .. } => {
                for child in target.iter_mut().chain(arguments) {
                    *child = self.copy(*child);
                }
            }
            Node::List { items } => items.iter_mut().for_each(|(item, _)| *item = self.copy(*item)),
            Node::Map { entries } => entries.iter_mut().for_each(|(key, value, _)| {
                *key = self.copy(*key);
                *value = self.copy(*value);
            }),
            Node::Message { fields, .. } => {
                fields.iter_mut().for_each(|(_, value, ..)| *value = self.copy(*value))
            }
            Node::Comprehension(it) => {
                for part in [&mut it.range, &mut it.start, &mut it.condition, &mut it.step, &mut it.result] {
                    *part = self.copy(*part);
                }
            }
            Node::Literal(_) | Node::Name(_) | Node::Invalid => {}
        }
        let offset = self.parser.tree.offsets[id];
        self.parser.node(offset, node)
    }
}
