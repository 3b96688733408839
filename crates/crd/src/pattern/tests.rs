use super::*;

#[test]
fn expressions_match_as_in_go() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", &["a", "a-b"], &["-a", "A", "a\n"]),
        (r"^\d+$", &["12"], &["١٢", ""]),
        (r"^\w+$", &["ab_1"], &["é"]),
        (r"^\S$", &["\u{a0}", "é"], &[" ", "\n"]),
        (r"\bfoo\b", &["a foo b", "éfoo"], &["afoo"]),
        (r"^[\w.-]+$", &["a.b-c"], &["a b"]),
        (r"^[\W]$", &["é", " "], &["a"]),
        (r"^a{,2}$", &["a{,2}"], &["aa", ""]),
        (r"^{$", &["{"], &[]),
        (r"^[]a]+$", &["]a"], &["b"]),
        (r"^[a&&b]+$", &["a&b"], &["c"]),
        (r"^[+--]+$", &["+,-"], &["."]),
        (r"^[[a]+$", &["[a"], &["b"]),
        (r"^\<a\>$", &["<a>"], &["a"]),
        (r"^\Qa.b\E$", &["a.b"], &["axb"]),
        (r"(?i)^abc$", &["ABC"], &[]),
        (r"^(?P<x>a)(?<y>b)$", &["ab"], &[]),
        (r"^\x41\101\x{42}$", &["AAB"], &[]),
        (r"^\pL\p{Greek}\P{^L}$", &["aαb"], &["1αb"]),
        (r"^[[:alpha:]]$", &["a"], &["é"]),
        (r"^.$", &["é"], &["\n"]),
        (r"a|b|", &["", "c"], &[]),
        (r"^\/$", &["/"], &[]),
        (r"^[^\s]$", &["x"], &["\t"]),
        (r"^.{0,1000}$", &["", "é"], &["\n"]),
    ];
    for (source, matching, others) in cases {
        let pattern = Pattern::new(source);
        assert_eq!(pattern.fault(), None, "{source}");
        for text in *matching {
            assert!(pattern.is_match(text), "{source} does not match {text:?}");
        }
        for text in *others {
            assert!(!pattern.is_match(text), "{source} matches {text:?}");
        }
    }
}

#[test]
fn invalid_expressions_have_the_messages_of_go() {
    let cases = [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{500}){3}", "invalid repeat count: `{3}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\q", r"invalid escape sequence: `\q`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"a\", "trailing backslash at end of expression: ``"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
    ];
    for (source, fault) in cases {
        let found = Pattern::new(source).fault().map(|fault| fault.to_string());
        assert_eq!(found.as_deref(), Some(format!("error parsing regexp: {fault}").as_str()), "{source}");
    }
}
