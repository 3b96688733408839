//! Errors of a single value.

// upstream: k8s.io/kube-openapi/pkg/validation/validate/values.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/validator.go
// upstream: k8s.io/kube-openapi/pkg/validation/validate/type.go

use atoll_meta::json;
use atoll_meta::quote::quote;
use serde_json::Value;

use super::Cause;
use super::failure_set::{FailureSet, LONGEST, cut, quoted, shown};
use crate::formats::Format;
use crate::node::{Check, Flags, Node, Types};
use crate::validate_value::{Numeric, is_same, length, numbers};

pub(super) fn format(node: &Node) -> Option<(Format, &str)> {
    node.checks.iter().find_map(|check| match check {
        Check::Format(format, name) => Some((*format, name.as_ref())),
        _ => None,
    })
}

pub(super) fn wrong_type(outcome: &mut FailureSet, path: &str, wanted: &str, found: &str) {
    let shown = quoted(found);
    let message =
        format!("{path} in body must be of type {wanted}: {}", quote(shown.as_str().unwrap_or_default()));
    outcome.add(path, message, Cause::Type(shown));
}

pub(super) fn type_of(outcome: &mut FailureSet, node: &Node, value: &Value, path: &str) {
    let types = node.types;
    let (kind, name, precise) = match value {
        Value::Null => {
            if !types.is_empty() && !node.is(Flags::NULLABLE) {
                wrong_type(outcome, path, &types.text(), "null");
            } else {
                outcome.matches += 1;
            }
            return;
        }
        Value::Bool(_) => (Types::BOOLEAN, "boolean", ""),
        Value::String(_) => (Types::STRING, "string", ""),
        Value::Array(_) => (Types::ARRAY, "array", ""),
        Value::Object(_) => (Types::OBJECT, "object", ""),
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Integer(_) => (Types::INTEGER, "integer", "int64"),
            Numeric::Float(_) => (Types::NUMBER, "number", "float64"),
        },
    };
    let converts = match value {
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Integer(_) => types.has(Types::NUMBER),
            Numeric::Float(float) => types.has(Types::INTEGER) && numbers::is_json_integer(float),
        },
        _ => false,
    };
    let fits = types.has(kind) || converts;
    let is_row = matches!(value, Value::String(_) | Value::Array(_));
    if let Some((_, wanted)) = format(node) {
        if !is_row && !fits && precise != wanted {
            return wrong_type(outcome, path, wanted, precise);
        }
        if is_row && !types.has(Types::NUMBER) && !types.has(Types::INTEGER) {
            outcome.matches += 1;
            return;
        }
    }
    if fits {
        outcome.matches += 1;
    } else {
        wrong_type(outcome, path, &types.text(), name);
    }
}

pub(super) fn listed(outcome: &mut FailureSet, node: &Node, value: &Value, path: &str) {
    for check in &node.checks {
        let Check::Enum(known) = check else { continue };
        if known.iter().any(|known| is_same(value, known)) {
            continue;
        }
        let (mut texts, mut size) = (Vec::new(), 0);
        for known in known.iter() {
            let mut text = match known {
                Value::String(text) if text.len() <= LONGEST => text.clone(),
                known => shown(known).as_str().map_or_else(|| json::to_string(known), str::to_owned),
            };
            let rest = LONGEST - size;
            size += text.len();
            if size > LONGEST {
                cut(&mut text, rest);
                texts.push(text);
                break;
            }
            texts.push(text);
        }
        let message = format!("{path} in body should be one of [{}]", texts.join(" "));
        outcome.add(path, message, Cause::Unsupported { value: shown(value), known: texts });
    }
}

/// Adds the first violated condition on a string, as in upstream.
pub(super) fn string(outcome: &mut FailureSet, node: &Node, text: &str, path: &str) {
    for check in &node.checks {
        match check {
            Check::MaxLength(most) if length(text) > *most => {
                let message = format!("{path} in body should be at most {most} chars long");
                return outcome.add(path, message, Cause::TooLong(*most));
            }
            Check::MinLength(least) if length(text) < *least => {
                let message = format!("{path} in body should be at least {least} chars long");
                return outcome.add(path, message, Cause::Invalid(quoted(text)));
            }
            Check::Pattern(pattern) if !pattern.is_match(text) => {
                let message = match pattern.fault() {
                    None if pattern.is_too_long(text) => {
                        let source = pattern.source();
                        format!("{path} in body is too long to be matched with '{source}'")
                    }
                    None => format!("{path} in body should match '{}'", pattern.source()),
                    Some(fault) => {
                        format!(
                            "{path} in body should match '{}, but pattern is invalid: {fault}'",
                            pattern.source()
                        )
                    }
                };
                return outcome.add(path, message, Cause::Invalid(quoted(text)));
            }
            _ => {}
        }
    }
}

pub(super) fn number(outcome: &mut FailureSet, node: &Node, number: Numeric, path: &str) {
    let mut found = FailureSet::default();
    let range = |found: &mut FailureSet, what: &str| {
        let single = if node.types == Types::INTEGER { "integer" } else { "number" };
        let message = match format(node).filter(|_| numbers::format(node).is_some()) {
            Some((_, format)) => {
                format!("{what} value must be of type {single} with format {format} in {path}")
            }
            None => format!("{what} value must be of type {single} (default format) in {path}"),
        };
        found.add("", message, Cause::Whole);
    };
    if !numbers::in_range(node, number) {
        range(&mut found, "Checked");
    }
    for check in &node.checks {
        match check {
            Check::MultipleOf(factor) => {
                let fits = numbers::in_range(node, Numeric::Float(*factor));
                if !fits {
                    range(&mut found, "MultipleOf");
                }
                let number = if fits { number } else { Numeric::Float(number.float()) };
                multiple(&mut found, number, *factor, path);
            }
            Check::Minimum { bound, exclusive } => {
                let fits = numbers::in_range(node, Numeric::Float(*bound));
                if !fits {
                    range(&mut found, "Minimum boundary");
                }
                let compared = if fits { number } else { Numeric::Float(number.float()) };
                if !numbers::is_above(compared, *bound, *exclusive) {
                    let words = if *exclusive { "greater than" } else { "greater than or equal to" };
                    let message = format!("{path} in body should be {words} {}", compared.print(*bound));
                    found.add(path, message, Cause::Invalid(compared.value()));
                }
            }
            Check::Maximum { bound, exclusive } => {
                let fits = numbers::in_range(node, Numeric::Float(*bound));
                if !fits {
                    range(&mut found, "Maximum boundary");
                }
                let compared = if fits { number } else { Numeric::Float(number.float()) };
                if !numbers::is_below(compared, *bound, *exclusive) {
                    let words = if *exclusive { "less than" } else { "less than or equal to" };
                    let message = format!("{path} in body should be {words} {}", compared.print(*bound));
                    found.add(path, message, Cause::Invalid(compared.value()));
                }
            }
            _ => {}
        }
    }
    outcome.merge(found);
}

fn multiple(found: &mut FailureSet, number: Numeric, factor: f64, path: &str) {
    let (good, positive) = match number {
        Numeric::Integer(integer) => {
            let factor = numbers::go_integer(factor);
            (factor > 0 && integer % factor == 0, factor > 0)
        }
        Numeric::Float(float) => (numbers::is_float_multiple(float, factor), factor > 0.0),
    };
    if good {
        return;
    }
    let text = number.print(factor);
    if positive {
        let message = format!("{path} in body should be a multiple of {text}");
        return found.add(path, message, Cause::Invalid(number.value()));
    }
    let shown = match number {
        Numeric::Integer(_) => Value::from(numbers::go_integer(factor)),
        Numeric::Float(_) => Value::from(factor),
    };
    let message = format!("factor MultipleOf declared for {path} must be positive: {text}");
    found.add(path, message, Cause::Invalid(shown));
}
