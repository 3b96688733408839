//! Expressions and what they give, cost and are refused with.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_cel::{Environment, ListKind, Object, Shape, ShapeKind, Type, Value};
use serde_json::json;

/// `self` as most cases see it.
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

/// What an expression gives, as JSON or in words.
fn outcome(text: &str) -> String {
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
fn expressions_give_values() {
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
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn expressions_fail_in_upstream_s_words() {
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
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn wrong_expressions_are_refused() {
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
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
    assert_eq!(outcome(&nested(200)), "1");
    for text in [
        nested(300),
        nested(40_000),
        "1".to_owned() + &"+1".repeat(300),
        "self".to_owned() + &".a".repeat(300),
    ] {
        assert_eq!(outcome(&text), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    }
    assert!(
        outcome(&"a".repeat(100_001))
            .contains("expression code point size exceeds limit: size: 100001, limit 100000")
    );
    let chain = vec!["self.replicas > 0"; 1000].join(" && ");
    assert_eq!(outcome(&chain), "true");
}
