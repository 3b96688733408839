//! Parsing of valid and invalid documents.

use crate::json::{DocumentNode, JsonError, MAX_DEPTH, Nodes, Value, Values, build, parse, to_string};

#[test]
fn parses_as_upstream() {
    for (input, expected) in CASES {
        let parsed = parse(input);
        let text = String::from_utf8_lossy(input);
        match (parsed, expected) {
            (Ok(parsed), Ok((value, duplicates))) => {
                assert_eq!(to_string(&parsed.value), *value, "value of {text}");
                assert_eq!(parsed.duplicates, *duplicates, "duplicates of {text}");
            }
            (Err(error), Err(message)) => assert_eq!(error.to_string(), *message, "error for {text}"),
            (parsed, expected) => panic!("{text}: got {parsed:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn numbers_keep_their_type() {
    let value = |text: &str| parse(text.as_bytes()).map(|parsed| parsed.value);
    assert_eq!(value("7"), Ok(Value::from(7i64)));
    assert_eq!(value("7.0"), Ok(Value::from(7.0f64)));
    assert_eq!(value("7e0"), Ok(Value::from(7.0f64)));
    assert_eq!(value("-9223372036854775808"), Ok(Value::from(i64::MIN)));
    assert_eq!(value("9223372036854775808"), Ok(Value::from(9.223_372_036_854_776e18_f64)));
}

#[test]
fn typed_fields_keep_unsigned_integers() {
    let value = |text: &str| build(text.as_bytes(), &mut Values::typed());
    assert_eq!(value("-0"), Ok(Value::from(0)));
    assert_eq!(value("9223372036854775808"), Ok(Value::from(9_223_372_036_854_775_808_u64)));
    assert_eq!(value("18446744073709551616"), Ok(Value::from(1.844_674_407_370_955_2e19_f64)));
    let nodes = build(br#"{"b":1.50,"a":[null,"x"],"b":1e400}"#, &mut Nodes);
    let number = |literal: &str| DocumentNode::Number(literal.to_owned());
    let members = [
        ("b", number("1.50")),
        ("a", DocumentNode::Array(vec![DocumentNode::Plain, DocumentNode::Plain])),
        ("b", number("1e400")),
    ];
    assert_eq!(nodes, Ok(DocumentNode::Object(members.map(|(key, node)| (key.to_owned(), node)).into())));
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    let error = parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
    assert_eq!(error.offset(), Some(MAX_DEPTH));
    let objects = "{\"a\":".repeat(MAX_DEPTH + 1);
    assert_eq!(
        parse(objects.as_bytes()).unwrap_err().to_string(),
        "invalid character '{' exceeded max depth"
    );
    // Siblings do not add to the depth.
    let flat = format!("[{}]", vec!["[]"; MAX_DEPTH * 2].join(","));
    assert!(parse(flat.as_bytes()).is_ok());
}

#[test]
fn the_deepest_document_fits_a_small_stack() {
    // Half the stack of a worker thread, in an unoptimized build.
    let worker = std::thread::Builder::new().stack_size(1024 * 1024);
    let work = || {
        let text = format!("{}1{}", "{\"a\":[".repeat(MAX_DEPTH / 2), "]}".repeat(MAX_DEPTH / 2));
        let parsed = parse(text.as_bytes()).unwrap();
        let copy = parsed.value.clone();
        assert_eq!(copy, parsed.value);
        assert_eq!(to_string(&copy), text);
    };
    worker.spawn(work).unwrap().join().unwrap();
}

#[test]
fn errors_know_where_they_are() {
    let offset = |text: &str| parse(text.as_bytes()).unwrap_err().offset();
    assert_eq!(offset("{\"a\":x}"), Some(5));
    assert_eq!(offset("[1,2"), Some(4));
    assert_eq!(offset("1e999"), None);
}

#[test]
fn the_standard_library_words_other_bytes_differently() {
    let message = |input: &[u8]| parse(input).unwrap_err().standard_library_message();
    assert_eq!(message(b"\xc7\x1c"), "invalid character '\\xc7' looking for beginning of value");
    assert_eq!(message("[1 é]".as_bytes()), "invalid character 'é' after array element");
    assert_eq!(message(b"[1 x]"), "invalid character 'x' after array element");
    assert_eq!(message(b"["), "unexpected end of JSON input");
    let error = parse("[1 é]".as_bytes()).unwrap_err();
    assert!(matches!(error, JsonError::InvalidCharacter { byte: 0xc3, character: Some('é'), .. }));
}

#[test]
fn duplicates_are_counted_up_to_a_limit() {
    let members: Vec<String> = (0..300).map(|index| format!("\"k{}\":1", index % 150)).collect();
    let parsed = parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap();
    assert_eq!(parsed.duplicates.len(), 100);
    assert_eq!(parsed.duplicates[99], "k99");
}

/// Recorded from sigs.k8s.io/json: the compact form of the result and the paths of duplicate fields, or the
/// error.
type Expected = Result<(&'static str, &'static [&'static str]), &'static str>;
#[rustfmt::skip]
const CASES: &[(&[u8], Expected)] = &[
    (b"", Err("unexpected end of JSON input")),
    (b" ", Err("unexpected end of JSON input")),
    (b"\n\t\r ", Err("unexpected end of JSON input")),
    (b"null", Ok(("null", &[]))),
    (b" true ", Ok(("true", &[]))),
    (b"false", Ok(("false", &[]))),
    (b"0", Ok(("0", &[]))),
    (b"-0", Ok(("0", &[]))),
    (b"-1", Ok(("-1", &[]))),
    (b"1", Ok(("1", &[]))),
    (b"12", Ok(("12", &[]))),
    (b"1234567890123456789", Ok(("1234567890123456789", &[]))),
    (b"9223372036854775807", Ok(("9223372036854775807", &[]))),
    (b"9223372036854775808", Ok(("9223372036854776000", &[]))),
    (b"-9223372036854775808", Ok(("-9223372036854775808", &[]))),
    (b"-9223372036854775809", Ok(("-9223372036854776000", &[]))),
    (b"18446744073709551615", Ok(("18446744073709552000", &[]))),
    (b"123456789012345678901234567890", Ok(("1.2345678901234568e+29", &[]))),
    (b"1.0", Ok(("1", &[]))),
    (b"1.5", Ok(("1.5", &[]))),
    (b"-0.0", Ok(("-0", &[]))),
    (b"1e3", Ok(("1000", &[]))),
    (b"1E+3", Ok(("1000", &[]))),
    (b"1e-3", Ok(("0.001", &[]))),
    (b"1e21", Ok(("1e+21", &[]))),
    (b"1e-7", Ok(("1e-7", &[]))),
    (b"0.1", Ok(("0.1", &[]))),
    (b"1e400", Err("json: cannot unmarshal number 1e400 into Go value of type float64")),
    (b"-1e400", Err("json: cannot unmarshal number -1e400 into Go value of type float64")),
    (b"1e-400", Ok(("0", &[]))),
    (b"[1e400,", Err("unexpected end of JSON input")),
    (b"[1e400,1e500]", Err("json: cannot unmarshal number 1e400 into Go value of type float64")),
    (b"01", Err("invalid character '1' after top-level value")),
    (b"00", Err("invalid character '0' after top-level value")),
    (b"-", Err("invalid character ' ' in numeric literal")),
    (b"-a", Err("invalid character 'a' in numeric literal")),
    (b"-01", Err("invalid character '1' after top-level value")),
    (b"1.", Err("invalid character ' ' after decimal point in numeric literal")),
    (b"1.a", Err("invalid character 'a' after decimal point in numeric literal")),
    (b".5", Err("invalid character '.' looking for beginning of value")),
    (b"1e", Err("invalid character ' ' in exponent of numeric literal")),
    (b"1e+", Err("invalid character ' ' in exponent of numeric literal")),
    (b"1ea", Err("invalid character 'a' in exponent of numeric literal")),
    (b"1e+a", Err("invalid character 'a' in exponent of numeric literal")),
    (b"+1", Err("invalid character '+' looking for beginning of value")),
    (b"1a", Err("invalid character 'a' after top-level value")),
    (b"1 2", Err("invalid character '2' after top-level value")),
    (b"1,", Err("invalid character ',' after top-level value")),
    (b"t", Err("invalid character ' ' in literal true (expecting 'r')")),
    (b"tr", Err("invalid character ' ' in literal true (expecting 'u')")),
    (b"tru", Err("invalid character ' ' in literal true (expecting 'e')")),
    (b"trux", Err("invalid character 'x' in literal true (expecting 'e')")),
    (b"truee", Err("invalid character 'e' after top-level value")),
    (b"tRue", Err("invalid character 'R' in literal true (expecting 'r')")),
    (b"f", Err("invalid character ' ' in literal false (expecting 'a')")),
    (b"fa", Err("invalid character ' ' in literal false (expecting 'l')")),
    (b"fal", Err("invalid character ' ' in literal false (expecting 's')")),
    (b"fals", Err("invalid character ' ' in literal false (expecting 'e')")),
    (b"falsx", Err("invalid character 'x' in literal false (expecting 'e')")),
    (b"n", Err("invalid character ' ' in literal null (expecting 'u')")),
    (b"nu", Err("invalid character ' ' in literal null (expecting 'l')")),
    (b"nul", Err("invalid character ' ' in literal null (expecting 'l')")),
    (b"nulx", Err("invalid character 'x' in literal null (expecting 'l')")),
    (b"nullx", Err("invalid character 'x' after top-level value")),
    (b"nan", Err("invalid character 'a' in literal null (expecting 'u')")),
    (b"x", Err("invalid character 'x' looking for beginning of value")),
    (b"'a'", Err(r#"invalid character '\'' looking for beginning of value"#)),
    (b"\"", Err("unexpected end of JSON input")),
    (b"\"a", Err("unexpected end of JSON input")),
    (b"\"a\"", Ok((r#""a""#, &[]))),
    (b"\"a\"b", Err("invalid character 'b' after top-level value")),
    (b"\"\\", Err("invalid character ' ' in string escape code")),
    (b"\"\\x\"", Err("invalid character 'x' in string escape code")),
    (b"\"\\u", Err(r#"invalid character ' ' in \u hexadecimal character escape"#)),
    (b"\"\\u1\"", Err(r#"invalid character '"' in \u hexadecimal character escape"#)),
    (b"\"\\u12", Err(r#"invalid character ' ' in \u hexadecimal character escape"#)),
    (b"\"\\u123g\"", Err(r#"invalid character 'g' in \u hexadecimal character escape"#)),
    (b"\"\\u0041\\n\\t\\r\\b\\f\\/\\\\\\\"\"", Ok((r#""A\n\t\r\b\f/\\\"""#, &[]))),
    (b"\"\\ud83d\\ude00\"", Ok((r#""😀""#, &[]))),
    (b"\"\\ud83d\"", Ok(("\"\u{fffd}\"", &[]))),
    (b"\"\\ude00\"", Ok(("\"\u{fffd}\"", &[]))),
    (b"\"\\ud83dx\"", Ok(("\"\u{fffd}x\"", &[]))),
    (b"\"\\ud83d\\n\"", Ok(("\"\u{fffd}\\n\"", &[]))),
    (b"\"\\ud83d\\u0041\"", Ok(("\"\u{fffd}A\"", &[]))),
    (b"\"\\ud83d\\ud83d\\ude00\"", Ok(("\"\u{fffd}\u{1f600}\"", &[]))),
    (b"\"a\nb\"", Err(r#"invalid character '\n' in string literal"#)),
    (b"\"a\x01b\"", Err(r#"invalid character '\x01' in string literal"#)),
    (b"\"a\x7fb\"", Ok(("\"a\u{7f}b\"", &[]))),
    (b"\"\xff\"", Ok(("\"\u{fffd}\"", &[]))),
    (b"\"\xe2\x82\"", Ok(("\"\u{fffd}\u{fffd}\"", &[]))),
    (b"\"\xe2\x82\xac\"", Ok((r#""€""#, &[]))),
    (b"\"\xc0\xaf\"", Ok(("\"\u{fffd}\u{fffd}\"", &[]))),
    (b"\"\xed\xa0\x80\"", Ok(("\"\u{fffd}\u{fffd}\u{fffd}\"", &[]))),
    (b"\"\xf0\x9f\x98\"", Ok(("\"\u{fffd}\u{fffd}\u{fffd}\"", &[]))),
    (b"\"a\xffb\\n\xfe\"", Ok(("\"a\u{fffd}b\\n\u{fffd}\"", &[]))),
    (b"{\"\xff\":1,\"\xfe\":2}", Ok(("{\"\u{fffd}\":2}", &["\u{fffd}"]))),
    (b"[\xa0]", Err(r"invalid character '\u00a0' looking for beginning of value")),
    (b"\xad", Err(r"invalid character '\u00ad' looking for beginning of value")),
    (b"{\"a\":1e400 x", Err("invalid character 'x' after object key:value pair")),
    (b"\xff", Err("invalid character '\u{ff}' looking for beginning of value")),
    (b"\xc3\xa9", Err("invalid character '\u{c3}' looking for beginning of value")),
    (b"[\xff]", Err("invalid character '\u{ff}' looking for beginning of value")),
    (b"\xef\xbb\xbf{}", Err("invalid character '\u{ef}' looking for beginning of value")),
    (b"{", Err("unexpected end of JSON input")),
    (b"{}", Ok(("{}", &[]))),
    (b"{ }", Ok(("{}", &[]))),
    (b"{x", Err("invalid character 'x' looking for beginning of object key string")),
    (b"{1", Err("invalid character '1' looking for beginning of object key string")),
    (b"{,", Err("invalid character ',' looking for beginning of object key string")),
    (b"{\"a\"", Err("unexpected end of JSON input")),
    (b"{\"a\" ", Err("unexpected end of JSON input")),
    (b"{\"a\"x", Err("invalid character 'x' after object key")),
    (b"{\"a\",", Err("invalid character ',' after object key")),
    (b"{\"a\":", Err("unexpected end of JSON input")),
    (b"{\"a\":}", Err("invalid character '}' looking for beginning of value")),
    (b"{\"a\":1", Err("unexpected end of JSON input")),
    (b"{\"a\":1x", Err("invalid character 'x' after object key:value pair")),
    (b"{\"a\":1,", Err("unexpected end of JSON input")),
    (b"{\"a\":1,}", Err("invalid character '}' looking for beginning of object key string")),
    (b"{\"a\":1,,", Err("invalid character ',' looking for beginning of object key string")),
    (b"{\"a\":1 \"b\"", Err(r#"invalid character '"' after object key:value pair"#)),
    (b"{\"a\":1}}", Err("invalid character '}' after top-level value")),
    (b"{\"a\":1}x", Err("invalid character 'x' after top-level value")),
    (b"{'a':1}", Err(r#"invalid character '\'' looking for beginning of object key string"#)),
    (b"[", Err("unexpected end of JSON input")),
    (b"[]", Ok(("[]", &[]))),
    (b"[ ]", Ok(("[]", &[]))),
    (b"[,", Err("invalid character ',' looking for beginning of value")),
    (b"[1", Err("unexpected end of JSON input")),
    (b"[1,", Err("unexpected end of JSON input")),
    (b"[1,]", Err("invalid character ']' looking for beginning of value")),
    (b"[1 2]", Err("invalid character '2' after array element")),
    (b"[1}", Err("invalid character '}' after array element")),
    (b"[1]]", Err("invalid character ']' after top-level value")),
    (b"]", Err("invalid character ']' looking for beginning of value")),
    (b"}", Err("invalid character '}' looking for beginning of value")),
    (b",", Err("invalid character ',' looking for beginning of value")),
    (b":", Err("invalid character ':' looking for beginning of value")),
    (b"[\"a\", null, true, {\"b\": [1, 2.5]}]", Ok((r#"["a",null,true,{"b":[1,2.5]}]"#, &[]))),
    (b"{\"a\":{\"b\":{\"c\":[]}}}", Ok((r#"{"a":{"b":{"c":[]}}}"#, &[]))),
    (b"{\"a\":1,\"a\":2}", Ok((r#"{"a":2}"#, &["a"]))),
    (b"{\"a\":1,\"a\":2,\"a\":3}", Ok((r#"{"a":3}"#, &["a"]))),
    (b"{\"a\":{\"x\":1,\"x\":2},\"a\":{\"x\":1,\"x\":2}}", Ok((r#"{"a":{"x":2}}"#, &["a.x", "a"]))),
    (b"{\"a\":[{\"x\":1,\"x\":2},{\"y\":1,\"y\":2}]}", Ok((r#"{"a":[{"x":2},{"y":2}]}"#, &["a[0].x", "a[1].y"]))),
    (b"[[{\"x\":1,\"x\":2}]]", Ok((r#"[[{"x":2}]]"#, &["[0][0].x"]))),
    (b"[{\"x\":1,\"x\":2}]", Ok((r#"[{"x":2}]"#, &["[0].x"]))),
    (b"{\"a\":[[{\"x\":1,\"x\":1}]]}", Ok((r#"{"a":[[{"x":1}]]}"#, &["a[0][0].x"]))),
    (b"{\"a\":{\"[x\":1,\"[x\":1}}", Ok((r#"{"a":{"[x":1}}"#, &["a.[x"]))),
    (b"{\"a.b\":1,\"a.b\":1}", Ok((r#"{"a.b":1}"#, &["a.b"]))),
    (b"{\"z\":1,\"y\":{\"q\":1,\"q\":2},\"z\":2,\"y\":{\"p\":1,\"p\":2}}", Ok((r#"{"y":{"p":2},"z":2}"#, &["y.q", "z", "y", "y.p"]))),
    (b"{\"A\":1,\"a\":2}", Ok((r#"{"A":1,"a":2}"#, &[]))),
    (b"{\"\":1,\"\":2}", Ok((r#"{"":2}"#, &[""]))),
    (b"{\"\":{\"\":1,\"\":2}}", Ok((r#"{"":{"":2}}"#, &["."]))),
    (b"{\"a\":\"<b>&\xe2\x80\xa8\xe2\x80\xa9\xc3\xa9\"}", Ok((r#"{"a":"\u003cb\u003e\u0026\u2028\u2029é"}"#, &[]))),
    (b"{\"\\u0061\":1,\"a\":2}", Ok((r#"{"a":2}"#, &["a"]))),
    (b"\"\\u0000\"", Ok((r#""\u0000""#, &[]))),
    (b"\"/\"", Ok((r#""/""#, &[]))),
    (b"\"\\'\"", Err(r#"invalid character '\'' in string escape code"#)),
    (b"{\"data\":{\"a\":\"1\",\"a\":\"2\"},\"kind\":\"ConfigMap\"}", Ok((r#"{"data":{"a":"2"},"kind":"ConfigMap"}"#, &["data.a"]))),
];
