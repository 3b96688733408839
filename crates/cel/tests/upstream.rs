//! Our expressions against the API server's own: what is refused and how, what they give, may cost and have cost.
//!
//! Expressions are those of `upstream/expressions.txt`, one a line, and random ones from a seeded grammar. Without Go the
//! comparison is skipped and says so.

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

/// How many random expressions.
const RANDOM: usize = 1500;
/// How many of them with wrong syntax.
const DAMAGED: usize = 800;

/// What one call may cost, as upstream has it.
const LIMIT: u64 = 1_000_000;

fn schema() -> Json {
    serde_json::from_str(include_str!("upstream/schema.json")).expect("the schema is JSON")
}

fn value() -> Json {
    serde_json::from_str(include_str!("upstream/value.json")).expect("the value is JSON")
}

/// A value, written so that values of different types look different.
fn shown(value: &Value<'_>) -> String {
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
        Value::String(text) => Json::from(&**text).to_string(),
        Value::Bytes(bytes) => format!("bytes {}", base64::engine::general_purpose::STANDARD.encode(bytes)),
        Value::Timestamp(at) => format!("timestamp {}", atoll_cel::time::format_timestamp(*at)),
        Value::Duration(nanos) => format!("duration {nanos}"),
        Value::Type(name) => format!("type {name}"),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inside)) => format!("optional {}", shown(inside)),
        Value::List(list) => {
            let items: Vec<String> = list
                .iter()
                .map(|item| item.map_or_else(|error| error.to_string(), |item| shown(&item)))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |key: &Value<'_>| match map.find(key) {
                Ok(Some(value)) => format!("{}: {}", shown(key), shown(&value)),
                // What is null has a key and no value.
                _ => format!("{}: other error", shown(key)),
            };
            let mut entries: Vec<String> = map.keys().iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => format!("other {}", other.type_name()),
    }
}

/// What we make of an expression, in the form of upstream's answer.
fn ours(shape: &Arc<Shape>, value: &Json, text: &str) -> Json {
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
        Ok(value) => (Some(shown(value)), None),
        Err(error) => (None, Some(error.to_string())),
    };
    json!({"static": statically, "result": result, "error": error, "cost": evaluation.cost})
}

/// How many agree of how many, and those that do not.
#[derive(Default)]
struct Tally {
    same: usize,
    close: usize,
    total: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, same: bool, text: &str, theirs: &Json, ours: &Json) {
        self.total += 1;
        self.same += usize::from(same);
        // Within a factor of two.
        let number = |json: &Json| json.as_u64().or_else(|| json.get(1)?.as_u64());
        self.close += usize::from(match (number(theirs), number(ours)) {
            (Some(one), Some(two)) => {
                one.max(1) <= two.max(1).saturating_mul(2) && two.max(1) <= one.max(1).saturating_mul(2)
            }
            _ => same,
        });
        if !same {
            self.wrong.push(format!("{text}\n    go   {theirs}\n    ours {ours}"));
        }
    }

    fn report(&self, name: &str, floor: f64) -> bool {
        println!("{name}: {} of {} the same, {} within a factor of two", self.same, self.total, self.close);
        let shown = if std::env::var_os("CEL_ALL").is_some() { usize::MAX } else { 15 };
        for wrong in self.wrong.iter().take(shown) {
            println!("  {wrong}");
        }
        self.same as f64 >= self.total as f64 * floor
    }
}

fn compare(expressions: &[String], floors: [f64; 5]) {
    let (schema, value) = (schema(), value());
    let Some(answers) = go::ask(&schema, &value, expressions) else { return };
    assert_eq!(answers.len(), expressions.len(), "one answer per question");
    let (shape, _) = shapes::shape(&schema, "selfType");
    let [mut verdict, mut words, mut result, mut statically, mut actual] = <[Tally; 5]>::default();
    for (text, theirs) in expressions.iter().zip(&answers) {
        let ours = ours(&shape, &value, text);
        let kind = |answer: &Json| {
            (!answer["issues"].is_null(), !answer["program"].is_null(), !answer["error"].is_null())
        };
        verdict.add(kind(theirs) == kind(&ours), text, theirs, &ours);
        if kind(theirs) != kind(&ours) {
            continue;
        }
        if kind(theirs) == (false, false, false) {
            result.add(theirs["result"] == ours["result"], text, &theirs["result"], &ours["result"]);
        } else {
            let message = |answer: &Json| {
                [&answer["issues"], &answer["program"], &answer["error"]]
                    .into_iter()
                    .find(|it| !it.is_null())
                    .cloned()
            };
            words.add(
                message(theirs) == message(&ours),
                text,
                &message(theirs).into(),
                &message(&ours).into(),
            );
        }
        if !theirs["static"].is_null() {
            statically.add(theirs["static"] == ours["static"], text, &theirs["static"], &ours["static"]);
        }
        if theirs["program"].is_null() && theirs["issues"].is_null() {
            actual.add(theirs["cost"] == ours["cost"], text, &theirs["cost"], &ours["cost"]);
        }
    }
    let reports = [
        ("verdicts", &verdict),
        ("messages", &words),
        ("results", &result),
        ("estimates", &statically),
        ("costs", &actual),
    ];
    let fine: Vec<bool> =
        reports.iter().zip(floors).map(|((name, tally), floor)| tally.report(name, floor)).collect();
    assert!(fine.iter().all(|fine| *fine), "below the floors {floors:?}");
}

#[test]
fn written_expressions_are_as_upstream_has_them() {
    let lines = include_str!("upstream/expressions.txt").lines();
    let expressions: Vec<String> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.replace("\\N", "\n"))
        .collect();
    compare(&expressions, [0.995, 0.99, 0.995, 0.995, 0.995]);
}

fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    seed
}

#[test]
fn random_expressions_are_as_upstream_has_them() {
    let mut generator = generator::Generator::new(seed());
    let expressions: Vec<String> = (0..RANDOM).map(|_| generator.expression()).collect();
    compare(&expressions, [0.995, 0.97, 0.995, 0.99, 0.99]);
}

#[test]
fn damaged_expressions_are_refused_as_upstream_refuses_them() {
    let mut generator = generator::Generator::new(seed());
    let expressions: Vec<String> = (0..DAMAGED).map(|_| generator.damaged()).collect();
    compare(&expressions, [0.995, 0.9, 0.98, 0.98, 0.98]);
}
