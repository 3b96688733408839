//! The cost estimator: computes the sizes of nodes and from them a range of costs.
//!
//! Paths connect an expression with the bounds of a schema. They are built as upstream builds them, including
//! paths that no schema contains.

// upstream: github.com/google/cel-go/checker/cost.go

use std::collections::HashMap;

use super::calls;
use super::path::Path;
use super::{CallEstimate, CostEstimate, Node as Part, SizeEstimate, Sizes};
use crate::check::{Checked, Reference};
use crate::functions::OverloadDecl;
use crate::syntax::tree::{ACCUMULATOR, Comprehension, Id, Node};
use crate::types::Type;
use crate::value::Value;

/// Estimates the cost of a checked expression.
pub fn estimate(checked: &Checked, sizes: &Sizes<'_>) -> CostEstimate {
    let mut estimator = Estimator {
        checked,
        sizes,
        paths: HashMap::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(checked.tree.root)
}

/// Sizes of the elements of a list or a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl Entries {
    fn union(one: Option<Entries>, two: Option<Entries>) -> Option<Entries> {
        let (one, two) = (one?, two?);
        Some(Entries { list: one.list, key: one.key.union(two.key), value: one.value.union(two.value) })
    }
}

struct Local<'a> {
    name: &'a str,
    path: Path,
    size: Option<SizeEstimate>,
    entries: Option<Entries>,
}

pub(super) struct Estimator<'a> {
    pub(super) checked: &'a Checked,
    pub(super) sizes: &'a Sizes<'a>,
    paths: HashMap<Id, Path>,
    computed: HashMap<Id, SizeEstimate>,
    entries: HashMap<Id, Entries>,
    locals: Vec<Local<'a>>,
}

impl<'a> Estimator<'a> {
    fn node(&self, id: Id) -> &'a Node {
        &self.checked.tree.nodes[id]
    }

    fn local(&self, id: Id) -> Option<&Local<'a>> {
        match self.node(id) {
            Node::Name(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                self.locals.iter().rev().find(|local| local.name == name)
            }
            _ => None,
        }
    }

    fn path(&self, id: Id) -> Path {
        match self.local(id) {
            Some(local) => local.path.clone(),
            None => self.paths.get(&id).cloned().unwrap_or_default(),
        }
    }

    fn longer(&self, id: Id, step: &str) -> Path {
        self.path(id).then(step)
    }

    /// Returns the size of a node, if known.
    fn size(&mut self, id: Id) -> Option<SizeEstimate> {
        if let Some(size) = self.computed.get(&id) {
            return Some(*size);
        }
        let written = match self.node(id) {
            Node::Literal(Value::String(text)) => Some(text.chars().count()),
            Node::Literal(Value::Bytes(bytes)) => Some(bytes.len()),
            Node::Literal(_) => Some(1),
            Node::List { items } => Some(items.len()),
            Node::Map { entries } => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = written {
            return Some(SizeEstimate::fixed(size as u64));
        }
        let path = self.path(id);
        if let Some(size) = (!path.is_empty()).then(|| self.sizes.by_path(&path.read())).flatten() {
            self.computed.insert(id, size);
            return Some(size);
        }
        if is_scalar(&self.checked.types[id]) {
            return Some(SizeEstimate::fixed(1));
        }
        self.local(id).and_then(|local| local.size)
    }

    pub(super) fn size_or_unknown(&mut self, id: Id) -> SizeEstimate {
        self.size(id).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn entry_sizes(&self, id: Id) -> Option<Entries> {
        self.entries.get(&id).copied().or_else(|| self.local(id).and_then(|local| local.entries))
    }

    fn set_size(&mut self, id: Id, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.computed.insert(id, size);
        }
    }

    fn set_entries(&mut self, id: Id, entries: Option<Entries>) {
        if let Some(entries) = entries {
            self.entries.insert(id, entries);
        }
    }

    /// Returns a node as libraries see it, and its path separately: the path is only final when all nodes
    /// have been visited.
    fn part(&mut self, id: Id) -> (Part<'a>, Path) {
        let literal = match self.node(id) {
            Node::Literal(value) => Some(value),
            _ => None,
        };
        let path = self.path(id);
        let kind = self.checked.types[id].clone();
        (Part { path: Vec::new(), kind, literal, computed: self.size(id) }, path)
    }

    fn cost(&mut self, id: Id) -> CostEstimate {
        match self.node(id) {
            Node::Literal(_) | Node::Invalid => CostEstimate::default(),
            Node::Name(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                let path = match self.local(id) {
                    Some(local) => local.path.clone(),
                    None => Path::new(name),
                };
                self.paths.insert(id, path);
                CostEstimate::fixed(1)
            }
            Node::Select { operand, test: true, .. } => self.cost(*operand),
            Node::Select { operand, field, .. } => {
                let mut cost = self.cost(*operand);
                if let Type::Map(_) | Type::Object(..) | Type::Parameter(_) = self.checked.types[*operand] {
                    cost = cost.plus(CostEstimate::fixed(1));
                }
                let path = self.longer(*operand, field);
                self.paths.insert(id, path);
                cost
            }
            Node::Call { target, function, arguments } => self.call(id, *target, function, arguments),
            Node::List { items } => {
                let mut cost = CostEstimate::fixed(10);
                let mut value = empty(items.is_empty());
                for (item, _) in items {
                    cost = cost.plus(self.cost(*item));
                    value = value.union(self.size_or_unknown(*item));
                }
                self.entries.insert(id, Entries { list: true, key: SizeEstimate::fixed(1), value });
                cost
            }
            Node::Map { entries } => {
                let mut cost = CostEstimate::fixed(30);
                let (mut key, mut value) = (empty(entries.is_empty()), empty(entries.is_empty()));
                for (own, its, _) in entries {
                    cost = cost.plus(self.cost(*own)).plus(self.cost(*its));
                    key = key.union(self.size_or_unknown(*own));
                    value = value.union(self.size_or_unknown(*its));
                }
                self.entries.insert(id, Entries { list: false, key, value });
                cost
            }
            Node::Message { fields, .. } => {
                let costs = fields.iter().map(|(_, value, ..)| self.cost(*value));
                costs.fold(CostEstimate::fixed(40), CostEstimate::plus)
            }
            Node::Comprehension(it) if self.is_binding(it) => {
                let mut cost = self.cost(it.range).plus(self.cost(it.start));
                self.push_accumulator(it);
                cost = cost.plus(self.cost(it.result));
                self.locals.pop();
                // The variable of the comprehension is out of scope here.
                let (size, entries) = (self.size(it.result), self.entry_sizes(it.result));
                self.set_size(id, size);
                self.set_entries(id, entries);
                cost
            }
            Node::Comprehension(it) => self.comprehension(id, it),
        }
    }

    /// Whether a comprehension is a `cel.bind`.
    fn is_binding(&self, it: &Comprehension) -> bool {
        matches!(self.node(it.range), Node::List { items } if items.is_empty())
            && matches!(self.node(it.condition), Node::Literal(Value::Bool(false)))
            && &*it.accumulator != "__result__"
    }

    fn push_accumulator(&mut self, it: &'a Comprehension) {
        let (path, size, entries) = (self.path(it.start), self.size(it.start), self.entry_sizes(it.start));
        self.locals.push(Local { name: &it.accumulator, path, size, entries });
    }

    /// Declares a comprehension variable for the elements of its range.
    fn push_variable(&mut self, name: &'a str, range: Id, keys: Option<bool>) {
        let entries = self.entry_sizes(range);
        let list = entries.map_or(matches!(self.checked.types[range], Type::List(_)), |entries| entries.list);
        // A single variable takes the items of a list or the keys of a map.
        let keys = keys.unwrap_or(!list);
        let step = match (keys, list) {
            (true, true) => "@indices",
            (true, false) => "@keys",
            (false, true) => "@items",
            (false, false) => "@values",
        };
        let size = entries.map(|entries| if keys { entries.key } else { entries.value });
        let path = self.longer(range, step);
        self.locals.push(Local { name, path, size, entries: None });
    }

    fn comprehension(&mut self, id: Id, it: &'a Comprehension) -> CostEstimate {
        let mut cost = self.cost(it.range).plus(self.cost(it.start));
        self.push_accumulator(it);
        let variables = match &it.second {
            Some(second) => {
                self.push_variable(&it.variable, it.range, Some(true));
                self.push_variable(second, it.range, Some(false));
                2
            }
            None => {
                self.push_variable(&it.variable, it.range, None);
                1
            }
        };
        let condition = self.cost(it.condition);
        let step = self.cost(it.step);
        self.locals.truncate(self.locals.len() - variables);
        cost = cost.plus(self.cost(it.result));
        self.locals.pop();
        let rounds = self.size_or_unknown(it.range);
        match self.node(it.start) {
            Node::Literal(_) => {
                let size = self.size(it.start);
                self.set_size(id, size);
            }
            Node::List { .. } | Node::Map { .. } => {
                self.set_size(id, Some(rounds));
                let entries = self.entry_sizes(it.step);
                self.set_entries(id, entries);
            }
            _ => {}
        }
        cost.plus(rounds.times_cost(step.plus(condition)))
    }

    fn call(&mut self, id: Id, target: Option<Id>, function: &str, arguments: &'a [Id]) -> CostEstimate {
        if let ("dyn", [argument]) = (function, arguments) {
            let cost = self.cost(*argument);
            let (size, entries) = (self.size(*argument), self.entry_sizes(*argument));
            self.set_size(id, size);
            self.set_entries(id, entries);
            return cost.plus(CostEstimate::fixed(1));
        }
        let mut costs = Vec::with_capacity(arguments.len());
        let mut parts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            costs.push(self.cost(*argument));
            parts.push(self.part(*argument));
        }
        let Reference::Function(_, overloads) = &self.checked.references[id] else {
            return CostEstimate::default();
        };
        let mut sum = CostEstimate::default();
        let receiver = target.map(|target| {
            sum = self.cost(target);
            self.part(target)
        });
        let parts: Vec<Part<'_>> = parts.into_iter().map(with_path).collect();
        let receiver = receiver.map(with_path);
        let mut cost = CostEstimate { min: u64::MAX, max: 0 };
        let mut result: Option<SizeEstimate> = None;
        for declared in overloads {
            let call = self.overload(id, declared, receiver.as_ref(), arguments, &parts, &costs);
            cost = cost.union(call.cost);
            result = match (result, call.result) {
                (Some(one), Some(two)) => Some(one.union(two)),
                (one, two) => two.or(one),
            };
            let step = match declared.overload.id {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(operand)) = (step, arguments.first()) {
                result = self.entry_sizes(*operand).map(|entries| entries.value);
                let path = self.longer(*operand, step);
                self.paths.insert(id, path);
            }
            if result.is_none() {
                result = self.size(id);
            }
        }
        self.set_size(id, result);
        sum.plus(cost)
    }

    /// Estimates one overload with its arguments.
    fn overload(
        &mut self,
        id: Id,
        declared: &OverloadDecl,
        receiver: Option<&Part<'_>>,
        arguments: &[Id],
        parts: &[Part<'_>],
        costs: &[CostEstimate],
    ) -> CallEstimate {
        let sum = costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost));
        let known = |part: usize| parts[part].computed.unwrap_or(SizeEstimate::UNKNOWN);
        match (declared.overload.id, costs) {
            ("logical_and" | "logical_or", [one, two]) => {
                CallEstimate::new(CostEstimate { min: one.min, max: one.plus(*two).max })
            }
            ("conditional", [condition, yes, no]) => {
                let size = known(1).union(known(2));
                let entries = Entries::union(self.entry_sizes(arguments[1]), self.entry_sizes(arguments[2]));
                self.set_entries(id, entries);
                CallEstimate::sized(condition.plus(yes.union(*no)), size)
            }
            ("add_string" | "add_bytes" | "add_list", [_, _]) => {
                let size = known(0).plus(known(1));
                let entries = Entries::union(self.entry_sizes(arguments[0]), self.entry_sizes(arguments[1]));
                self.set_entries(id, entries);
                let own = match declared.overload.id {
                    "add_list" => CostEstimate::fixed(1),
                    _ => size.at(super::STRING_TRAVERSAL),
                };
                CallEstimate::sized(own.plus(sum), size)
            }
            (overload, _) => {
                let own = match declared.overload.estimate {
                    Some(estimate) => estimate(self.sizes, receiver, parts),
                    None => calls::estimate(overload, receiver, parts),
                };
                let own = own.unwrap_or_else(|| CallEstimate::new(CostEstimate::fixed(1)));
                CallEstimate { cost: own.cost.plus(sum), result: own.result }
            }
        }
    }
}

/// Returns a node with its path, unless that starts with an accumulator.
fn with_path((mut part, path): (Part<'_>, Path)) -> Part<'_> {
    part.path = path.read();
    if part.path.first().is_some_and(|first| first == ACCUMULATOR || first == "__result__") {
        part.path = Vec::new();
    }
    part
}

/// Returns the initial size of elements: zero, or the identity of `union`.
fn empty(none: bool) -> SizeEstimate {
    SizeEstimate { min: if none { 0 } else { u64::MAX }, max: 0 }
}

/// Whether all values of a type have size 1.
fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.unwrapped().is_some_and(is_scalar),
    }
}
