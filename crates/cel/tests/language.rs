//! Values, costs and errors of expressions.

#[path = "upstream/shapes.rs"]
mod shapes;

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_cel::{Environment, ListKind, Object, Shape, ShapeKind, Type, Value};
use atoll_meta::Deadline;
use serde_json::json;

/// The shape of `self` in most cases.
fn shape() -> Arc<Shape> {
    let string = || Shape::bounded(ShapeKind::String, 40);
    let fields = |fields: Vec<(&str, Arc<Shape>)>| -> BTreeMap<String, Arc<Shape>> {
        fields.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect()
    };
    let item = Shape::new(ShapeKind::Object(Object::new(
        "selfType.items.@idx",
        fields(vec![("name", string()), ("port", Shape::new(ShapeKind::Int))]),
        true,
    )));
    Shape::new(ShapeKind::Object(Object::new(
        "selfType",
        fields(vec![
            ("name", string()),
            ("replicas", Shape::new(ShapeKind::Int)),
            ("ratio", Shape::new(ShapeKind::Double)),
            ("a.b", string()),
            ("namespace", string()),
            ("port", Shape::bounded(ShapeKind::IntOrString, 100)),
            ("when", Shape::bounded(ShapeKind::DateTime, 27)),
            ("span", Shape::bounded(ShapeKind::Duration, 33)),
            ("set", Shape::bounded(ShapeKind::List(string(), ListKind::Set), 10)),
            ("items", Shape::bounded(ShapeKind::List(item, ListKind::Map(vec!["name".to_owned()])), 10)),
            ("labels", Shape::bounded(ShapeKind::Map(string()), 10)),
            ("unknown", Shape::new(ShapeKind::Unknown)),
        ]),
        true,
    )))
}

fn value() -> serde_json::Value {
    json!({
        "name": "web", "replicas": 3, "ratio": 1, "a.b": "dotted", "namespace": "default", "port": "80%",
        "when": "2024-05-06T07:08:09Z", "span": "90s", "set": ["b", "a"],
        "items": [{"name": "one", "port": 1}, {"name": "two", "port": 2}],
        "labels": {"app": "web", "tier": "front"}, "unknown": {"x": 1},
    })
}

/// Returns the result of an expression as JSON, or the error.
fn evaluate(text: &str) -> String {
    let (shape, json) = (shape(), value());
    let environment = Environment::new().with_shape("self", &shape).with("any", Type::Dyn);
    let expression = match environment.compile(text) {
        Ok(expression) => expression,
        Err(issues) => return issues.to_string(),
    };
    let program = match expression.program() {
        Ok(program) => program,
        Err(error) => return format!("program: {error}"),
    };
    let bound = Value::from_json(&json, &shape).expect("it fits its shape");
    let evaluation = program.evaluate(&[("self", bound), ("any", Value::Int(7))], 5_000);
    match evaluation.result {
        Ok(value) => value.to_json().map_or_else(|| format!("{value:?}"), |json| json.to_string()),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn expressions_are_evaluated() {
    let cases = [
        ("1 + 2 * 3 - 4 / 2", "5"),
        ("-7 % 3", "-1"),
        ("self.name + '-' + string(self.replicas)", "\"web-3\""),
        ("self.a__dot__b", "\"dotted\""),
        ("self.__namespace__ == 'default'", "true"),
        ("has(self.name) && !has(self.labels.nothing)", "true"),
        ("self.ratio == 1.0", "true"),
        ("type(self.port) == string && self.port.endsWith('%')", "true"),
        ("self.when.getFullYear()", "2024"),
        ("self.span > duration('1m')", "true"),
        ("self.set == ['a', 'b']", "true"),
        ("['a', 'b'] == self.set", "false"),
        ("self.items.all(i, i.port > 0)", "true"),
        ("self.items.exists_one(i, i.name == 'two')", "true"),
        ("self.items.map(i, i.port * 2)", "[2,4]"),
        ("self.items.filter(i, i.port > 1).map(i, i.name)", "[\"two\"]"),
        ("self.labels.transformMap(k, v, k + v)", "{\"app\":\"appweb\",\"tier\":\"tierfront\"}"),
        ("self.labels['app']", "\"web\""),
        ("self.labels[?'no'].orValue('none')", "\"none\""),
        ("self.labels.?app.optMap(x, x + '!').value()", "\"web!\""),
        ("[1, 2, 3].transformList(i, v, i + v)", "[1,3,5]"),
        ("false && 1 / 0 > 0", "false"),
        ("1 / 0 > 0 || true", "true"),
        ("1 / 0 > 0 && false", "false"),
        ("'web' in ['web', 'db']", "true"),
        ("3 in {3: 'x'}", "true"),
        ("1 < 1.5 && 2u > 1", "true"),
        ("b'a\\x01' + bytes('b')", "\"YQFi\""),
        ("'\\u00e9\\101' + r'\\n'", "\"éA\\\\n\""),
        ("timestamp('2024-01-01T00:00:00Z') + duration('24h')", "\"2024-01-02T00:00:00Z\""),
        ("self.name.matches('^w.b$')", "true"),
        ("any + 1", "8"),
        ("{'a': 1, ?'b': optional.none(), ?'c': optional.of(2)}", "{\"a\":1,\"c\":2}"),
        ("[?optional.none(), 1]", "[1]"),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), expected, "{text}");
    }
}

#[test]
fn runtime_errors_match_upstream() {
    let cases = [
        ("1 / 0", "error: division by zero"),
        ("5 % 0", "error: modulus by zero"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("self.labels.nothing", "error: no such key: nothing"),
        ("self.items[5].port", "error: index out of bounds: 5"),
        ("any + 'x'", "error: no such overload"),
        ("any.startsWith('x')", "error: no such overload"),
        ("optional.none().value() == 1", "error: optional.none() dereference"),
        (
            "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a + b + c > 0)))",
            "error: operation cancelled: actual cost limit exceeded",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), expected, "{text}");
    }
}

#[test]
fn invalid_expressions_are_rejected() {
    let cases = [
        ("self.nothing", "ERROR: <input>:1:5: undefined field 'nothing'\n | self.nothing\n | ....^"),
        ("self.unknown", "ERROR: <input>:1:5: undefined field 'unknown'\n | self.unknown\n | ....^"),
        ("foo", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"),
        (
            "1 + 'a'",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
        ),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^"),
        (
            "self.name.x",
            "ERROR: <input>:1:10: type 'string' does not support field selection\n | self.name.x\n | .........^",
        ),
        ("has(self)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(self)\n | ....^"),
        ("duration('x')", "ERROR: <input>:1:10: invalid duration argument\n | duration('x')\n | .........^"),
    ];
    for (text, expected) in cases {
        assert_eq!(evaluate(text), expected, "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
    assert_eq!(evaluate(&nested(200)), "1");
    for text in [
        nested(300),
        nested(40_000),
        "1".to_owned() + &"+1".repeat(300),
        "self".to_owned() + &".a".repeat(300),
    ] {
        assert_eq!(evaluate(&text), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    }
    assert!(
        evaluate(&"a".repeat(100_001))
            .contains("expression code point size exceeds limit: size: 100001, limit 100000")
    );
    let chain = vec!["self.replicas > 0"; 1000].join(" && ");
    assert_eq!(evaluate(&chain), "true");
}

/// Compares estimates and costs with upstream's, over the schema and the value of the upstream comparison.
#[test]
fn costs_are_estimated_and_charged() {
    let schema = serde_json::from_str(include_str!("upstream/schema.json")).expect("the schema is JSON");
    let value: serde_json::Value =
        serde_json::from_str(include_str!("upstream/value.json")).expect("the value is JSON");
    let (shape, _) = shapes::shape(&schema, "selfType");
    let environment = Environment::new().with_shape("self", &shape);
    let cases: [(&str, [u64; 2], u64); 23] = [
        ("self.minReplicas <= self.replicas", [5, 5], 5),
        ("self.items.all(i, i.port > 0 && i.port < 65536)", [3, 183], 21),
        ("self.items.all(x, self.items.exists_one(y, x.name == y.name))", [3, 4143], 41),
        ("self.items.all(i, i.tags.all(t, i.name.contains(t)))", [3, 1006638523], 18),
        ("self.words.all(w, self.words.all(v, w != v))", [3, 7696573005828], 19),
        ("self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", [9, 184], 9),
        ("self.free.contains(self.name)", [4, 8178902], 6),
        ("self.mode in ['Auto', 'Manual']", [14, 14], 2),
        ("self.name in [self.free, self.mode]", [18, 18], 18),
        ("has(self.maybe) ? self.maybe.size() : 0", [1, 4], 1),
        ("self.spec.table.all(k, v, k != v)", [4, 58], 10),
        ("self.list.map(x, self.list.map(y, x * y)).size() < 10", [15, 152515], 185),
        ("self.name + self.free == self.mode", [7, 314605], 9),
        ("self.labels[?'app'].orValue('no')", [4, 4], 3),
        ("self.words.map(w, w + '!').exists(w, w.contains('two'))", [14, 22020089], 61),
        ("{'a': self.name}['a'].startsWith(self.free)", [35, 314608], 37),
        ("self.spec.rows.filter(r, r.left < r.right).all(r, r.cells.size() > 0)", [15, 119], 30),
        ("type(self.port) == string ? self.port.endsWith('%') : self.port > 0", [7, 7], 7),
        ("self.set == self.other", [5, 5], 5),
        ("true ? self.name : self.free", [2, 2], 1),
        ("self.words.join(',').split(',').size() == 3", [4, 6606027], 10),
        ("self.list.isSorted() || self.list.sum() > 5", [2, 205], 11),
        ("optional.of(self.name).optMap(n, n.size()).orValue(0)", [6, 22], 11),
    ];
    for (text, range, cost) in cases {
        let expression = environment.compile(text).expect(text);
        let estimate = expression.estimate(Some(&shape));
        assert_eq!([estimate.min, estimate.max], range, "{text}");
        let program = expression.program().expect(text);
        let bound = Value::from_json(&value, &shape).expect("it fits its shape");
        assert_eq!(program.evaluate(&[("self", bound)], 1_000_000).cost, cost, "{text}");
    }
}

#[test]
fn random_input_never_panics() {
    const PIECES: [&str; 40] = [
        "self",
        ".",
        "name",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "'",
        "\"",
        "\\",
        "\\x",
        "\\u00",
        "é",
        "日",
        "\u{1f600}",
        "1",
        "0x",
        "1e",
        "u",
        "r'",
        "b\"",
        "'''",
        "\"\"\"",
        "`",
        "in",
        "&&",
        "||",
        "!",
        "-",
        "==",
        "<",
        " ",
        "\n",
        "//",
        "has(",
    ];
    let mut state = 7u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for _ in 0..3000 {
        let length = 1 + next(24);
        let text: String = (0..length).map(|_| PIECES[next(PIECES.len())]).collect();
        assert!(!evaluate(&text).is_empty(), "{text}");
    }
}

#[test]
fn matches_are_charged_before_they_run() {
    let run = |text: &str, value: &str, limit: u64| {
        let environment = Environment::new().with("text", Type::String);
        let program = environment.compile(text).expect("an expression").program().expect("a program");
        let (value, shape) = (json!(value), Shape::new(ShapeKind::String));
        let bound = Value::from_json(&value, &shape).expect("a text");
        let evaluation = program.evaluate(&[("text", bound)], limit);
        (evaluation.result.is_ok(), evaluation.cost)
    };
    let long = "ab".repeat(1_500_000);
    for expression in [
        "text.matches('a[ab]{800}c')",
        "matches(text, 'a[ab]{800}c')",
        "matches(text, 'a[ab]{8' + '00}c')",
        "text.find('a[ab]{800}c') == ''",
        "text.findAll('a[ab]{8' + '00}c').size() == 0",
    ] {
        let (is_done, cost) = run(expression, &long, 1_000_000);
        assert!(!is_done && cost > 1_000_000, "{expression} costs {cost}");
        assert!(run(expression, "aabc", 1_000_000).0, "{expression}");
    }
    // Upstream charges 1 for the function; for long strings it costs as much as the method here.
    let (method, function) = ("text.matches('^[a-z]*$')", "matches(text, '^[a-z]*$')");
    let text = "a".repeat(100_000);
    assert!(run(function, &text, u64::MAX).1 > run(method, &text, u64::MAX).1 / 2);
    assert_eq!(run(function, "short", u64::MAX).1, 2);
    // A large pattern is not compiled if the cost limit does not allow it.
    let (is_done, cost) = run(r"'a'.matches(text + '{40}){20}')", r"(\pL", 1000);
    assert!(!is_done && cost > 1000, "{cost}");
}

#[test]
fn evaluation_stops_at_the_deadline() {
    let expression = "[1, 2, 3, 4, 5, 6, 7, 8, 9].map(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].map(b, [1, 2, 3, 4, 5, 6, 7, 8, 9].map(c, a + b + c)))";
    let program =
        Environment::new().compile(expression).expect("an expression").program().expect("a program");
    let deadline = Deadline::new(&|| true);
    let evaluation = program.evaluate_until(&[], u64::MAX, &deadline);
    assert!(evaluation.result.is_err() && deadline.has_passed());
    assert!(program.evaluate(&[], u64::MAX).result.is_ok());
}
