//! YAML bodies, including duplicate keys.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Budget, Error, Spanned};

/// First line of the errors of upstream's YAML parser; the others follow one per line.
const ERRORS_HEADER: &str = "yaml: unmarshal errors:";

/// Returns the value, where the last of duplicate keys wins, and the error of strict parsing about
/// duplicates.
pub fn parse(body: &[u8]) -> Result<(Value, Option<String>), String> {
    // Errors do not quote the input because it may be secret.
    let text = std::str::from_utf8(body).map_err(|_| "control characters are not allowed".to_string())?;
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true, with_snippet: false, alias_limits: alias_limits(), budget: budget(),
    };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(value) => Ok((value, None)),
        Err(error @ Error::DuplicateMappingKey { .. }) => {
            with_duplicates(text).ok_or_else(|| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Limits alias expansion: a few hundred bytes of nested aliases could become millions of nodes. Upstream
/// rejects excessive aliasing, too.
fn alias_limits() -> AliasLimits {
    serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 }
}

/// Limits the number of anchors: the parser keeps a copy of what each refers to.
fn budget() -> Option<Budget> {
    serde_saphyr::budget! { max_anchors: 1_000 }
}

/// Splits an error into its lines, one warning each.
pub fn warnings(remark: String) -> Vec<String> {
    match remark.strip_prefix(ERRORS_HEADER) {
        Some(lines) => {
            lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
        None => vec![remark],
    }
}

/// Parses again if duplicate keys were the only error.
#[cold]
fn with_duplicates(text: &str) -> Option<(Value, Option<String>)> {
    let options = || {
        serde_saphyr::options! {
            legacy_octal_numbers: true, duplicate_keys: DuplicateKeyPolicy::LastWins, alias_limits: alias_limits(),
            budget: budget(),
        }
    };
    let value = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let DuplicateKeys(lines) = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let mut strict_error = ERRORS_HEADER.to_owned();
    for (line, key) in lines {
        strict_error.push_str(&format!("\n  line {line}: key {key:?} already set in map"));
    }
    Some((value, Some(strict_error)))
}

/// Duplicate keys, each with the line of its second value; inner ones first, in upstream's order.
#[derive(Default)]
struct DuplicateKeys(Vec<(u64, String)>);

impl<'de> Deserialize<'de> for DuplicateKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DuplicateKeysVisitor)
    }
}

struct DuplicateKeysVisitor;

impl<'de> Visitor<'de> for DuplicateKeysVisitor {
    type Value = DuplicateKeys;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DuplicateKeys, A::Error> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        while let Some((key, value)) = map.next_entry::<String, Spanned<DuplicateKeys>>()? {
            found.extend(value.value.0);
            if !seen.insert(key.clone()) {
                found.push((value.referenced.line(), key));
            }
        }
        Ok(DuplicateKeys(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<DuplicateKeys, A::Error> {
        let mut found = Vec::new();
        while let Some(DuplicateKeys(inner)) = elements.next_element()? {
            found.extend(inner);
        }
        Ok(DuplicateKeys(found))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<DuplicateKeys, D::Error> {
        DuplicateKeys::deserialize(deserializer)
    }

    fn visit_unit<E>(self) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }

    fn visit_none<E>(self) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<DuplicateKeys, E> {
        Ok(DuplicateKeys::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicate_keys_are_found_with_their_lines() {
        let cases = [
            ("a: 1\nb: [x, {c: d}]", json!({ "a": 1, "b": ["x", { "c": "d" }] }), None),
            ("a: 1\na: 2", json!({ "a": 2 }), Some("\n  line 2: key \"a\" already set in map")),
            (
                "a:\n- b: 1\n  b: 2\nc: null\na:\n  d: true",
                json!({ "a": { "d": true }, "c": null }),
                Some("\n  line 3: key \"b\" already set in map\n  line 6: key \"a\" already set in map"),
            ),
            (
                "{a: 1.5, b: x, a: 3, a: -4}",
                json!({ "a": -4, "b": "x" }),
                Some("\n  line 1: key \"a\" already set in map\n  line 1: key \"a\" already set in map"),
            ),
        ];
        for (text, value, lines) in cases {
            let strict_error = lines.map(|lines| format!("{ERRORS_HEADER}{lines}"));
            assert_eq!(parse(text.as_bytes()), Ok((value, strict_error)), "{text}");
        }
        assert!(parse(b"a: [").is_err());
        // Nine levels of nine aliases each.
        let levels = (1..9).map(|level| {
            format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", "))
        });
        let bomb = format!("a0: &a0 [{}]\n{}", ["x"; 9].join(", "), levels.collect::<String>());
        assert!(bomb.len() < 600 && parse(bomb.as_bytes()).is_err());
        let anchors = |count: usize| (0..count).map(|n| format!("a{n}: &a{n} x\n")).collect::<String>();
        assert!(parse(anchors(1_000).as_bytes()).is_ok());
        let refused = parse(anchors(1_001).as_bytes()).unwrap_err();
        assert!(refused.contains("anchors"), "{refused}");
        assert_eq!(parse(b"a: &a [1]\nb: *a").unwrap().0, json!({ "a": [1], "b": [1] }));
        assert_eq!(
            warnings(format!("{ERRORS_HEADER}\n  line 1: x\n  line 2: y")),
            ["line 1: x".to_owned(), "line 2: y".to_owned()]
        );
    }
}
