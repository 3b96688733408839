//! Field selectors.

use super::{FieldOperator, FieldSelector};

#[test]
fn parses_as_upstream_does() {
    for (text, expected) in PARSED {
        let parsed = FieldSelector::parse(text).map(|selector| selector.to_string());
        assert_eq!(parsed.as_deref().map_err(String::as_str), *expected, "selector {text:?}");
    }
}

#[test]
fn matches_fields() {
    let lookup = |field: &str| match field {
        "metadata.name" => Some("web".to_owned()),
        "status.phase" => Some("Running".to_owned()),
        _ => None,
    };
    let cases = [
        ("", true),
        ("metadata.name=web", true),
        ("metadata.name=db", false),
        ("metadata.name!=db", true),
        ("metadata.name!=web", false),
        ("missing=", true),
        ("missing=x", false),
        ("missing!=x", true),
        ("metadata.name=web,status.phase!=Failed", true),
        ("metadata.name=web,status.phase!=Running", false),
    ];
    for (selector, expected) in cases {
        assert_eq!(FieldSelector::parse(selector).unwrap().matches(lookup), expected, "{selector}");
    }
}

#[test]
fn knows_fields_with_one_value() {
    let selector = FieldSelector::parse("metadata.name=web,status.phase!=Failed").unwrap();
    assert_eq!(selector.required_exact("metadata.name"), Some("web"));
    assert_eq!(selector.required_exact("status.phase"), None);
    assert_eq!(selector.required_exact("other"), None);
    assert_eq!(selector.terms()[1].operator, FieldOperator::NotEq);
    assert!(!selector.is_empty());
    assert!(FieldSelector::everything().is_empty());
}

#[test]
fn transforms_fields() {
    let selector = FieldSelector::parse("name=a,drop=b").unwrap();
    let transformed = selector.transform(|field, value| match field {
        "name" => Ok(("metadata.name".to_owned(), value.to_owned())),
        "drop" => Ok((String::new(), String::new())),
        other => Err(format!("unknown {other}")),
    });
    assert_eq!(transformed, Ok(FieldSelector::equals("metadata.name", "a")));
    let refused = FieldSelector::equals("x", "y").transform(|field, _| Err(format!("unknown {field}")));
    assert_eq!(refused, Err("unknown x".to_owned()));
}

/// Recorded from k8s.io/apimachinery/pkg/fields: the canonical form, or the error.
#[rustfmt::skip]
const PARSED: &[(&str, Result<&str, &str>)] = &[
    ("", Ok("")),
    (",", Ok("")),
    ("a=b", Ok("a=b")),
    ("a==b", Ok("a=b")),
    ("a!=b", Ok("a!=b")),
    ("a=", Ok("a=")),
    ("a!=", Ok("a!=")),
    ("=b", Ok("=b")),
    ("=", Ok("")),
    ("!=", Ok("")),
    ("==", Ok("")),
    ("a=b,c=d", Ok("a=b,c=d")),
    ("c=d,a=b", Ok("a=b,c=d")),
    ("a=b,,c=d", Ok("a=b,c=d")),
    (",a=b,", Ok("a=b")),
    ("a", Err("invalid selector: 'a'; can't understand 'a'")),
    ("a,b=c", Err("invalid selector: 'a,b=c'; can't understand 'a'")),
    ("a=b,c", Err("invalid selector: 'a=b,c'; can't understand 'c'")),
    ("a!b", Err("invalid selector: 'a!b'; can't understand 'a!b'")),
    ("a=b=c", Err("invalid field selector: unescaped character in value: 61")),
    ("a=b!=c", Err("invalid field selector: unescaped character in value: 61")),
    (r#"a=b\,c"#, Ok(r#"a=b\,c"#)),
    (r#"a=b\=c"#, Ok(r#"a=b\=c"#)),
    (r#"a=b\\c"#, Ok(r#"a=b\\c"#)),
    (r#"a=b\x"#, Err(r#"invalid field selector: invalid escape sequence: \x"#)),
    (r#"a=b\"#, Err(r#"invalid field selector: invalid escape sequence: \"#)),
    (r#"a=\,\=\\"#, Ok(r#"a=\,\=\\"#)),
    (r#"a\,b=c"#, Ok(r#"a\,b=c"#)),
    ("a=b c", Ok("a=b c")),
    ("metadata.name=x,metadata.namespace!=y", Ok("metadata.name=x,metadata.namespace!=y")),
    ("a===b", Err("invalid field selector: unescaped character in value: 61")),
    ("a!==b", Err("invalid field selector: unescaped character in value: 61")),
    ("a=!b", Ok("a=!b")),
    ("\u{e9}=\u{fc}", Ok("\u{e9}=\u{fc}")),
    (r#"a=é\é"#, Err(r#"invalid field selector: invalid escape sequence: \é"#)),
    ("a<b", Err("invalid selector: 'a<b'; can't understand 'a<b'")),
    ("a=b,a=c", Ok("a=b,a=c")),
    ("a==z,a=>", Ok("a=z,a=>")),
];
