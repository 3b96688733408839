//! Quantities.

use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn reads_and_writes_as_upstream_does() {
    for (text, expected) in CASES {
        let parsed =
            Quantity::parse(text).map(|quantity| quantity.to_string()).map_err(|error| error.to_string());
        assert_eq!(parsed.as_deref().map_err(String::as_str), *expected, "{text:?}");
        let canonical = canonical(text).map_err(|error| error.to_string());
        if text.trim() == *text {
            assert_eq!(canonical.as_deref().map_err(String::as_str), *expected, "{text:?} in an object");
        }
    }
}

/// Recorded from k8s.io/apimachinery/pkg/api/resource.
#[test]
fn amounts_of_any_size_are_written_as_upstream_does() {
    let cases = [
        // There is no suffix beyond exa.
        ("1000E", "1"),
        ("1000000P", "1"),
        ("1000000000000000000000000000000000000000000000000", "1"),
        ("123456789012345678901E", "123456789012345678901E"),
        (
            "99999999999999999999999999999999999999999999999999n",
            "99999999999999999999999999999999999999999999999999n",
        ),
        ("1e40", "10e39"),
        ("0.1e29", "10e27"),
        // Exponents have 32 bits.
        ("1e4294967296", "1e4294967296"),
        ("1e-4294967296", "1e-4294967296"),
        ("10e4294967296", "10e4294967296"),
        ("1e9223372036854775807", "100e-3"),
        ("123e+03", "123e+03"),
        ("-0.0000000001", "-1n"),
        ("-0.0000000001Ki", "-103n"),
        ("0.00000000000000000001Ei", "11529216n"),
        ("1024Ei", "9223372036854775807"),
        ("-0Ki", "0"),
        ("8Ki", "8Ki"),
        ("-8Ki", "-8Ki"),
        ("+8Ki", "8Ki"),
        ("08Ki", "8Ki"),
        (" 1Gi\u{a0}", "1Gi"),
        ("\n1024Mi ", "1Gi"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
    for (text, other) in [("1e4294967296", "1"), ("1e-4294967296", "1"), ("1e4294967299", "1k")] {
        assert_eq!(quantity(text), quantity(other), "{text}");
    }
    assert_eq!(quantity("1000E").to_string(), "1");
}

#[test]
fn amounts_compare_however_written() {
    let equal =
        [("1", "1000m"), ("1Ki", "1024"), ("1e3", "1k"), ("0.5Gi", "512Mi"), ("0", "0Ki"), ("1.0", "1")];
    for (a, b) in equal {
        assert_eq!(quantity(a), quantity(b), "{a} {b}");
    }
    let rising =
        ["-1Gi", "-1", "-1n", "0", "1n", "1u", "999m", "1", "1k", "1Ki", "1M", "1Mi", "1E", "1Ei", "100E"];
    for pair in rising.windows(2) {
        assert!(quantity(pair[0]) < quantity(pair[1]), "{pair:?}");
    }
}

#[test]
fn amounts_add_up() {
    let cases = [
        ("1Gi", "1Gi", "2Gi", "0"),
        ("900m", "100m", "1", "800m"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "1G", "2073741824", "73741824"),
        ("1", "-1", "0", "2"),
        ("1e3", "1", "1001", "999"),
        ("1Ki", "1m", "1024001m", "1023999m"),
    ];
    for (a, b, sum, difference) in cases {
        let mut total = quantity(a);
        total.add(&quantity(b));
        assert_eq!(total.to_string(), sum, "{a} + {b}");
        let mut rest = quantity(a);
        rest.subtract(&quantity(b));
        assert_eq!(rest.to_string(), difference, "{a} - {b}");
    }
}

#[test]
fn numbers_are_rounded_up() {
    let cases =
        [("1500m", 2, 1500), ("-1500m", -2, -1500), ("1n", 1, 1), ("2", 2, 2000), ("1Ki", 1024, 1_024_000)];
    for (text, units, millis) in cases {
        assert_eq!((quantity(text).units(), quantity(text).millis()), (units, millis), "{text}");
    }
    assert_eq!(quantity("1e30").units(), i64::MAX);
    assert_eq!(quantity("-1e9999").millis(), i64::MIN);
}

#[test]
fn amounts_are_made_from_numbers() {
    assert_eq!(Quantity::new(2048, Format::BinarySi).to_string(), "2Ki");
    assert_eq!(Quantity::new(2000, Format::DecimalSi).to_string(), "2k");
    assert_eq!(Quantity::from_millis(1500, Format::DecimalSi).to_string(), "1500m");
    assert!(
        Quantity::new(-1, Format::DecimalSi).is_negative() && Quantity::new(0, Format::BinarySi).is_zero()
    );
}

#[test]
fn canonical_form_ignores_the_notation() {
    for (text, canonical) in [("+1", "1"), ("01", "1"), ("5.", "5"), ("1E3", "1e3"), ("100m", "100m")] {
        assert_eq!(quantity(text).canonical(), canonical);
        assert_eq!(quantity(text).to_string(), text);
    }
}

#[test]
fn very_long_numbers_are_handled() {
    assert_eq!(quantity(&format!("1.{}1", "0".repeat(100))).to_string(), "1000000001n");
    assert_eq!(quantity(&format!("0.{}1", "0".repeat(100))).to_string(), "1n");
    assert_eq!(quantity(&"9".repeat(100)).units(), i64::MAX);
    assert_eq!(quantity(&format!("{}Ei", "9".repeat(100))).units(), i64::MAX);
    assert_eq!(quantity("1e-1000000000").to_string(), "1e-9");
}

/// Recorded from k8s.io/apimachinery/pkg/api/resource.
#[rustfmt::skip]
const CASES: &[(&str, Result<&str, &str>)] = &[
    ("0", Ok("0")),
    ("1", Ok("1")),
    ("-1", Ok("-1")),
    ("+1", Ok("+1")),
    ("01", Ok("01")),
    ("1.5", Ok("1500m")),
    ("1.50", Ok("1500m")),
    (".5", Ok("500m")),
    ("5.", Ok("5.")),
    (".", Ok("0")),
    ("", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("1k", Ok("1k")),
    ("1K", Err("unable to parse quantity's suffix")),
    ("1Ki", Ok("1Ki")),
    ("1M", Ok("1M")),
    ("1Mi", Ok("1Mi")),
    ("1G", Ok("1G")),
    ("1Gi", Ok("1Gi")),
    ("1T", Ok("1T")),
    ("1Ti", Ok("1Ti")),
    ("1P", Ok("1P")),
    ("1Pi", Ok("1Pi")),
    ("1E", Ok("1E")),
    ("1Ei", Ok("1Ei")),
    ("1m", Ok("1m")),
    ("1u", Ok("1u")),
    ("1n", Ok("1n")),
    ("1500m", Ok("1500m")),
    ("1000m", Ok("1")),
    ("0.1", Ok("100m")),
    ("0.0001", Ok("100u")),
    ("100u", Ok("100u")),
    ("1.0001", Ok("1000100u")),
    ("1e3", Ok("1e3")),
    ("1E3", Ok("1E3")),
    ("1e-3", Ok("1e-3")),
    ("12e6", Ok("12e6")),
    ("1.5e3", Ok("1500")),
    ("1e", Err("unable to parse quantity's suffix")),
    ("1e+", Err("unable to parse quantity's suffix")),
    ("1024", Ok("1024")),
    ("1024Ki", Ok("1Mi")),
    ("1536Mi", Ok("1536Mi")),
    ("0.5Gi", Ok("512Mi")),
    ("1.5Gi", Ok("1536Mi")),
    ("1.1Gi", Ok("1181116006400m")),
    ("0.1Ki", Ok("102400m")),
    ("1000", Ok("1k")),
    ("1000k", Ok("1M")),
    ("1000000", Ok("1M")),
    ("100000000000000000000", Ok("100E")),
    ("9223372036854775807", Ok("9223372036854775807")),
    ("9223372036854775808", Ok("9223372036854775808")),
    ("9Ei", Ok("9223372036854775807")),
    ("8Ei", Ok("9223372036854775807")),
    ("7Ei", Ok("7Ei")),
    ("1e18", Ok("1e18")),
    ("1e19", Ok("10e18")),
    ("0.000000001", Ok("1n")),
    ("0.0000000001", Ok("1n")),
    ("1.0000000001", Ok("1000000001n")),
    ("-0", Ok("0")),
    ("-0.5", Ok("-500m")),
    ("-1.5Gi", Ok("-1536Mi")),
    ("-1m", Ok("-1m")),
    ("0m", Ok("0")),
    ("0Ki", Ok("0")),
    ("00", Ok("0")),
    ("1 ", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    (" 1", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("1a", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("a", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("1ki", Err("unable to parse quantity's suffix")),
    ("1mi", Err("unable to parse quantity's suffix")),
    ("1Kii", Err("unable to parse quantity's suffix")),
    ("--1", Err("unable to parse quantity's suffix")),
    ("+-1", Err("unable to parse quantity's suffix")),
    ("1.2.3", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("12345678901234567890n", Ok("12345678901234567890n")),
    ("3.141592653589793238", Ok("3141592654n")),
    ("1n1", Err("unable to parse quantity's suffix")),
    ("1e3k", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("0.001Ki", Ok("1024m")),
    ("123456789m", Ok("123456789m")),
    ("2048", Ok("2048")),
    ("1Ti1", Err("unable to parse quantity's suffix")),
    ("1.000", Ok("1")),
    ("100m", Ok("100m")),
    ("5e-1", Ok("500e-3")),
    ("1e9999", Ok("1e9999")),
    ("4E", Ok("4E")),
    ("0x10", Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
    ("1e-12", Ok("1e-9")),
    ("1.Gi", Ok("1.Gi")),
    (".Ki", Ok("0")),
    ("1e-10", Ok("1e-9")),
    ("0.0001Ki", Ok("102400u")),
    ("1.123456789012Ei", Ok("1295257491548492069126602228n")),
    ("+", Ok("0")),
    ("16Ki", Ok("16Ki")),
    ("24Mi", Ok("24Mi")),
    ("0.1Ei", Ok("115292150460684697600m")),
    ("123456789012345Ki", Ok("123456789012345Ki")),
    ("0e5", Ok("0")),
    ("1e+5", Ok("100e3")),
    ("1E-2", Ok("10e-3")),
    (".e-10", Err("unable to parse numeric part of quantity")),
];
