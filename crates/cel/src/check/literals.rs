//! Validation of literals before evaluation: timestamps, durations, patterns, and mixed lists and maps.

// upstream: github.com/google/cel-go/cel/validator.go

use super::{Checked, templates};
use crate::regexp;
use crate::source::{Issues, Location};
use crate::standard;
use crate::syntax::tree::{Id, Node};
use crate::types::Type;
use crate::value::Value;

/// The function whose arguments may be mixed lists.
const MIXED: &str = "format";

/// Returns the errors in literals.
pub fn check(text: &str, checked: &Checked) -> Issues {
    let mut walker = Walker { text, checked, issues: Issues::new(text) };
    for function in ["duration", "timestamp", "matches"] {
        walker.calls(checked.tree.root, function);
    }
    walker.mixed(checked.tree.root, false, true);
    walker.mixed(checked.tree.root, false, false);
    walker.templates(checked.tree.root);
    walker.issues
}

struct Walker<'a> {
    text: &'a str,
    checked: &'a Checked,
    issues: Issues,
}

impl Walker<'_> {
    fn children(&self, id: Id) -> Vec<Id> {
        match &self.checked.tree.nodes[id] {
            Node::Literal(_) | Node::Name(_) | Node::Invalid => Vec::new(),
            Node::Select { operand, .. } => vec![*operand],
            Node::Call { target, arguments, .. } => target.iter().chain(arguments).copied().collect(),
            Node::List { items } => items.iter().map(|(item, _)| *item).collect(),
            Node::Map { entries } => entries.iter().flat_map(|(key, value, _)| [*key, *value]).collect(),
            Node::Message { fields, .. } => fields.iter().map(|(_, value, ..)| *value).collect(),
            Node::Comprehension(it) => vec![it.range, it.start, it.condition, it.step, it.result],
        }
    }

    /// Checks calls of a function whose literal argument must be valid.
    fn calls(&mut self, id: Id, function: &str) {
        if let Node::Call { function: called, arguments, .. } = &self.checked.tree.nodes[id]
            && &**called == function
            && let Some(argument) = arguments.first()
            && let Node::Literal(value) = &self.checked.tree.nodes[*argument]
        {
            let wrong = match (function, value) {
                ("matches", Value::String(pattern)) => regexp::check(pattern).is_some(),
                ("duration", value) => standard::to_duration(value).is_err(),
                ("timestamp", value) => standard::to_timestamp(value).is_err(),
                _ => false,
            };
            if wrong {
                let location = Location::at(self.text, self.checked.tree.offsets[*argument]);
                self.issues.add(location, format!("invalid {function} argument"));
            }
        }
        for child in self.children(id) {
            self.calls(child, function);
        }
    }

    /// Checks format strings against their arguments.
    fn templates(&mut self, id: Id) {
        if let Some((at, message)) = templates::check(self.checked, id) {
            self.issues.add(Location::at(self.text, self.checked.tree.offsets[at]), message);
        }
        for child in self.children(id) {
            self.templates(child);
        }
    }

    /// Checks that a list or map is not of mixed types.
    fn mixed(&mut self, id: Id, exempt: bool, lists: bool) {
        let mut exempt = exempt;
        match &self.checked.tree.nodes[id] {
            Node::Call { function, .. } => exempt |= &**function == MIXED,
            Node::List { items } if lists && !exempt => self.same(items, true),
            Node::Map { entries } if !lists && !exempt => {
                let keys: Vec<_> = entries.iter().map(|(key, ..)| (*key, false)).collect();
                let values: Vec<_> = entries.iter().map(|(_, value, optional)| (*value, *optional)).collect();
                self.same(&keys, false);
                self.same(&values, false);
            }
            _ => {}
        }
        for child in self.children(id) {
            self.mixed(child, exempt, lists);
        }
    }

    fn same(&mut self, items: &[(Id, bool)], only_first: bool) {
        let kind = |(id, optional): (Id, bool)| {
            let kind = &self.checked.types[id];
            if optional { kind.unwrapped().unwrap_or(kind) } else { kind }
        };
        let Some(expected) = items.first().map(|first| kind(*first)) else { return };
        for item in &items[1..] {
            let found = kind(*item);
            if !equivalent(expected, found) {
                let location = Location::at(self.text, self.checked.tree.offsets[item.0]);
                self.issues.add(location, format!("expected type '{expected}' but found '{found}'"));
                if only_first {
                    break;
                }
            }
        }
    }
}

/// Whether types are equal up to renaming of type parameters.
fn equivalent(one: &Type, two: &Type) -> bool {
    let (first, second) = (one.parameters(), two.parameters());
    let is_parameter = matches!((one, two), (Type::Parameter(_), Type::Parameter(_)));
    (is_parameter || one.name() == two.name())
        && first.len() == second.len()
        && first.iter().zip(second).all(|(one, two)| equivalent(one, two))
}
