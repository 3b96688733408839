//! Output of Go's encoder.

use serde_json::json;

use crate::json::{to_string, write_string};

#[test]
fn writes_compactly() {
    let value = json!({"b": [1, -2, 2.5, null, true, false, {}, []], "a": "x"});
    assert_eq!(to_string(&value), r#"{"a":"x","b":[1,-2,2.5,null,true,false,{},[]]}"#);
}

#[test]
fn writes_numbers_as_go_does() {
    let cases = [
        (json!(0), "0"),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(i64::MAX), "9223372036854775807"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(1.0), "1"),
        (json!(-0.0), "-0"),
        (json!(1e20), "100000000000000000000"),
        (json!(1e21), "1e+21"),
        (json!(1e-7), "1e-7"),
        (json!(0.1), "0.1"),
    ];
    for (value, expected) in cases {
        assert_eq!(to_string(&value), expected);
    }
}

#[test]
fn escapes_as_go_does() {
    let cases = [
        ("", r#""""#),
        ("plain é 世 😀", "\"plain é 世 😀\""),
        ("\"\\/", r#""\"\\/""#),
        ("\n\r\t\u{8}\u{c}", r#""\n\r\t\b\f""#),
        ("\u{0}\u{1}\u{1f}\u{7f}", "\"\\u0000\\u0001\\u001f\u{7f}\""),
        ("<a>&", r#""\u003ca\u003e\u0026""#),
        ("\u{2027}\u{2028}\u{2029}\u{202a}", "\"\u{2027}\\u2028\\u2029\u{202a}\""),
        // Other characters with the same first byte, also at the end.
        ("€\u{2028}€", "\"€\\u2028€\""),
        ("€", "\"€\""),
    ];
    for (text, expected) in cases {
        let mut out = Vec::new();
        write_string(text, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
