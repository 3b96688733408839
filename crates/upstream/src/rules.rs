//! Random rules in schemas.

use serde_json::{Value, json};

use crate::schemas::Generator;

/// Rules that are valid for some types.
const RULES: &[&str] = &[
    "true",
    "false",
    "self.a == self.a",
    "has(self.name)",
    "!has(self.name) || self.name == 'a'",
    "self == oldSelf",
    "oldSelf == self || false",
    "self.spec.x > 1",
    "size(self) < 10",
    "size(self) < 2",
    "self.size() > 1",
    "self.all(x, x == x)",
    "self.all(x, x != null)",
    "self.exists(x, x.name == 'a')",
    "1",
    "self.",
    "self.replicas <= self.maxReplicas",
    "self.matches('^a')",
    "self.startsWith('a')",
    "oldSelf.hasValue() ? self == oldSelf.value() : true",
    "oldSelf.hasValue() && self == oldSelf.value()",
    "self.map(x, x).size() > 0",
    "self.contains('a')",
    "self > 1",
    "self > 1 && self < 5",
    "self >= 2.5",
    "self == 'a' || self == 'abc'",
    "self in ['a', 'abc', '10']",
    "type(self) == int ? self > 3 : self == 'a'",
    "!self",
    "self.b",
    "self.type != self.kind",
    "self.items.all(x, x > 0)",
    "self.filter(x, x == x).size() < 2",
    "self[0] == self[0]",
    " ",
    "true\n|| false",
];
/// Paths in rules and selectable fields, some of them malformed.
pub const PATHS: &[&str] = &[
    ".a",
    ".spec",
    ".spec.a",
    "['a']",
    ".name",
    "a",
    ".",
    ".x['y']",
    ".metadata.name",
    ".spec.name",
    ".status.a",
    ".spec[0]",
];

/// Adds rules to schemas.
pub fn decorate(generator: &mut Generator, schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if generator.chance(15) {
        fields.insert("x-kubernetes-validations".to_owned(), json!([rule(generator)]));
    }
    if generator.chance(30) {
        fields.insert("maxLength".to_owned(), json!(10));
        fields.insert("maxItems".to_owned(), json!(10));
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part) = fields.get_mut(part) {
            decorate(generator, part);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|property| decorate(generator, property));
    }
}

/// Generates a rule.
pub fn rule(generator: &mut Generator) -> Value {
    let mut rule = json!({"rule": generator.pick(RULES)});
    if generator.chance(30) {
        rule["message"] = json!(generator.pick(&["no", " ", "a\nb"]));
    }
    if generator.chance(20) {
        let expressions = ["'a'", "1", "self.", " ", "string(self)", "'is ' + self", "''", "self.a"];
        rule["messageExpression"] = json!(generator.pick(&expressions));
    }
    if generator.chance(20) {
        let reasons =
            ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "Nope"];
        rule["reason"] = json!(generator.pick(&reasons));
    }
    if generator.chance(20) {
        rule["fieldPath"] = json!(generator.pick(PATHS));
    }
    if generator.chance(15) {
        rule["optionalOldSelf"] = json!(true);
    }
    rule
}

/// Normalises an error: removes the digits of the time after a type name, and the parser's list of expected
/// tokens.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("selfType") {
        let end = at + "selfType".len();
        out.push_str(&rest[..end]);
        rest = rest[end..].trim_start_matches(|character: char| character.is_ascii_digit());
    }
    out.push_str(rest);
    const SYNTAX: &str = "Syntax error:";
    let lines = out.split('\n').map(|line| match line.find(SYNTAX) {
        Some(at) => &line[..at + SYNTAX.len()],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}
