//! Label selectors.

use std::collections::BTreeMap;

use serde_json::json;

use super::{LabelOperator, LabelSelector, Requirement};
use crate::field::FieldPath;

#[test]
fn parses_as_upstream_does() {
    for (text, expected) in PARSED {
        let parsed = LabelSelector::parse(text).map(|selector| selector.to_string());
        assert_eq!(parsed.as_deref().map_err(String::as_str), *expected, "selector {text:?}");
    }
}

#[test]
fn converts_selectors_of_objects() {
    for (object, expected) in CONVERTED {
        let object = serde_json::from_str(object).unwrap();
        let selector = LabelSelector::from_object(&object).map(|selector| selector.to_string());
        assert_eq!(selector.as_deref().map_err(String::as_str), *expected, "selector {object}");
    }
}

/// Terms on one key are one lookup, and labels that a long selector does not name are not compared at all.
#[test]
fn long_selectors_combine_the_terms_of_a_key() {
    let many = |term: &dyn Fn(usize) -> String| (0..50).map(term).collect::<Vec<_>>().join(",");
    let others = many(&|number| format!("a!=x{number}"));
    for (text, keys, matched) in [
        (others.clone(), 1, vec![true, true, true]),
        (format!("{others},a!=web"), 1, vec![true, false, true]),
        (format!("{others},a"), 1, vec![false, true, true]),
        (format!("{others},!a"), 1, vec![true, false, false]),
        (format!("{others},a=web"), 1, vec![false, true, false]),
        (format!("{others},a in (web,7),a>6"), 1, vec![false, false, true]),
        (format!("{others},a>6,a<9"), 1, vec![false, false, true]),
        (format!("{others},a=x7"), 1, vec![false, false, false]),
        (format!("{others},a,!a"), 1, vec![false, false, false]),
        (format!("{others},a=web,a=7"), 1, vec![false, false, false]),
        (format!("{others},a>8,a<9"), 1, vec![false, false, false]),
        (many(&|number| format!("!k{number}")), 50, vec![true, true, true]),
        (many(&|number| format!("k{number}")), 50, vec![false, false, false]),
        (format!("a in (7,{})", many(&|number| format!("x{number}"))), 1, vec![false, false, true]),
        (format!("a notin (7,{})", many(&|number| format!("x{number}"))), 1, vec![true, true, false]),
    ] {
        let selector = LabelSelector::parse(&text).unwrap();
        assert_eq!((selector.is_long(), selector.lookups()), (true, keys), "{text}");
        let objects = [json!({ "b": "1" }), json!({ "a": "web", "b": "1" }), json!({ "a": "7" })];
        let lookups = std::cell::Cell::new(0);
        let by_lookup = objects.each_ref().map(|labels| {
            selector.matches(|key| {
                lookups.set(lookups.get() + 1);
                labels[key].as_str()
            })
        });
        assert!(lookups.get() <= 3 * keys, "{text}");
        let by_label = objects.each_ref().map(|labels| selector.matches_labels(&labels.as_object()));
        assert_eq!((by_lookup.to_vec(), by_label.to_vec()), (matched.clone(), matched), "{text}");
    }
    assert!(!LabelSelector::parse("a=b,c!=d,e in (f,g)").unwrap().is_long());
}

#[test]
fn null_matches_nothing_and_empty_everything() {
    let nothing = LabelSelector::from_object(&serde_json::Value::Null).unwrap();
    assert!(!nothing.matches(|_| Some("x")) && !nothing.is_empty() && nothing.is_nothing());
    let everything = LabelSelector::from_object(&serde_json::json!({})).unwrap();
    assert!(everything.matches(|_| None) && everything.is_empty() && !everything.is_nothing());
    assert_eq!(everything, LabelSelector::everything());
    assert_eq!(nothing, LabelSelector::nothing());
}

#[test]
fn matches_labels() {
    let labels = BTreeMap::from([("app", "web"), ("tier", "front"), ("n", "10"), ("empty", "")]);
    let cases = [
        ("", true),
        ("app", true),
        ("other", false),
        ("!app", false),
        ("!other", true),
        ("app=web", true),
        ("app==web", true),
        ("app=db", false),
        ("other=", false),
        ("empty=", true),
        ("app!=web", false),
        ("app!=db", true),
        ("other!=x", true),
        ("app in (db,web)", true),
        ("app in (db)", false),
        ("other in (db)", false),
        ("app notin (db)", true),
        ("app notin (db,web)", false),
        ("other notin (db)", true),
        ("n>9", true),
        ("n>10", false),
        ("n<11", true),
        ("n<10", false),
        ("app>1", false),
        ("other<1", false),
        ("app=web,tier=front,!other", true),
        ("app=web,tier=back", false),
    ];
    for (selector, expected) in cases {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(|key| labels.get(key).copied()), expected, "{selector}");
    }
}

#[test]
fn knows_labels_with_one_value() {
    let selector = LabelSelector::parse("a=1,b in (2),c in (3,4),d!=5,e,f==6").unwrap();
    let exact = ["a", "b", "c", "d", "e", "f", "g"].map(|key| selector.required_exact(key));
    assert_eq!(exact, [Some("1"), Some("2"), None, None, None, Some("6"), None]);
}

#[test]
fn shows_its_requirements() {
    let selector = LabelSelector::parse("b in (y,x),a>5").unwrap();
    let [a, b] = selector.requirements() else { panic!("two requirements") };
    assert_eq!((a.key(), a.operator(), a.values()), ("a", LabelOperator::GreaterThan, &["5".to_owned()][..]));
    assert_eq!((b.key(), b.operator()), ("b", LabelOperator::In));
    assert_eq!(b.values(), ["x", "y"]);
}

#[test]
fn requirements_are_checked() {
    let path = FieldPath::new("spec");
    let errors = Requirement::new("a", LabelOperator::Equals, Vec::new(), &path).unwrap_err();
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        ["spec.values: Invalid value: null: exact-match compatibility requires one single value"]
    );
    let errors = Requirement::new("a", LabelOperator::LessThan, vec!["x".to_owned()], &path).unwrap_err();
    let expected =
        "spec.values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer";
    assert_eq!(errors[0].to_string(), expected);
}

/// Recorded from k8s.io/apimachinery/pkg/labels: the canonical form, or the error.
#[rustfmt::skip]
const PARSED: &[(&str, Result<&str, &str>)] = &[
    ("", Ok("")),
    (" ", Ok("")),
    ("a", Ok("a")),
    ("!a", Ok("!a")),
    ("a,b", Ok("a,b")),
    ("a=b", Ok("a=b")),
    ("a==b", Ok("a==b")),
    ("a!=b", Ok("a!=b")),
    ("a=", Ok("a=")),
    ("a==", Ok("a==")),
    ("a!=", Ok("a!=")),
    ("a=,b", Ok("a=,b")),
    ("a in (b)", Ok("a in (b)")),
    ("a in (b,c)", Ok("a in (b,c)")),
    ("a in (c,b,c)", Ok("a in (b,c)")),
    ("a notin (b,c)", Ok("a notin (b,c)")),
    ("a in ()", Ok("a in ()")),
    ("a in (,)", Ok("a in ()")),
    ("a in (b,)", Ok("a in (,b)")),
    ("a in (,b)", Ok("a in (,b)")),
    ("a in (b,,c)", Ok("a in (,b,c)")),
    ("a notin ()", Ok("a notin ()")),
    ("x in (in,notin)", Ok("x in (in,notin)")),
    ("in", Ok("in")),
    ("notin", Ok("notin")),
    ("in in (in)", Ok("in in (in)")),
    ("!in", Ok("!in")),
    ("a>1", Ok("a>1")),
    ("a<2", Ok("a<2")),
    ("a>", Err(r#"unable to parse requirement: values[0]: Invalid value: "": for 'Gt', 'Lt' operators, the value must be an integer"#)),
    ("a>b", Err(r#"unable to parse requirement: values[0]: Invalid value: "b": for 'Gt', 'Lt' operators, the value must be an integer"#)),
    ("a > 1", Ok("a>1")),
    ("a>-1", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "-1": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    ("a<+1", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "+1": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    ("a>9223372036854775808", Err(r#"unable to parse requirement: values[0]: Invalid value: "9223372036854775808": for 'Gt', 'Lt' operators, the value must be an integer"#)),
    (" a , b ", Ok("a,b")),
    ("a = b", Ok("a=b")),
    ("z=1,a=2,m", Ok("a=2,m,z=1")),
    ("a=b,a=c", Ok("a=b,a=c")),
    ("x/y=z", Ok("x/y=z")),
    ("example.com/a in (1)", Ok("example.com/a in (1)")),
    ("a in", Err("unable to parse requirement: found '' expected: '('")),
    ("a in (", Err("unable to parse requirement: found '', expected: ',', ')' or identifier")),
    ("a in (b", Err("unable to parse requirement: found '', expected: ',' or ')'")),
    ("a in b", Err("unable to parse requirement: found 'b' expected: '('")),
    ("a in (b c)", Err("unable to parse requirement: found 'c', expected: ',' or ')'")),
    ("a in (b=c)", Err("unable to parse requirement: found '=', expected: ',' or ')'")),
    ("a in (=)", Err("unable to parse requirement: found '=', expected: ',', ')' or identifier")),
    ("a in ((b))", Err("unable to parse requirement: found '(', expected: ',', ')' or identifier")),
    ("a notin", Err("unable to parse requirement: found '' expected: '('")),
    ("a b", Err("unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")),
    ("a b c", Err("unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")),
    ("!", Err("unable to parse requirement: found '', expected: identifier")),
    ("!!a", Err("unable to parse requirement: found '!', expected: identifier")),
    ("!a=b", Err("found '=', expected: ',' or 'end of string'")),
    ("!a in (b)", Err("found 'in', expected: ',' or 'end of string'")),
    ("a,", Err("found '', expected: identifier after ','")),
    (",a", Err("found ',', expected: !, identifier, or 'end of string'")),
    (",", Err("found ',', expected: !, identifier, or 'end of string'")),
    ("a,,b", Err("found ',', expected: identifier after ','")),
    ("a=b=c", Err("found '=', expected: ',' or 'end of string'")),
    ("a=b,,c", Err("found ',', expected: identifier after ','")),
    ("a=(b)", Err("unable to parse requirement: found '(', expected: identifier")),
    ("a==!b", Err("unable to parse requirement: found '!', expected: identifier")),
    ("a===b", Err("unable to parse requirement: found '=', expected: identifier")),
    ("a!==b", Err("unable to parse requirement: found '=', expected: identifier")),
    ("=a", Err("found '=', expected: !, identifier, or 'end of string'")),
    ("==a", Err("found '==', expected: !, identifier, or 'end of string'")),
    ("!=a", Err("found '!=', expected: !, identifier, or 'end of string'")),
    ("(a)", Err("found '(', expected: !, identifier, or 'end of string'")),
    (")", Err("found ')', expected: !, identifier, or 'end of string'")),
    ("a)", Err("unable to parse requirement: found ')', expected: in, notin, =, ==, !=, gt, lt")),
    ("a(b)", Err("unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt")),
    ("a=b)", Err("found ')', expected: ',' or 'end of string'")),
    ("a=b c", Err("found 'c', expected: ',' or 'end of string'")),
    ("A_b=c", Ok("A_b=c")),
    ("a/b/c=d", Err(r#"unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"#)),
    ("-a=b", Err(r#"unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#)),
    ("a=-b", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    ("a=b-", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "b-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    ("a=b.c_d-e", Ok("a=b.c_d-e")),
    ("a=\u{e9}", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "é": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    ("\u{e9}=a", Err(r#"unable to parse requirement: <nil>: Invalid value: "é": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#)),
    ("a=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 63 bytes"#)),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=a", Err(r#"unable to parse requirement: <nil>: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": name part must be no more than 63 bytes"#)),
    ("a=b\u{0},c", Ok("a=b,c")),
    ("a\u{0}b", Err("unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")),
    ("a=\u{0}b", Ok("a=b")),
    ("a in (-x,y)", Err(r#"unable to parse requirement: values[0][a]: Invalid value: "-x": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    ("a,b in (c),!d,e!=f,g>1", Ok("a,b in (c),!d,e!=f,g>1")),
    ("a\t=\nb", Ok("a=b")),
    ("a=>b", Err("unable to parse requirement: found '>', expected: identifier")),
    ("a<>b", Err("unable to parse requirement: found '>', expected: identifier")),
    ("a!b", Err("unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt")),
    ("a !b", Err("unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt")),
    ("a in(b)", Ok("a in (b)")),
    ("ain(b)", Err("unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt")),
    ("a in (b),", Err("found '', expected: identifier after ','")),
    ("a in (b)c", Err("found 'c', expected: ',' or 'end of string'")),
    ("a in (b,c", Err("unable to parse requirement: found '', expected: ',' or ')'")),
    ("a in (b,", Err("unable to parse requirement: found '', expected: ',', or identifier")),
    ("a in (,", Err("unable to parse requirement: found '', expected: ',', or identifier")),
    ("a in (,,)", Ok("a in ()")),
    ("a in (b, ,c)", Ok("a in (,b,c)")),
    ("a in (b,!c)", Err("unable to parse requirement: found '!', expected: ',', or identifier")),
];

/// Recorded from k8s.io/apimachinery/pkg/apis/meta/v1.
#[rustfmt::skip]
const CONVERTED: &[(&str, Result<&str, &str>)] = &[
    ("null", Ok("")),
    ("{}", Ok("")),
    (r#"{"matchLabels":{}}"#, Ok("")),
    (r#"{"matchLabels":{"b":"1","a":"2"}}"#, Ok("a=2,b=1")),
    (r#"{"matchExpressions":[{"key":"a","operator":"In","values":["z","b"]}]}"#, Ok("a in (b,z)")),
    (r#"{"matchLabels":{"m":"1"},"matchExpressions":[{"key":"z","operator":"Exists"},{"key":"a","operator":"DoesNotExist"},{"key":"n","operator":"NotIn","values":["q"]}]}"#, Ok("!a,m=1,n notin (q),z")),
    (r#"{"matchExpressions":[{"key":"a","operator":"Bogus"}]}"#, Err(r#""Bogus" is not a valid label selector operator"#)),
    (r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#, Err("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")),
    (r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]}]}"#, Err(r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#)),
    (r#"{"matchExpressions":[{"key":"-a","operator":"In","values":[]}]}"#, Err(r#"[key: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty]"#)),
    (r#"{"matchLabels":{"a":"b c"}}"#, Err(r#"values[0][a]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#)),
    (r#"{"matchLabels":{"a b":"c"}}"#, Err(r#"key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#)),
    (r#"{"matchExpressions":[{"key":"-a","operator":"In","values":["-b","c","-d"]}]}"#, Err(r#"[key: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), values[0][-a]: Invalid value: "-b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'), values[2][-a]: Invalid value: "-d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"#)),
];
