//! Results of library functions, compared with those of Go.

use super::address::{parse_address, parse_network};
use super::decimal::Amount;
use super::go_url::{self, Url};
use super::named::{FORMATS, Format};
use super::version::Version;
use super::{LIBRARIES, template, text};
use crate::signature::Signature;

#[test]
fn overload_ids_are_unique() {
    let mut seen = std::collections::HashSet::new();
    for overload in
        LIBRARIES.iter().flat_map(|library| library.functions).flat_map(|function| function.overloads)
    {
        assert!(seen.insert(overload.id), "{} is there twice", overload.id);
        Signature::read(overload.signature);
        assert_eq!(
            overload.cost.is_some(),
            overload.estimate.is_some(),
            "{} has half its costs",
            overload.id
        );
    }
    assert_eq!(seen.len(), 157);
}

#[test]
fn addresses_are_parsed_as_in_go() {
    for (text, expected) in [
        ("127.0.0.1", Ok("127.0.0.1")),
        ("2001:DB8::0:0:1", Ok("2001:db8::1")),
        ("1:2:3:4:5:6:1.2.3.4", Ok("1:2:3:4:5:6:102:304")),
        ("1:0:0:2:0:0:0:3", Ok("1:0:0:2::3")),
        ("01.2.3.4", Err("IPv4 field has octet with leading zero")),
        ("1.2.3", Err("IPv4 address too short")),
        ("1..2.3", Err("IPv4 field must have at least one digit (at \".2.3\")")),
        ("1.2.3.256", Err("IPv4 field has value >255")),
        ("1.2.3.4.5", Err("IPv4 address too long")),
        (":::1", Err("each colon-separated field must have at least one digit (at \":1\")")),
        ("1::2::3", Err("multiple :: in address (at \":3\")")),
        ("12345::", Err("each group must have 4 or less digits (at \"12345::\")")),
        ("1:2:3:4:5:6:7::8", Err("the :: must expand to at least one field of zeros")),
        ("::1:2:3:4:5:6:7:8", Err("the :: must expand to at least one field of zeros")),
        ("localhost", Err("unable to parse IP")),
    ] {
        let expected = match expected {
            Ok(address) => Ok(address.to_owned()),
            Err(reason) => Err(format!(
                "IP Address \"{text}\" parse error during conversion from string: ParseAddr(\"{text}\"): {reason}"
            )),
        };
        assert_eq!(parse_address(text).map(|address| address.to_string()), expected, "{text}");
    }
    assert_eq!(
        parse_address("fe80::1%eth0"),
        Err("IP address \"fe80::1%eth0\" with zone value is not allowed".to_owned())
    );
    assert_eq!(
        parse_address("::ffff:1.2.3.4"),
        Err("IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed".to_owned())
    );
}

#[test]
fn networks_contain_what_their_prefix_covers() {
    let network = |text| parse_network(text).expect("a network");
    for (outer, inner, expected) in [
        ("10.0.0.0/8", "10.1.2.3/32", true),
        ("10.9.9.9/8", "10.0.0.0/8", true),
        ("10.0.0.0/8", "10.0.0.0/7", false),
        ("0.0.0.0/0", "::/0", false),
        ("::/0", "2001:db8::/32", true),
        ("2001:db8::/33", "2001:db8:8000::/33", false),
    ] {
        assert_eq!(network(outer).contains_network(network(inner)), expected, "{outer} {inner}");
    }
    assert_eq!(network("10.9.9.9/8").masked().text(), "10.0.0.0/8");
    for wrong in [
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/+8",
        "10.0.0.0/",
        "::1%eth0/64",
        "::ffff:1.2.3.4/112",
    ] {
        assert!(parse_network(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn integer_quantities_depend_on_notation() {
    for (text, integer, float) in [
        ("1", Some(1), 1.0),
        ("1.0", None, 1.0),
        ("1k", Some(1000), 1000.0),
        ("1500m", None, 1.5),
        ("1.5Gi", None, 1.5 * 1024.0 * 1024.0 * 1024.0),
        ("9223372036854775807", None, i64::MAX as f64),
        ("100000000000000000000Ki", None, i64::MAX as f64),
        ("0.5n", None, 1e-9),
        ("1e100", None, 1e100),
        (".", Some(0), 0.0),
    ] {
        let amount = Amount::parse(text).expect("an amount");
        assert_eq!((amount.as_integer(), amount.approximate()), (integer, float), "{text}");
    }
    let amount = |text| Amount::parse(text).expect("an amount");
    assert_eq!(amount("1").plus(&amount("0.5")).minus(&amount("500m")).as_integer(), None, "the scale stays");
    assert_eq!(amount("1e1000").plus(&amount("1")), amount("1e1000").plus(&amount("1000m")));
    assert!(amount("1e1000000000") > amount("1"), "without writing it down");
    assert!(amount("1e-1000000000") > amount("0"));
    assert_eq!(amount("1e2000000000").plus(&amount("1")), amount("1e2000000000"));
}

#[test]
fn urls_are_parsed() {
    let location = Url::parse("HTTPS://us%65r:p%20w@[fe80::1%25eth0]:8080/a%2Fb/c%20d?x=1&x=%32&;=3#frag")
        .expect("a URL");
    assert_eq!(location.scheme(), "https");
    assert_eq!(location.host(), "[fe80::1%eth0]:8080");
    assert_eq!(location.hostname(), "fe80::1%eth0");
    assert_eq!(location.port(), "8080");
    assert_eq!(location.escaped_path(), "/a%2Fb/c%20d");
    assert_eq!(
        location.query().into_iter().collect::<Vec<_>>(),
        [("x".to_owned(), vec!["1".to_owned(), "2".to_owned()])]
    );
    assert_eq!(
        location.to_string(),
        "https://user:p%20w@[fe80::1%25eth0]:8080/a%2Fb/c%20d?x=1&x=%32&;=3#frag"
    );
    for (text, reason) in [
        ("../a", "invalid URI for request"),
        ("https://a:b:c/", "invalid port \":b:c\" after host"),
        ("http://h/%zz", "invalid URL escape \"%zz\""),
        ("http://h/%a\u{e9}", "invalid URL escape \"%a\\xc3\""),
        ("http://h h/", "invalid character \" \" in host name"),
        ("", "empty url"),
    ] {
        assert_eq!(go_url::check(text), Err(format!("parse {}: {reason}", atoll_meta::quote::quote(text))));
    }
}

#[test]
fn versions_are_ordered() {
    let versions = [
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-a",
        "1.0.0-a.1",
        "1.0.0-b",
        "1.0.0",
        "1.0.1",
        "1.1.0",
        "2.0.0",
    ];
    let parsed: Vec<Version> = versions.iter().map(|text| Version::parse(text).expect("a version")).collect();
    assert!(parsed.windows(2).all(|pair| pair[0] < pair[1]), "{parsed:?}");
    assert_eq!(Version::parse("1.0.0+a"), Version::parse("1.0.0+b"));
    for (text, expected) in
        [("v1", "1.0.0"), ("01.02", "1.2.0"), ("v1.2.03-rc.1", "1.2.3-rc.1"), ("0.00.0", "0.0.0")]
    {
        assert!(Version::parse(text).is_err(), "{text}");
        assert_eq!(Version::parse_lenient(text), Version::parse(expected), "{text}");
    }
}

#[test]
fn formats_accept_and_reject_strings() {
    let cases = [
        ("dns1123Label", "a-b", "a.b"),
        ("dns1123Subdomain", "a.b", "a_b"),
        ("dns1035Label", "a1", "1a"),
        ("qualifiedName", "a.b/C_d", "a/b/c"),
        ("dns1123LabelPrefix", "a-", "-"),
        ("dns1123SubdomainPrefix", "a.b-", "a..b"),
        ("dns1035LabelPrefix", "a-", "1a-"),
        ("labelValue", "", "a b"),
        ("uri", "/a", "a"),
        ("uuid", "123e4567e89b-12d3-A456-426614174000", "123e4567-e89b-12d3-a456-42661417400"),
        ("byte", "aGVsbG8=", ""),
        ("date", "2020-02-29", "2021-02-29"),
        ("datetime", "2020-02-29t23:59:59.1+01:00", "2020-02-29T24:00:00Z"),
    ];
    assert_eq!(cases.len(), FORMATS.len());
    for (name, fits, does_not) in cases {
        let format = Format::named(name).expect("a format");
        assert_eq!(format.check(fits), Vec::<String>::new(), "{name} {fits}");
        assert_eq!(format.check(does_not).len(), 1, "{name} {does_not}");
    }
}

#[test]
fn string_positions_count_characters() {
    assert_eq!(text::char_at("héé", 3), Ok(""));
    assert_eq!(text::char_at("héé", 2), Ok("é"));
    assert_eq!(text::substring("héllo", 1..3), Ok("él"));
    assert_eq!(text::index_of("hélé", "é", 2), Ok(3));
    assert_eq!(text::last_index_of("hélé", "é"), 3);
    assert_eq!(text::last_index_of_from("hélé", "él", 2), Ok(1));
    assert_eq!(text::split("héé", "", 2), ["h", "éé"]);
    assert_eq!(text::index_of("a", "a", -1), Err("index out of range: -1".to_owned()));
}

#[test]
fn format_strings_are_checked_by_clause() {
    let check = |text: &str, count| template::check::<String>(text, count, |_, _| Ok(()));
    assert_eq!(check("%s %% %.3f", 2), Ok(2));
    assert_eq!(check("%s", 0), Err("index 0 out of range".to_owned()));
    assert_eq!(check("%", 1), Err("unexpected end of string".to_owned()));
    assert_eq!(
        check("%q", 1),
        Err("could not parse formatting clause: unrecognized formatting clause \"q\"".to_owned())
    );
}
