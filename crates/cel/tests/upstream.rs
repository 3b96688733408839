//! Compares expressions with the API server's own CEL: errors, results, estimates and costs.
//!
//! The expressions are those of `upstream/expressions.txt`, one per line, and random ones from a seeded
//! grammar. Without Go the comparison is skipped with a message.

#[path = "upstream/generator.rs"]
mod generator;
#[path = "upstream/go.rs"]
mod go;
#[path = "upstream/shapes.rs"]
mod shapes;

use std::sync::Arc;

use atoll_cel::{Environment, Shape, Type, Value};
use base64::Engine as _;
use serde_json::{Value as Json, json};

/// Number of random expressions.
const RANDOM: usize = 1500;
/// Number of random expressions with wrong syntax.
const MALFORMED: usize = 800;

/// Cost limit of a call, as upstream's.
const LIMIT: u64 = 1_000_000;

fn schema() -> Json {
    serde_json::from_str(include_str!("upstream/schema.json")).expect("the schema is JSON")
}

fn value() -> Json {
    serde_json::from_str(include_str!("upstream/value.json")).expect("the value is JSON")
}

/// Formats a value so that values of different types differ.
fn format(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Uint(it) => format!("{it}u"),
        Value::Double(it) if it.is_nan() => "NaN".to_owned(),
        Value::Double(it) if it.is_infinite() => if *it > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        Value::Double(it) => {
            let text = format!("{it:e}");
            let (digits, exponent) = text.split_once('e').expect("it has an exponent");
            let exponent: i32 = exponent.parse().expect("it is a number");
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        // Go escapes these characters.
        Value::String(text) => {
            let text = Json::from(&**text).to_string();
            text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
        }
        Value::Bytes(bytes) => format!("bytes {}", base64::engine::general_purpose::STANDARD.encode(bytes)),
        Value::Timestamp(at) => format!("timestamp {}", atoll_cel::time::format_timestamp(*at)),
        Value::Duration(nanos) => format!("duration {nanos}"),
        Value::Type(name) => format!("type {name}"),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inside)) => format!("optional {}", format(inside)),
        Value::List(list) => {
            let items: Vec<String> = list
                .iter()
                .map(|item| item.map_or_else(|error| error.to_string(), |item| format(&item)))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |key: &Value<'_>| match map.find(key) {
                Ok(Some(value)) => format!("{}: {}", format(key), format(&value)),
                // A null field has a key and no value.
                _ => format!("{}: other error", format(key)),
            };
            let mut entries: Vec<String> = map.keys().iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => format!("other {}", other.type_name()),
    }
}

/// Evaluates an expression and returns the result in the form of upstream's output.
fn evaluate(shape: &Arc<Shape>, value: &Json, text: &str) -> Json {
    let old = Type::optional(shape.type_of().expect("it is visible"));
    let environment =
        Environment::new().with_shape("self", shape).with("any", Type::Dyn).with("oldSelf", old);
    let expression = match environment.compile(text) {
        Ok(expression) => expression,
        Err(issues) => return json!({"issues": issues.to_string(), "cost": 0}),
    };
    let estimate = expression.estimate(Some(shape));
    let statically = json!([estimate.min, estimate.max]);
    let program = match expression.program() {
        Ok(program) => program,
        Err(error) => return json!({"program": error.to_string(), "static": statically, "cost": 0}),
    };
    let bound = Value::from_json(value, shape).expect("it fits its shape");
    let variables =
        [("oldSelf", Value::optional(Some(bound.clone()))), ("self", bound), ("any", Value::Int(7))];
    let evaluation = program.evaluate(&variables, LIMIT);
    let (result, error) = match &evaluation.result {
        Ok(value) => (Some(format(value)), None),
        Err(error) => (None, Some(error.to_string())),
    };
    json!({"static": statically, "result": result, "error": error, "cost": evaluation.cost})
}

/// Number of matches and the mismatches.
#[derive(Default)]
struct Tally {
    same: usize,
    close: usize,
    total: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, same: bool, text: &str, expected: &Json, actual: &Json) {
        self.total += 1;
        self.same += usize::from(same);
        // Within a factor of two.
        let number = |json: &Json| json.as_u64().or_else(|| json.get(1)?.as_u64());
        self.close += usize::from(match (number(expected), number(actual)) {
            (Some(one), Some(two)) => {
                one.max(1) <= two.max(1).saturating_mul(2) && two.max(1) <= one.max(1).saturating_mul(2)
            }
            _ => same,
        });
        if !same {
            self.wrong.push(format!("{text}\n    go    {expected}\n    atoll {actual}"));
        }
    }

    fn report(&self, name: &str, floor: f64) -> bool {
        println!("{name}: {} of {} the same, {} within a factor of two", self.same, self.total, self.close);
        let format = if std::env::var_os("CEL_ALL").is_some() { usize::MAX } else { 15 };
        for wrong in self.wrong.iter().take(format) {
            println!("  {wrong}");
        }
        self.same as f64 >= self.total as f64 * floor
    }
}

fn compare(expressions: &[String], floors: [f64; 5]) {
    let (schema, value) = (schema(), value());
    let Some(results) = go::run(&schema, &value, expressions) else { return };
    assert_eq!(results.len(), expressions.len(), "one result per expression");
    let (shape, _) = shapes::shape(&schema, "selfType");
    let [mut outcomes, mut messages, mut values, mut estimates, mut costs] = <[Tally; 5]>::default();
    for (text, expected) in expressions.iter().zip(&results) {
        let actual = evaluate(&shape, &value, text);
        let kind = |result: &Json| {
            (!result["issues"].is_null(), !result["program"].is_null(), !result["error"].is_null())
        };
        outcomes.add(kind(expected) == kind(&actual), text, expected, &actual);
        if kind(expected) != kind(&actual) {
            continue;
        }
        if kind(expected) == (false, false, false) {
            values.add(expected["result"] == actual["result"], text, &expected["result"], &actual["result"]);
        } else {
            let message = |result: &Json| {
                [&result["issues"], &result["program"], &result["error"]]
                    .into_iter()
                    .find(|it| !it.is_null())
                    .cloned()
            };
            messages.add(
                message(expected) == message(&actual),
                text,
                &message(expected).into(),
                &message(&actual).into(),
            );
        }
        if !expected["static"].is_null() {
            estimates.add(
                expected["static"] == actual["static"],
                text,
                &expected["static"],
                &actual["static"],
            );
        }
        if expected["program"].is_null() && expected["issues"].is_null() {
            costs.add(expected["cost"] == actual["cost"], text, &expected["cost"], &actual["cost"]);
        }
    }
    let reports = [
        ("outcomes", &outcomes),
        ("messages", &messages),
        ("results", &values),
        ("estimates", &estimates),
        ("costs", &costs),
    ];
    let fine: Vec<bool> =
        reports.iter().zip(floors).map(|((name, tally), floor)| tally.report(name, floor)).collect();
    assert!(fine.iter().all(|fine| *fine), "below the floors {floors:?}");
}

#[test]
fn listed_expressions_match_upstream() {
    let lines = include_str!("upstream/expressions.txt").lines();
    let expressions: Vec<String> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.replace("\\N", "\n"))
        .collect();
    compare(&expressions, [0.995, 0.99, 0.995, 0.995, 0.995]);
}

#[test]
fn random_expressions_match_upstream() {
    let mut generator = generator::Generator::new(atoll_upstream::seed());
    let expressions: Vec<String> = (0..RANDOM).map(|_| generator.expression()).collect();
    compare(&expressions, [0.995, 0.97, 0.995, 0.99, 0.99]);
}

#[test]
fn malformed_expressions_are_rejected_as_upstream() {
    let mut generator = generator::Generator::new(atoll_upstream::seed());
    let expressions: Vec<String> = (0..MALFORMED).map(|_| generator.malformed()).collect();
    compare(&expressions, [0.995, 0.9, 0.98, 0.98, 0.98]);
}
