//! The errors of an invalid value: follows upstream's validator step by step.
//!
//! If none of several schemas matches, upstream returns the errors of the one that got furthest, measured by
//! the number of executed steps; so steps are counted here too. Duplicate messages are dropped.

// upstream: k8s.io/kube-openapi/pkg/validation/validate/schema.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/schema_props.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/object_validator.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/slice_validator.go
// upstream: k8s.io/kube-openapi/pkg/validation/errors/schema.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go

mod failure_set;
mod values;

use atoll_meta::quote::quote;
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::{Map, Value};

use failure_set::FailureSet;
use values::{format, listed, number, string, type_of, wrong_type};

use super::{Numeric, has_duplicates};
use crate::correlate::Correlated;
use crate::node::{Check, Node, NodeId, Rest};

pub(crate) use failure_set::{MOST, SIZE, quotable, shown};

/// One validation error.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Path from the root of the validated value.
    name: String,
    message: String,
    cause: Cause,
}

#[derive(Clone, Debug)]
enum Cause {
    Required,
    Unsupported {
        value: Value,
        known: Vec<String>,
    },
    TooLong(i64),
    TooMany {
        actual: usize,
        most: i64,
    },
    Type(Value),
    Invalid(Value),
    /// Not about a single value: upstream returns neither path nor value.
    Whole,
}

impl Failure {
    /// Converts to the error for clients, below `path`.
    pub fn into_error(self, path: &FieldPath) -> FieldError {
        let place = if self.name.is_empty() || self.name == "." {
            path.clone()
        } else {
            path.child(self.name.strip_prefix('.').unwrap_or(&self.name).to_owned())
        };
        let size = |number: i64| usize::try_from(number).unwrap_or_default();
        match self.cause {
            Cause::Required => FieldError::required(&place, ""),
            Cause::Unsupported { value, known } => FieldError::not_supported(&place, value, &known),
            Cause::TooLong(most) => FieldError::too_long(&place, size(most)),
            Cause::TooMany { actual, most } => FieldError::too_many(&place, actual, size(most)),
            Cause::Type(value) => FieldError::type_invalid(&place, value, self.message),
            Cause::Invalid(value) => FieldError::invalid(&place, value, self.message),
            Cause::Whole => FieldError::invalid(path, "", self.message),
        }
    }
}

/// All errors of a value. With an old value, unchanged parts are not reported.
pub(crate) fn failures<'v>(
    nodes: &[Node],
    node: &Node,
    value: &'v Value,
    before: Option<Correlated<'v>>,
    deadline: &Deadline<'_>,
) -> Vec<Failure> {
    let walk = Walk { nodes, deadline };
    let mut outcome = walk.correlated(node, value, "", before);
    if outcome.is_full && !outcome.is_valid() {
        let message =
            format!("more than {} errors were found; the others are not shown", outcome.failures.len());
        outcome.failures.push(Failure { name: String::new(), message, cause: Cause::Whole });
    }
    outcome.failures
}

struct Walk<'n> {
    nodes: &'n [Node],
    deadline: &'n Deadline<'n>,
}

impl<'n> Walk<'n> {
    fn at(&self, id: NodeId) -> &'n Node {
        &self.nodes[id.0 as usize]
    }

    /// Validates a value with its old value: an unchanged value has no errors.
    fn correlated<'v>(
        &self,
        node: &Node,
        value: &'v Value,
        path: &str,
        before: Option<Correlated<'v>>,
    ) -> FailureSet {
        let mut outcome = self.value(node, value, path, before);
        if !outcome.is_valid() && before.is_some_and(|before| before.is_equal()) {
            outcome.failures.clear();
            outcome.seen.clear();
            (outcome.size, outcome.is_full) = (0, false);
        }
        outcome
    }

    fn value<'v>(
        &self,
        node: &Node,
        value: &'v Value,
        path: &str,
        before: Option<Correlated<'v>>,
    ) -> FailureSet {
        let mut outcome = FailureSet::default();
        if self.deadline.step() {
            return outcome;
        }
        if value.is_null() {
            type_of(&mut outcome, node, value, path);
            listed(&mut outcome, node, value, path);
            return outcome;
        }
        if !node.types.is_empty() || format(node).is_some() {
            type_of(&mut outcome, node, value, path);
            outcome.matches += 1;
        }
        self.conditions(&mut outcome, node, value, path);
        // Upstream's steps: one for conditions, one for `enum`, one for the end.
        outcome.matches += 3;
        match value {
            Value::String(text) => {
                string(&mut outcome, node, text, path);
                outcome.matches += 1;
                if let Some((format, name)) = format(node).filter(|(format, _)| format.applies_to_strings()) {
                    if !format.accepts(text) {
                        wrong_type(&mut outcome, path, name, text);
                    }
                    outcome.matches += 1;
                }
            }
            Value::Number(value) => {
                number(&mut outcome, node, Numeric::of(value), path);
                outcome.matches += 2;
            }
            Value::Array(items) => {
                self.list(&mut outcome, node, items, path, before);
                outcome.matches += 2;
            }
            _ => {}
        }
        listed(&mut outcome, node, value, path);
        if let Value::Object(fields) = value {
            self.object(&mut outcome, node, fields, path, before);
            outcome.matches += 1;
        }
        outcome
    }

    fn parts(&self, parts: &[NodeId], value: &Value, path: &str) -> impl Iterator<Item = FailureSet> {
        parts.iter().map(move |part| self.value(self.at(*part), value, path, None))
    }

    fn conditions(&self, outcome: &mut FailureSet, node: &Node, value: &Value, path: &str) {
        let add_condition = |outcome: &mut FailureSet, rest: &str| {
            outcome.add("", format!("{} {rest}", quote(path)), Cause::Whole);
        };
        // Collect separately first: duplicates in here count once.
        let mut found = FailureSet { matches: 1, ..FailureSet::default() };
        for check in &node.checks {
            match check {
                Check::AnyOf(parts) => {
                    let mut best: Option<FailureSet> = None;
                    let mut good = None;
                    for outcome in self.parts(parts, value, path) {
                        if outcome.is_valid() {
                            good = Some(outcome);
                            break;
                        }
                        if best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                            best = Some(outcome);
                        }
                    }
                    if let Some(good) = good {
                        found.merge(good);
                    } else {
                        add_condition(&mut found, "must validate at least one schema (anyOf)");
                        found.merge(best.unwrap_or_default());
                    }
                }
                Check::OneOf(parts) => {
                    let mut best: Option<FailureSet> = None;
                    let mut good = Vec::new();
                    for outcome in self.parts(parts, value, path) {
                        if outcome.is_valid() {
                            best = None;
                            good.push(outcome);
                        } else if good.is_empty()
                            && best.as_ref().is_none_or(|best| outcome.matches > best.matches)
                        {
                            best = Some(outcome);
                        }
                    }
                    if good.len() == 1 {
                        good.into_iter().for_each(|good| found.merge(good));
                        continue;
                    }
                    let count = match good.len() {
                        0 => "Found none valid".to_owned(),
                        many => format!("Found {many} valid alternatives"),
                    };
                    add_condition(
                        &mut found,
                        &format!("must validate one and only one schema (oneOf). {count}"),
                    );
                    best.into_iter().for_each(|best| found.merge(best));
                }
                Check::AllOf(parts) => {
                    let mut good = 0;
                    for outcome in self.parts(parts, value, path) {
                        good += usize::from(outcome.is_valid());
                        found.merge(outcome);
                    }
                    if good != parts.len() {
                        let none = if good == 0 { ". None validated" } else { "" };
                        add_condition(&mut found, &format!("must validate all the schemas (allOf){none}"));
                    }
                }
                Check::Not(part) if self.value(self.at(*part), value, path, None).is_valid() => {
                    add_condition(&mut found, "must not validate the schema (not)");
                }
                _ => {}
            }
        }
        outcome.merge(found);
    }

    fn list<'v>(
        &self,
        outcome: &mut FailureSet,
        node: &Node,
        items: &'v [Value],
        path: &str,
        before: Option<Correlated<'v>>,
    ) {
        let mut found = FailureSet::default();
        if let Some(child) = node.items.map(|id| self.at(id)) {
            let old = before.map(|before| before.items());
            for (index, item) in items.iter().enumerate() {
                if found.is_full {
                    break;
                }
                let before = old.as_ref().and_then(|old| old.item(item));
                found.merge(self.correlated(child, item, &format!("{path}[{index}]"), before));
            }
        }
        for check in &node.checks {
            match check {
                Check::MinItems(least) if (items.len() as i64) < *least => {
                    let message = format!("{path} in body should have at least {least} items");
                    found.add(path, message, Cause::Invalid(Value::from(items.len())));
                }
                Check::MaxItems(most) if items.len() as i64 > *most => {
                    let message = format!("{path} in body should have at most {most} items");
                    found.add(path, message, Cause::TooMany { actual: items.len(), most: *most });
                }
                Check::UniqueItems if has_duplicates(items, self.deadline) => {
                    let message = format!("{path} in body shouldn't contain duplicates");
                    found.add(path, message, Cause::Invalid(Value::from("")));
                }
                _ => {}
            }
        }
        outcome.merge(found);
    }

    fn object<'v>(
        &self,
        outcome: &mut FailureSet,
        node: &Node,
        fields: &'v Map<String, Value>,
        path: &str,
        before: Option<Correlated<'v>>,
    ) {
        let mut found = FailureSet::default();
        for check in &node.checks {
            match check {
                Check::MinProperties(least) if (fields.len() as i64) < *least => {
                    let message = format!("{path} in body should have at least {least} properties");
                    found.add(path, message, Cause::Invalid(Value::from(fields.len())));
                }
                Check::MaxProperties(most) if fields.len() as i64 > *most => {
                    let message = format!("{path} in body should have at most {most} properties");
                    found.add(path, message, Cause::TooMany { actual: fields.len(), most: *most });
                }
                _ => {}
            }
        }
        for (key, value) in fields.iter().filter(|(key, _)| node.property(key).is_none()) {
            if found.is_full {
                break;
            }
            match node.rest {
                Rest::Forbidden => {
                    let message = format!("{path}.{key} in body is a forbidden property");
                    found.add(path, message, Cause::Invalid(Value::from(key.as_str())));
                }
                Rest::Node(id) => {
                    let before = before.and_then(|before| before.field(path, key));
                    found.merge(self.correlated(self.at(id), value, &format!("{path}.{key}"), before));
                }
                Rest::Unspecified | Rest::Allowed => {}
            }
        }
        for property in &node.properties {
            let Some(value) = fields.get(property.name.as_ref()) else { continue };
            let name = &property.name;
            let place = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            let before = before.and_then(|before| before.field(path, name));
            found.merge(self.correlated(self.at(property.node), value, &place, before));
        }
        for check in &node.checks {
            let Check::Required(names) = check else { continue };
            for name in names.iter().filter(|name| !fields.contains_key(name.as_ref())) {
                let name = format!("{path}.{name}");
                found.add(&name, format!("{name} in body is required"), Cause::Required);
            }
        }
        outcome.merge(found);
    }
}
