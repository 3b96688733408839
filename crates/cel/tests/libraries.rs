//! Expressions over all functions of the libraries, and what the API server's own code says of them.
//!
//! Each line of `libraries/*.txt` is an expression and the answer of `upstream/1.36/expressions`, both as JSON: the issues,
//! or the estimate, the result or the error, and the cost. Set `CEL_FILE` to look at some files only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use atoll_cel::{Environment, ListKind, Object, Shape, ShapeKind, Type, Value};
use atoll_meta::time;
use serde_json::{Value as Json, json};

/// What the answers are for: `{s: string of 25, l: 50 strings of 5, i: 30 integers}`, lengths in characters of four bytes.
fn shape() -> Arc<Shape> {
    let items = Shape::bounded(ShapeKind::String, 20);
    let fields = [
        ("s", Shape::bounded(ShapeKind::String, 100)),
        ("l", Shape::bounded(ShapeKind::List(items, ListKind::Atomic), 50)),
        ("i", Shape::bounded(ShapeKind::List(Shape::new(ShapeKind::Int), ListKind::Atomic), 30)),
    ];
    let fields: BTreeMap<String, Arc<Shape>> =
        fields.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect();
    Shape::new(ShapeKind::Object(Object::new("selfType", fields, true)))
}

#[test]
fn libraries_answer_as_upstream_does() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries");
    let mut files: Vec<_> = std::fs::read_dir(directory).expect("the cases are there").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let wanted = std::env::var("CEL_FILE").unwrap_or_default();
    let mut differences = 0;
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).expect("cases are text");
        let mut counts = BTreeMap::<String, (usize, usize)>::new();
        for line in text.lines() {
            let (expression, expected) = line.split_once('\t').expect("an expression and an answer");
            let expression: String =
                serde_json::from_str(expression).expect("an expression is a JSON string");
            let expected: Json = serde_json::from_str(expected).expect("an answer is JSON");
            let found = answer(&expression);
            for field in ["issues", "static", "program", "result", "error", "cost"] {
                let is_absent = expected.get(field).is_none() && found.get(field).is_none();
                let (same, different) = counts.entry(field.to_owned()).or_default();
                if expected.get(field) == found.get(field) {
                    *same += usize::from(!is_absent);
                } else {
                    *different += 1;
                    let (expected, found) = (&expected[field], &found[field]);
                    println!(
                        "{name}: {expression}\n  expected {field} {expected}\n  found    {field} {found}"
                    );
                }
            }
        }
        println!("{name}: (same, different) {counts:?}");
        differences += counts.values().map(|(_, different)| different).sum::<usize>();
    }
    assert_eq!(differences, 0, "answers that are not upstream's");
}

fn answer(text: &str) -> Json {
    let (shape, value) = (shape(), json!({"s": "héllo wörld", "l": ["b", "a", "c"], "i": [3, 1, 2]}));
    let kind = shape.type_of().expect("an object has a type");
    let environment = Environment::new()
        .with("self", kind.clone())
        .with("any", Type::Dyn)
        .with("oldSelf", Type::optional(kind));
    let expression = match environment.compile(text) {
        Ok(expression) => expression,
        Err(issues) => return json!({"issues": issues.to_string(), "cost": 0}),
    };
    let estimate = expression.estimate(Some(&shape));
    let mut answer = json!({"type": expression.result_type().to_string(), "static": [estimate.min, estimate.max], "cost": 0});
    let program = match expression.program() {
        Ok(program) => program,
        Err(error) => {
            answer["program"] = error.to_string().into();
            return answer;
        }
    };
    let own = Value::from_json(&value, &shape).expect("it fits its shape");
    let old = Value::optional(Some(own.clone()));
    let evaluation = program.evaluate(&[("self", own), ("any", Value::Int(7)), ("oldSelf", old)], 1_000_000);
    answer["cost"] = evaluation.cost.into();
    match &evaluation.result {
        Ok(value) => answer["result"] = show(value).into(),
        Err(error) => answer["error"] = error.to_string().into(),
    }
    answer
}

/// A value so that values of different types look different.
fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) => show_double(*number),
        Value::String(text) => show_text(text),
        Value::Bytes(bytes) => format!("bytes {}", show_bytes(bytes)),
        Value::Timestamp(at) => format!("timestamp {}", time::format(at.seconds)),
        Value::Duration(nanos) => format!("duration {nanos}"),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("optional {}", show(value)),
        Value::Type(name) => format!("type {name}"),
        Value::List(list) => {
            let items =
                list.iter().map(|item| item.map_or_else(|error| error.to_string(), |item| show(&item)));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let mut entries: Vec<String> = Vec::new();
            for key in map.keys() {
                let value = map.find(&key).ok().flatten().unwrap_or(Value::Null);
                entries.push(format!("{}: {}", show(&key), show(&value)));
            }
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => format!("other {}", other.type_name()),
    }
}

/// With an exponent, as Go writes it.
fn show_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// As JSON that is safe within HTML.
fn show_text(text: &str) -> String {
    let mut shown = json!(text).to_string();
    for (plain, escaped) in [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028")] {
        shown = shown.replace(plain, escaped);
    }
    shown
}

/// In base 64; there are few enough to do it by hand.
fn show_bytes(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .enumerate()
            .fold(0, |bits, (place, byte)| bits | u32::from(*byte) << (16 - 8 * place));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}
