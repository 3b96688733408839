//! Valid and invalid names.

use super::*;
use crate::field::{FieldError, FieldPath};

fn messages(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn judges_names_as_upstream_does() {
    for (index, (rule, names, expected)) in CASES.iter().enumerate() {
        for name in *names {
            assert_eq!(rule(name), *expected, "row {index}, name {name:?}");
        }
    }
}

#[test]
fn lengths_are_limited() {
    let has = |errors: Vec<String>, expected: &str| errors.iter().any(|error| error == expected);
    let (label, subdomain) = ("a".repeat(63), "a".repeat(253));
    for rule in [dns1123_label, dns1035_label] {
        assert_eq!(rule(&label), [""; 0]);
        assert!(has(rule(&format!("{label}a")), "must be no more than 63 characters"));
    }
    for rule in [dns1123_subdomain, config_map_key, dns1123_subdomain_with_underscore] {
        assert_eq!(rule(&subdomain), [""; 0]);
        assert_eq!(rule(&format!("{subdomain}a")), ["must be no more than 253 characters"]);
    }
    assert_eq!(label_value(&format!("{label}a")), ["must be no more than 63 bytes"]);
    assert_eq!(qualified_name(&format!("{subdomain}/{label}")), [""; 0]);
    assert_eq!(qualified_name(&format!("{label}a")), ["name part must be no more than 63 bytes"]);
    assert_eq!(qualified_name(&format!("{subdomain}a/a")), ["prefix part must be no more than 253 bytes"]);
    assert!(has(
        wildcard_dns1123_subdomain(&format!("*.{subdomain}")),
        "must be no more than 253 characters"
    ));
    assert_eq!(port_name(&"a".repeat(16)), ["must be no more than 15 characters"]);
    // The mask removes one byte, which also reduces the length.
    assert_eq!(name_is_dns_label(&format!("{label}-"), true), [""; 0]);
    assert!(has(name_is_dns_label(&format!("{label}a-"), true), "must be no more than 63 characters"));
}

#[test]
fn paths_have_their_own_rules() {
    let cases: [(&str, &[&str], &[&str]); 7] = [
        ("", &[], &[]),
        ("system:node:x@y", &[], &[]),
        (".", &["may not be '.'"], &[]),
        ("..", &["may not be '..'"], &[]),
        ("..a", &[], &[]),
        ("a/b", &["may not contain '/'"], &["may not contain '/'"]),
        (
            "a/b%c",
            &["may not contain '/'", "may not contain '%'"],
            &["may not contain '/'", "may not contain '%'"],
        ),
    ];
    for (name, as_name, as_prefix) in cases {
        assert_eq!(name_is_path_segment(name, false), as_name);
        assert_eq!(name_is_path_segment(name, true), as_prefix);
    }
}

#[test]
fn numbers_have_ranges() {
    assert_eq!(port_number(1), [""; 0]);
    assert_eq!(port_number(65535), [""; 0]);
    assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    assert_eq!(port_number(65536), ["must be between 1 and 65535, inclusive"]);
    assert_eq!(unix_id(0), [""; 0]);
    assert_eq!(unix_id(-1), ["must be between 0 and 2147483647, inclusive"]);
    assert_eq!(in_range(5, -1, 4), ["must be between -1 and 4, inclusive"]);
}

/// Recorded from k8s.io/apimachinery/pkg/util/validation: rule, names, and the messages about each of them.
type Case = (fn(&str) -> Vec<String>, &'static [&'static str], &'static [&'static str]);
#[rustfmt::skip]
const CASES: &[Case] = &[
    (dns1123_label, &["", "-a", "a-", "-", "A", "Abc", "a..b"], &["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]),
    (dns1123_label, &["a", "abc", "a-b", "a--b", "1", "1a", "a1", "http", "http-2"], &[]),
    (dns1123_label, &["a.b", "a.b.c", "my.name"], &["must not contain dots"]),
    (dns1123_subdomain, &["", "-a", "a-", "-", "A", "Abc", "a..b"], &[r#"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (dns1123_subdomain, &["a", "abc", "a-b", "a--b", "1", "1a", "a1", "a.b", "http"], &[]),
    (dns1035_label, &["", "-a", "a-", "-", "A", "Abc", "1"], &["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"]),
    (dns1035_label, &["a", "abc", "a-b", "a--b", "a1", "http", "http-2", "x-1-y", "averyveryverylongportname"], &[]),
    (dns1123_subdomain_with_underscore, &["", "-a", "a-", "-", "A", "Abc", "a..b"], &[r#"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"#]),
    (dns1123_subdomain_with_underscore, &["a", "abc", "a-b", "a--b", "1", "1a", "a1", "a.b", "a_b"], &[]),
    (wildcard_dns1123_subdomain, &["", "a", "abc", "a-b", "a--b", "-a", "a-"], &[r#"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (wildcard_dns1123_subdomain, &["*.a", "*.a.b"], &[]),
    (qualified_name, &["", "a/", "acme.io/"], &["name part must be non-empty", "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    (qualified_name, &["a", "abc", "a-b", "a--b", "A", "Abc", "1", "1a", "a1"], &[]),
    (qualified_name, &["-a", "a-", "-", ".a", "a.", "_a", "a_"], &["name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    (qualified_name, &["/a", "/foo"], &["prefix part must be non-empty"]),
    (qualified_name, &["a/b/c", "acme.io/foo/bar"], &["a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]),
    (qualified_name, &["A/b", "a_b/c", "Acme.io/foo"], &[r#"prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (label_value, &["", "a", "abc", "a-b", "a--b", "A", "Abc", "1", "1a"], &[]),
    (label_value, &["-a", "a-", "-", ".a", "a.", "_a", "a_"], &["a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]),
    (c_identifier, &["", "a-b", "a--b", "-a", "a-", "-", "1"], &["a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"]),
    (c_identifier, &["a", "abc", "A", "Abc", "a1", "a_b", "_a", "a_", "_"], &[]),
    (config_map_key, &["", "a/b", "a/", "/a", "a/b/c", "A/b", "a_b/c"], &["a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"]),
    (config_map_key, &["a", "abc", "a-b", "a--b", "-a", "a-", "-", "A", "Abc"], &[]),
    (config_map_key, &["."], &["must not be '.'"]),
    (config_map_key, &[".."], &["must not be '..'"]),
    (config_map_key, &["..a", "..."], &["must not start with '..'"]),
    (env_var_name, &["", "1", "1a", "a/b", "a/", "/a", "a/b/c"], &["a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"]),
    (env_var_name, &["a", "abc", "a-b", "a--b", "-a", "a-", "-", "A", "Abc"], &[]),
    (env_var_name, &["."], &["must not be '.'"]),
    (env_var_name, &[".."], &["must not be '..'"]),
    (env_var_name, &["..a", "..."], &["must not start with '..'"]),
    (relaxed_env_var_name, &[""], &["environment variable name must be non-empty"]),
    (relaxed_env_var_name, &["a", "abc", "a-b", "a--b", "-a", "a-", "-", "A", "Abc"], &[]),
    (relaxed_env_var_name, &["a=b", "é", "aé-", "é-", "tama-nui-te-rā", "\u{7f}", "a\u{a}"], &["a valid environment variable name must consist only of printable ASCII characters other than '='"]),
    (http_header_name, &["", "a.b", "a..b", ".a", "a.", "a_b", "_a"], &["a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"]),
    (http_header_name, &["a", "abc", "a-b", "a--b", "-a", "a-", "-", "A", "Abc"], &[]),
    (percent, &["", "a", "abc", "a-b", "a--b", "-a", "a-"], &["a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"]),
    (percent, &["50%"], &[]),
    (port_name, &["", "A", "_", " ", "é", "*", "."], &["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)", "must contain at least one letter (a-z)"]),
    (port_name, &["a", "abc", "a-b", "1a", "a1", "http", "http-2", "x-1-y"], &[]),
    (port_name, &["a--b"], &["must not contain consecutive hyphens"]),
    (port_name, &["-a", "a-", "ab-"], &["must not begin or end with a hyphen"]),
    (port_name, &["-"], &["must contain at least one letter (a-z)", "must not begin or end with a hyphen"]),
    (port_name, &["Abc", "a.b", "a..b", ".a", "a.", "a_b", "_a"], &["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"]),
    (port_name, &["1", "12"], &["must contain at least one letter (a-z)"]),
    (port_name, &["aé-", "a.b-"], &["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)", "must not begin or end with a hyphen"]),
    (port_name, &["é-"], &["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)", "must contain at least one letter (a-z)", "must not begin or end with a hyphen"]),
    (port_name, &["--"], &["must contain at least one letter (a-z)", "must not contain consecutive hyphens", "must not begin or end with a hyphen"]),
    (port_name, &["averyveryverylongportname"], &["must be no more than 15 characters"]),
    (|name| name_is_dns_label(name, true), &["", "-a", "-", "A", "Abc", "a..b", ".a"], &["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]),
    (|name| name_is_dns_label(name, true), &["a", "abc", "a-b", "a--b", "a-", "1", "1a", "a1", "ab-"], &[]),
    (|name| name_is_dns_label(name, true), &["a.b", "a.b-", "a.b.c", "my.name"], &["must not contain dots"]),
    (|name| name_is_dns_subdomain(name, true), &["", "-a", "-", "A", "Abc", "a..b", ".a"], &[r#"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| name_is_dns_subdomain(name, true), &["a", "abc", "a-b", "a--b", "a-", "1", "1a", "a1", "a.b"], &[]),
    (|name| name_is_dns1035_label(name, true), &["", "-a", "-", "A", "Abc", "1", "1a"], &["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"]),
    (|name| name_is_dns1035_label(name, true), &["a", "abc", "a-b", "a--b", "a-", "a1", "ab-", "--", "http"], &[]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &[""], &["f: Required value"]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["a"], &[r#"f: Invalid value: "a": should be a domain with at least three segments separated by dots"#]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["abc"], &[r#"f: Invalid value: "abc": should be a domain with at least three segments separated by dots"#]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["a-b"], &[r#"f: Invalid value: "a-b": should be a domain with at least three segments separated by dots"#]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["-a"], &[r#"f: Invalid value: "-a": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["a-"], &[r#"f: Invalid value: "a-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["-"], &[r#"f: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["a.b.c"], &[]),
    (|name| messages(fully_qualified_name(&FieldPath::new("f"), name)), &["\u{7f}"], &[r#"f: Invalid value: "\x7f": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &[""], &["f: Required value"]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a"], &[r#"f: Invalid value: "a": should be a domain with at least two segments separated by dots"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["abc"], &[r#"f: Invalid value: "abc": should be a domain with at least two segments separated by dots"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a-b"], &[r#"f: Invalid value: "a-b": should be a domain with at least two segments separated by dots"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["-a"], &[r#"f: Invalid value: "-a": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a-"], &[r#"f: Invalid value: "a-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["-"], &[r#"f: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a.b"], &[]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a.b.c"], &[]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a.b.c."], &[]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["a."], &[r#"f: Invalid value: "a": should be a domain with at least two segments separated by dots"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["."], &[r#"f: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &[".."], &[r#"f: Invalid value: ".": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["..."], &[r#"f: Invalid value: "..": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(fully_qualified_domain_name(&FieldPath::new("f"), name)), &["\u{7f}"], &[r#"f: Invalid value: "\x7f": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &[""], &["f: Required value"]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["a"], &[r#"f: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["abc"], &[r#"f: Invalid value: "abc": must be a domain-prefixed path (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["a-b"], &[r#"f: Invalid value: "a-b": must be a domain-prefixed path (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["a/b"], &[]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["a/b/c"], &[]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["acme.io/foo"], &[]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["A/b"], &[r#"f: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["a_b/c"], &[r#"f: Invalid value: "a_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["acme.io/f o"], &[r#"f: Invalid value: "f o": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["Acme.io/foo"], &[r#"f: Invalid value: "Acme.io": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_path(&FieldPath::new("f"), name)), &["\u{7f}"], &[r#"f: Invalid value: "\x7f": must be a domain-prefixed path (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &[""], &["f: Required value"]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a"], &[r#"f: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["abc"], &[r#"f: Invalid value: "abc": must be a domain-prefixed key (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a-b"], &[r#"f: Invalid value: "a-b": must be a domain-prefixed key (such as "acme.io/foo")"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["-a"], &[r#"f: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a-"], &[r#"f: Invalid value: "a-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["-"], &[r#"f: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a/b"], &[]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["acme.io/foo"], &[]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a/"], &[r#"f: Invalid value: "a/": name part must be non-empty"#, r#"f: Invalid value: "a/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["acme.io/"], &[r#"f: Invalid value: "acme.io/": name part must be non-empty"#, r#"f: Invalid value: "acme.io/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["/a"], &[r#"f: Invalid value: "/a": prefix part must be non-empty"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["/foo"], &[r#"f: Invalid value: "/foo": prefix part must be non-empty"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a/b/c"], &[r#"f: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["acme.io/foo/bar"], &[r#"f: Invalid value: "acme.io/foo/bar": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["A/b"], &[r#"f: Invalid value: "A/b": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["a_b/c"], &[r#"f: Invalid value: "a_b/c": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["Acme.io/foo"], &[r#"f: Invalid value: "Acme.io/foo": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]),
    (|name| messages(domain_prefixed_key(&FieldPath::new("f"), name)), &["\u{7f}"], &[r#"f: Invalid value: "\x7f": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]),
];
