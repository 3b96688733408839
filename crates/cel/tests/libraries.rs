//! Expressions over all library functions, compared with recorded results of the API server's own code.
//!
//! Each line of `libraries/*.txt` contains an expression and the output of `upstream/1.36/expressions`, both
//! as JSON: the issues, or the estimate, the result or the error, and the cost. Set `CEL_FILE` to run only
//! some of the files.

#[path = "upstream/go.rs"]
mod go;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use atoll_cel::{Environment, ListKind, Object, Shape, ShapeKind, Type, Value, time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// The shape of the schema, with four bytes per character.
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

fn schema() -> Json {
    json!({"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 25},
        "l": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 5}},
        "i": {"type": "array", "maxItems": 30, "items": {"type": "integer"}},
    }})
}

fn value() -> Json {
    json!({"s": "héllo wörld", "l": ["b", "a", "c"], "i": [3, 1, 2]})
}

/// Returns the files by name, with expressions and expected results.
fn cases() -> Vec<(String, Vec<(String, Json)>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries");
    let filter = std::env::var("CEL_FILE").unwrap_or_default();
    let mut files = Vec::new();
    for file in std::fs::read_dir(directory).expect("the cases are there").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(file.path()).expect("cases are text");
        let cases = text.lines().map(|line| {
            let (expression, result) = line.split_once('\t').expect("an expression and a result");
            let read = |text| serde_json::from_str::<Json>(text).expect("both are JSON");
            (read(expression).as_str().expect("an expression is text").to_owned(), read(result))
        });
        if name.contains(&filter) {
            files.push((name, cases.collect()));
        }
    }
    files.sort_by(|one, two| one.0.cmp(&two.0));
    files
}

#[test]
fn libraries_match_recorded_results() {
    let mut differences = 0;
    for (name, cases) in cases() {
        let mut counts = BTreeMap::<&str, (usize, usize)>::new();
        for (expression, expected) in cases {
            let found = evaluate(&expression);
            for field in ["issues", "static", "program", "result", "error", "cost"] {
                let is_absent = expected.get(field).is_none() && found.get(field).is_none();
                let (same, different) = counts.entry(field).or_default();
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

#[test]
fn recorded_results_match_upstream() {
    for (name, cases) in cases() {
        let expressions: Vec<String> = cases.iter().map(|(expression, _)| expression.clone()).collect();
        let Some(results) = go::run(&schema(), &value(), &expressions) else { return };
        assert_eq!(results.len(), cases.len(), "one result per expression");
        for ((expression, recorded), result) in cases.iter().zip(&results) {
            assert_eq!(result, recorded, "{name}: {expression}");
        }
    }
}

fn evaluate(text: &str) -> Json {
    let (shape, value) = (shape(), value());
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
    let mut result = json!({"type": expression.result_type().to_string(), "static": [estimate.min, estimate.max], "cost": 0});
    let program = match expression.program() {
        Ok(program) => program,
        Err(error) => {
            result["program"] = error.to_string().into();
            return result;
        }
    };
    let own = Value::from_json(&value, &shape).expect("it fits its shape");
    let old = Value::optional(Some(own.clone()));
    let evaluation = program.evaluate(&[("self", own), ("any", Value::Int(7)), ("oldSelf", old)], 1_000_000);
    result["cost"] = evaluation.cost.into();
    match &evaluation.result {
        Ok(value) => result["result"] = format(value).into(),
        Err(error) => result["error"] = error.to_string().into(),
    }
    result
}

/// Formats a value so that values of different types differ.
fn format(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) => format_double(*number),
        Value::String(text) => format_text(text),
        Value::Bytes(bytes) => format!("bytes {}", STANDARD.encode(bytes)),
        Value::Timestamp(at) => format!("timestamp {}", time::format_timestamp(*at)),
        Value::Duration(nanos) => format!("duration {nanos}"),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("optional {}", format(value)),
        Value::Type(name) => format!("type {name}"),
        Value::List(list) => {
            let items =
                list.iter().map(|item| item.map_or_else(|error| error.to_string(), |item| format(&item)));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let mut entries: Vec<String> = Vec::new();
            for key in map.keys() {
                let value = map.find(&key).ok().flatten().unwrap_or(Value::Null);
                entries.push(format!("{}: {}", format(&key), format(&value)));
            }
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => format!("other {}", other.type_name()),
    }
}

/// Formats with an exponent, as Go does.
fn format_double(number: f64) -> String {
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

/// Formats as HTML-safe JSON.
fn format_text(text: &str) -> String {
    let mut quoted = json!(text).to_string();
    for (plain, escaped) in [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028")] {
        quoted = quoted.replace(plain, escaped);
    }
    quoted
}

/// Checks expressions of admission policies, which are not evaluated.
#[test]
fn authorizations_are_checked_and_estimated() {
    let authorizer = Type::Object("kubernetes.authorization.Authorizer".into(), None);
    let environment = Environment::new().with("authorizer", authorizer).with("s", Type::String);
    let check =
        "found no matching overload for 'check' applied to 'kubernetes.authorization.GroupCheck.(string)'";
    for (expression, expected) in [
        ("authorizer.path('/healthz').check('get').allowed()", Ok((350_003, 350_003))),
        ("authorizer.group('').resource('pods').namespace('a').check('create').allowed()", Ok((350_005, 350_005))),
        (
            "authorizer.group('a').resource('b').subresource('c').name('d').check('update').reason()",
            Ok((350_006, 350_006)),
        ),
        (
            "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get').errored()",
            Ok((350_005, 350_005)),
        ),
        ("authorizer.group('').resource('pods').check('get').error() == ''", Ok((350_004, 350_004))),
        (
            "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=x').labelSelector('a=b').check('list')
            .allowed()",
            Ok((350_527, 350_527)),
        ),
        ("[authorizer].all(a, a.path('/x').check('get').allowed())", Ok((15, 350_018))),
        ("authorizer == authorizer", Ok((3, 3))),
        ("authorizer.group('').check('get')", Err(check)),
    ] {
        let found = environment.compile(expression).map(|found| found.estimate(None));
        let found = found.map(|estimate| (estimate.min, estimate.max)).map_err(|issues| issues.all()[0].message.clone());
        assert_eq!(found, expected.map_err(str::to_owned), "{expression}");
    }
}
