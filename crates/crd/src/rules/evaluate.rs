//! Evaluates the rules of an object until the cost budget is exhausted.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go

use std::borrow::Cow;

use atoll_cel::{Error, Evaluation, Program, Value as Seen};
use atoll_meta::field::BadValue;
use atoll_meta::quote::quote;
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::Value;

use super::{BUDGET, CALL_LIMIT, CompiledRule, RuleSet, Rules};
use crate::correlate::Correlated;
use crate::node::{Flags, Node, NodeId, ValidationRule};
use crate::object_path::ObjectPath;
use crate::schema::Schema;
use crate::validate_object::ValidationResult;
use crate::validate_value::{self, MOST, SIZE, quotable};

/// Maximum length of a message from an expression.
const LONGEST_MESSAGE: usize = 5 * 1024;
const BUDGET_EXHAUSTED: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl Schema {
    /// Evaluates the rules of an object with its old value, if there is one.
    pub(crate) fn validate_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        findings: &mut ValidationResult,
        deadline: &Deadline<'_>,
    ) {
        let root = self.root();
        let current = old.map(|old| Correlated { nodes: &self.nodes, node: root, new, old });
        let mut walk =
            Walk { nodes: &self.nodes, rules: self.rules(), budget: BUDGET, findings, deadline, size: 0 };
        let root = FieldPath::nil();
        // An exhausted budget has already been reported.
        let _ = walk.value(
            self.root,
            true,
            new,
            old,
            Ratchet { current, parent: None },
            &ObjectPath::Root(&root),
        );
        let is_full = walk.is_full();
        if is_full && !findings.errors.is_empty() {
            let detail = "more errors were found than are shown";
            findings.errors.push(FieldError::invalid(&root, BadValue::Omitted, detail));
        }
    }
}

/// Evaluates the rules of a value in a definition. An exhausted budget is negative. The result is invalid once the deadline
/// has passed.
pub(crate) fn check_alone(
    (nodes, rules, (id, is_object)): (&[Node], &Rules, (NodeId, bool)),
    value: &Value,
    old: Option<&Value>,
    path: &FieldPath,
    (budget, deadline): (&mut i64, &Deadline<'_>),
) -> Vec<FieldError> {
    let mut findings = ValidationResult::default();
    let mut walk = Walk { nodes, rules, budget: *budget, findings: &mut findings, deadline, size: 0 };
    let before = Ratchet { current: None, parent: None };
    let spent = walk.value(id, is_object, value, old, before, &ObjectPath::Root(path)).is_err();
    *budget = if spent { -1 } else { walk.budget };
    findings.errors
}

/// The cost budget is exhausted: nothing more is evaluated.
pub(crate) struct BudgetExhausted;

/// The old value, or that of the nearest enclosing value that can be correlated.
#[derive(Clone, Copy)]
struct Ratchet<'v> {
    current: Option<Correlated<'v>>,
    parent: Option<Correlated<'v>>,
}

impl<'v> Ratchet<'v> {
    fn field(self, name: &str) -> Ratchet<'v> {
        let Some(current) = self.current else { return self };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Ratchet { current: None, parent: None };
        }
        Ratchet { current: current.key(name), parent: Some(current) }
    }

    /// Whether the value is unchanged.
    fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(|before| before.is_equal())
    }
}

struct Walk<'s, 'f> {
    nodes: &'s [Node],
    rules: &'s Rules,
    budget: i64,
    findings: &'f mut ValidationResult,
    deadline: &'f Deadline<'f>,
    /// Approximate total length of the errors.
    size: usize,
}

impl<'s> Walk<'s, '_> {
    fn value<'v>(
        &mut self,
        id: NodeId,
        is_object: bool,
        value: &'v Value,
        old: Option<&'v Value>,
        before: Ratchet<'v>,
        path: &ObjectPath<'_>,
    ) -> Result<(), BudgetExhausted> {
        let node = &self.nodes[id.0 as usize];
        if value.is_null() || !node.is(Flags::HOLDS_RULES) {
            return Ok(());
        }
        if self.deadline.step() || self.is_full() {
            return Err(BudgetExhausted);
        }
        let old = old.filter(|old| !old.is_null());
        match self.rules.sets.get(&(id, is_object)) {
            Some(Some(set)) => self.set(node, set, value, old, before, path)?,
            Some(None) => {
                let detail = match self.rules.is_too_large() {
                    true => {
                        "rule compiler initialization error: the rules of the definition are too large to be compiled"
                    }
                    false => {
                        "rule compiler initialization error: failed to convert to declType for CEL validation rules"
                    }
                };
                self.refuse(node, path, detail);
            }
            None => {}
        }
        let nodes = self.nodes;
        let embeds = |id: NodeId| nodes[id.0 as usize].is(Flags::EMBEDS);
        match value {
            Value::Array(items) => {
                let Some(child) = node.items else { return Ok(()) };
                // Without an old value there is nothing to look up.
                let null = &Value::Null;
                let olds = Correlated { nodes, node, new: value, old: old.unwrap_or(null) }.items();
                let correlated = before.current.map(|current| current.items());
                for (index, item) in items.iter().enumerate() {
                    let inner = match &correlated {
                        Some(items) => Ratchet { current: items.item(item), parent: before.current },
                        None => before,
                    };
                    let path = ObjectPath::Index(path, index);
                    self.value(child, embeds(child), item, olds.old(item), inner, &path)?;
                }
            }
            Value::Object(fields) => {
                let olds = old.and_then(Value::as_object);
                if let Some(child) = node.rest.node() {
                    for (key, value) in fields {
                        let old = olds.and_then(|olds| olds.get(key));
                        let path = ObjectPath::Key(path, key);
                        self.value(child, embeds(child), value, old, before.field(key), &path)?;
                    }
                }
                for (key, value) in fields {
                    let Some(child) = node.property(key) else { continue };
                    let old = olds.and_then(|olds| olds.get(key));
                    let path = ObjectPath::Field(path, key);
                    self.value(child, embeds(child), value, old, before.field(key), &path)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the limit of errors is reached.
    fn is_full(&self) -> bool {
        self.size > SIZE || self.findings.errors.len() + self.findings.warnings.len() >= MOST
    }

    fn refuse(&mut self, node: &Node, path: &ObjectPath<'_>, detail: impl Into<String>) {
        let error = FieldError::invalid(&path.path(), type_name(node), detail);
        self.size += error.size();
        self.findings.errors.push(error);
    }

    fn set<'v>(
        &mut self,
        node: &'s Node,
        set: &'s RuleSet,
        value: &'v Value,
        old: Option<&'v Value>,
        before: Ratchet<'v>,
        path: &ObjectPath<'_>,
    ) -> Result<(), BudgetExhausted> {
        if self.budget <= 0 {
            self.refuse(node, path, BUDGET_EXHAUSTED);
            return Err(BudgetExhausted);
        }
        let sources = node.extra.as_ref().map_or(&[][..], |extra| &extra.rules);
        for (rule, source) in set.rules.iter().zip(sources) {
            if let Some(error) = &rule.error {
                self.refuse(node, path, format!("rule compile error: {error}"));
                continue;
            }
            let Some(program) = &rule.program else { continue };
            let optional = source.optional_old_self == Some(true);
            if rule.uses_old && old.is_none() && !optional {
                continue;
            }
            let evaluation = run(program, set, value, old, optional, self.deadline);
            if self.deadline.has_passed() {
                return Err(BudgetExhausted);
            }
            if self.charge(evaluation.cost).is_err() {
                self.refuse(node, path, BUDGET_EXHAUSTED);
                return Err(BudgetExhausted);
            }
            match evaluation.result {
                Ok(Seen::Bool(true)) => {}
                Ok(_) => self.failed(node, set, rule, source, (value, old, before), path)?,
                Err(error) => {
                    let shown = rule_text(source);
                    match error {
                        Error::NoSuchOverload => {
                            self.refuse(node, path, format!("'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"));
                        }
                        Error::Cancelled => {
                            self.refuse(node, path, format!("'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"));
                            return Err(BudgetExhausted);
                        }
                        Error::Failed(message) if message.starts_with("no such overload") => {
                            self.refuse(node, path, format!("'{message}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"));
                        }
                        Error::Failed(message) => {
                            self.refuse(node, path, format!("{message} evaluating rule: {shown}"));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn charge(&mut self, cost: u64) -> Result<(), BudgetExhausted> {
        match i64::try_from(cost) {
            Ok(cost) if cost <= self.budget => {
                self.budget -= cost;
                Ok(())
            }
            _ => Err(BudgetExhausted),
        }
    }

    /// Adds the error of a violated rule.
    fn failed<'v>(
        &mut self,
        node: &Node,
        set: &'s RuleSet,
        rule: &'s CompiledRule,
        source: &ValidationRule,
        (value, old, before): (&'v Value, Option<&'v Value>, Ratchet<'v>),
        path: &ObjectPath<'_>,
    ) -> Result<(), BudgetExhausted> {
        let mut path = path.path();
        if !rule.field_path.is_empty() {
            path = path.child(rule.field_path.to_string());
        }
        let detail = match &rule.message {
            None => None,
            Some(program) => {
                let evaluation = run(program, set, value, old, false, self.deadline);
                match self.message(evaluation, &source.message_expression) {
                    Ok(message) => message,
                    Err(detail) => {
                        let error = FieldError::invalid(&path, type_name(node), detail);
                        self.add(error, rule, before);
                        return Err(BudgetExhausted);
                    }
                }
            }
        };
        let detail = detail.unwrap_or_else(|| match &*source.message {
            "" => format!("failed rule: {}", rule_text(source)),
            message => quotable(message.trim()).into_owned(),
        });
        let bad: BadValue = match type_name(node) {
            "object" | "array" => BadValue::Omitted,
            _ => BadValue::Value(validate_value::shown(value)),
        };
        let error = match source.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(&path, detail),
            Some("FieldValueRequired") => FieldError::required(&path, detail),
            Some("FieldValueDuplicate") => FieldError::duplicate(&path, bad),
            _ => FieldError::invalid(&path, bad, detail),
        };
        self.add(error, rule, before);
        Ok(())
    }

    fn add(&mut self, error: FieldError, rule: &CompiledRule, before: Ratchet<'_>) {
        self.size += error.size();
        if !rule.uses_old && before.is_unchanged() {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
    }

    /// The message of an expression if it is valid; an error ends the evaluation.
    fn message(&mut self, evaluation: Evaluation<'_>, source: &str) -> Result<Option<String>, String> {
        if self.charge(evaluation.cost).is_err() {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        match evaluation.result {
            Err(Error::Cancelled) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                quote(source)
            )),
            Err(_) => Ok(None),
            Ok(value) => {
                let text = value.as_str().unwrap_or_default().trim();
                let good = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
                Ok(good.then(|| text.to_owned()))
            }
        }
    }
}

fn type_name(node: &Node) -> &'static str {
    if node.is(Flags::INT_OR_STRING) { "" } else { node.types.single().unwrap_or_default() }
}

/// The rule for messages.
fn rule_text(rule: &ValidationRule) -> Cow<'_, str> {
    quotable(if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() })
}

fn run<'a>(
    program: &'a Program,
    set: &'a RuleSet,
    value: &'a Value,
    old: Option<&'a Value>,
    optional: bool,
    deadline: &Deadline<'_>,
) -> Evaluation<'a> {
    let failed = |error| Evaluation { result: Err(error), cost: 0 };
    // Unused variables may have any value.
    let uses = |name: &str| program.variables().iter().any(|variable| &**variable == name);
    let seen = |value: &'a Value| Seen::from_json(value, &set.shape);
    let now = match uses("self").then(|| seen(value)).transpose() {
        Ok(now) => now,
        Err(error) => return failed(error),
    };
    let old = match old.filter(|_| set.uses_old && uses("oldSelf")).map(seen).transpose() {
        Ok(old) => old,
        Err(error) => return failed(error),
    };
    let mut variables: Vec<(&str, Seen<'a>)> = now.map(|now| ("self", now)).into_iter().collect();
    if optional {
        variables.push(("oldSelf", Seen::optional(old)));
    } else if let Some(old) = old {
        variables.push(("oldSelf", old));
    }
    program.evaluate_until(&variables, CALL_LIMIT, deadline)
}
