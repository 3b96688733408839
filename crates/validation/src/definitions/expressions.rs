//! Rules that are expressions: whether they can be understood, and what they may cost.

use std::cell::Cell;

use atoll_extension::limits;
use atoll_extension::rules::{Report, reports};
use atoll_meta::{FieldError, FieldPath};

use crate::at::{At, Errors};
use crate::shown;

/// What one rule may cost, however often it may run.
const RULE_LIMIT: u64 = 10_000_000;
/// What all rules of a schema may cost.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// As many rules are named when all together cost too much.
const NAMED: usize = 4;

/// How often a value may be in an object; nothing if there is no bound.
pub(super) type Cardinality = Option<u64>;

/// What is found about the rules of a schema.
#[derive(Default)]
pub(super) struct Expressions {
    errors: Errors,
    /// Whether rules may cost too much because they always did.
    excused: bool,
    /// Whether the patterns in rules take so much that no further rules are compiled.
    is_too_large: bool,
    total: u64,
    expensive: Vec<(FieldPath, u64)>,
}

impl Expressions {
    pub fn new(excused: bool) -> Expressions {
        Expressions { excused, ..Expressions::default() }
    }

    /// The rules of one schema. `within` is the part around it, if any, of which nothing can be said about what was before.
    pub fn check(
        &mut self,
        schema: &At<'_>,
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
            let shown = || shown::value("apiextensions/v1.ValidationRule", rule.value);
            let text = rule.get("rule");
            if let Some(error) = &report.error {
                self.errors.push(text.invalid_as(shown(), error.as_str()));
            }
            let message = rule.get("messageExpression");
            match (&report.message_error, report.message_cost) {
                (Some(error), _) => self.errors.push(message.invalid_as(shown(), error.as_str())),
                (None, Some(cost)) => {
                    if !self.excused && cost > RULE_LIMIT {
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

    fn costs(&mut self, rule: &At<'_>, report: &Report, times: Cardinality) {
        let cost = report.cost.saturating_mul(times.unwrap_or(report.cardinality));
        let text = rule.get("rule");
        if !self.excused && cost > RULE_LIMIT {
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
        self.expensive.truncate(NAMED);
    }

    /// What is wrong with all rules together.
    pub fn finish(self, errors: &mut Errors, schema: &At<'_>) {
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

/// How often the parts of a value may be there.
pub(super) fn below(schema: &At<'_>, times: Cardinality) -> Cardinality {
    let most =
        |field: &'static str| schema.get(field).number().map(|most| u64::try_from(most).unwrap_or_default());
    let factor = match schema.text_of("type") {
        "object" if schema.has("additionalProperties") => most("maxProperties")?,
        "array" => most("maxItems")?,
        _ => 1,
    };
    // Nothing is not repeated.
    times.map(|times| times.saturating_mul(factor))
}
