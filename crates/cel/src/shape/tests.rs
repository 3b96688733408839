use super::{escape, unescape};

#[test]
fn field_names_are_escaped_and_unescaped() {
    for (name, escaped) in [
        ("a", Some("a")),
        ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
        ("a__b", Some("a__underscores__b")),
        ("a_b", Some("a_b")),
        ("namespace", Some("__namespace__")),
        ("namespaces", Some("namespaces")),
        ("a___b", Some("a__underscores___b")),
        ("1a", None),
        ("", None),
        ("ä", None),
        ("$ref", None),
    ] {
        assert_eq!(escape(name).as_deref(), escaped, "{name}");
        if let Some(escaped) = escaped {
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
    }
    for wrong in ["__else__x", "__nothing__", "a__dott__b"] {
        assert_eq!(unescape(wrong), None, "{wrong}");
    }
    assert_eq!(unescape("a__b").as_deref(), Some("a__b"));
}
