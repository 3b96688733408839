//! CEL rules in schemas: compilation and estimated cost.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go

use std::cell::Cell;

use atoll_crd::limits;
use atoll_crd::rules::{RuleReport, reports};
use atoll_meta::{FieldError, FieldPath};

use crate::field_value::{Errors, FieldValue};
use crate::go_json;

/// Cost limit for one rule, times the number of values that it runs on.
const RULE_LIMIT: u64 = 10_000_000;
/// Cost limit for all rules of a schema together.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Number of rules that the message names when their total cost exceeds the limit.
const MAX_REPORTED_RULES: usize = 4;

/// Maximum number of occurrences of a value in an object. `None` means unbounded.
pub(super) type Cardinality = Option<u64>;

/// Results for the rules of a schema.
#[derive(Default)]
pub(super) struct Expressions {
    errors: Errors,
    /// Whether rules may exceed the limits because the old definition did.
    limits_disabled: bool,
    /// Whether patterns in rules need so much memory that no further rules are compiled.
    is_too_large: bool,
    total: u64,
    expensive: Vec<(FieldPath, u64)>,
}

impl Expressions {
    pub fn new(limits_disabled: bool) -> Expressions {
        Expressions { limits_disabled, ..Expressions::default() }
    }

    /// Checks the rules of one schema. `within` is the enclosing part, if any, whose elements cannot be
    /// correlated with those of the old object.
    pub fn check(
        &mut self,
        schema: &FieldValue<'_>,
        is_object: bool,
        times: Cardinality,
        within: Option<&FieldPath>,
        patterns: &Cell<u64>,
    ) {
        let rules = schema.get("x-kubernetes-validations");
        if rules.is_empty() || self.is_too_large {
            return;
        }
        let Some(reports) = reports(schema.value, is_object) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(FieldError::internal(&rules.path, detail));
            return;
        };
        for (rule, report) in rules.items().zip(reports) {
            self.costs(&rule, &report, times);
            match patterns.get().checked_sub(report.patterns) {
                Some(left) => patterns.set(left),
                None => {
                    self.is_too_large = true;
                    self.errors.push(rule.get("rule").invalid(limits::too_large()));
                    return;
                }
            }
            let rendered = || go_json::value("apiextensions/v1.ValidationRule", rule.value);
            let text = rule.get("rule");
            if let Some(error) = &report.error {
                self.errors.push(text.invalid_as(rendered(), error.as_str()));
            }
            let message = rule.get("messageExpression");
            match (&report.message_error, report.message_cost) {
                (Some(error), _) => self.errors.push(message.invalid_as(rendered(), error.as_str())),
                (None, Some(cost)) => {
                    if !self.limits_disabled && cost > RULE_LIMIT {
                        let detail = too_expensive("estimated messageExpression cost", cost, RULE_LIMIT);
                        self.errors.push(message.forbidden(detail));
                    }
                    self.observe(&message.path, cost);
                }
                (None, None) => {}
            }
            if report.uses_old_self {
                if let Some(within) = within {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    );
                    self.errors.push(text.invalid(detail));
                }
            } else if rule.has("optionalOldSelf") {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(rule.get("optionalOldSelf").invalid(detail));
            }
        }
    }

    fn costs(&mut self, rule: &FieldValue<'_>, report: &RuleReport, times: Cardinality) {
        let cost = report.cost.saturating_mul(times.unwrap_or(report.cardinality));
        let text = rule.get("rule");
        if !self.limits_disabled && cost > RULE_LIMIT {
            self.errors.push(text.forbidden(too_expensive("estimated rule cost", cost, RULE_LIMIT)));
        }
        self.observe(&text.path, cost);
    }

    fn observe(&mut self, path: &FieldPath, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        self.expensive.push((path.clone(), cost));
        self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.expensive.truncate(MAX_REPORTED_RULES);
    }

    /// Adds the errors about the total cost.
    pub fn finish(self, errors: &mut Errors, schema: &FieldValue<'_>) {
        errors.extend(self.errors);
        if self.total <= SCHEMA_LIMIT {
            return;
        }
        let detail =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        errors.extend(self.expensive.iter().map(|(path, _)| FieldError::forbidden(path, detail)));
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(schema.forbidden(too_expensive(name, self.total, SCHEMA_LIMIT)));
    }
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Returns the cardinality of the parts of a value.
pub(super) fn below(schema: &FieldValue<'_>, times: Cardinality) -> Cardinality {
    let most =
        |field: &'static str| schema.get(field).number().map(|most| u64::try_from(most).unwrap_or_default());
    let factor = match schema.text_of("type") {
        "object" if schema.has("additionalProperties") => most("maxProperties")?,
        "array" => most("maxItems")?,
        _ => 1,
    };
    // A cardinality of zero stays zero.
    times.map(|times| times.saturating_mul(factor))
}
