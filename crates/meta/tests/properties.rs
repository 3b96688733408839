//! Properties of all inputs. The fuzz targets under `fuzz/` check the same for generated inputs.

use atoll_meta::json::{self, Map, Value};
use atoll_meta::selector::LabelOperator;
use atoll_meta::{FieldSelector, LabelSelector, time};
use proptest::prelude::*;

/// Numbers that round-trip: integers that fit, and floats with a fraction.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("no fraction", |float| float.fract() != 0.0).prop_map(Value::from),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        any::<String>().prop_map(Value::from),
        "[a-z<>&\"\\\\\u{2028}é]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        let key = prop_oneof!["[a-z]{1,4}", any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Whether values are equal up to the last digits of floats, which serde_json does not parse exactly.
fn is_close(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() && y.is_f64() => {
            let (x, y) = (x.as_f64().unwrap_or_default(), y.as_f64().unwrap_or_default());
            x == y || (x - y).abs() <= x.abs() * 1e-12
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| is_close(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|((k, x), (l, y))| k == l && is_close(x, y))
        }
        _ => a == b,
    }
}

/// Documents with a few bytes changed.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![9 => 0u8..128, 1 => any::<u8>()];
    let damage = prop::collection::vec((any::<prop::sample::Index>(), byte), 0..3);
    (document(), damage).prop_map(|(value, damage)| {
        let mut bytes = json::to_vec(&value);
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes
    })
}

fn selector_text() -> impl Strategy<Value = String> {
    let key = "([a-z]{1,3}/)?[a-zA-Z]{1,4}";
    let value = "[a-z0-9]{0,3}";
    let values = prop::collection::vec(value, 1..4).prop_map(|values| values.join(","));
    let requirement = prop_oneof![
        key.prop_map(|key| key),
        key.prop_map(|key| format!("!{key}")),
        (key, "=|==|!=", value).prop_map(|(key, sign, value)| format!("{key} {sign} {value}")),
        (key, "in|notin", values).prop_map(|(key, word, values)| format!("{key} {word} ({values})")),
        (key, "[<>]", 0u32..100).prop_map(|(key, sign, bound)| format!("{key}{sign}{bound}")),
    ];
    prop::collection::vec(requirement, 0..4).prop_map(|requirements| requirements.join(","))
}

/// Terms on few keys with few values, so that many concern the same key and some contradict each other.
fn dense_terms() -> impl Strategy<Value = Vec<String>> {
    let (key, value) = ("[a-d]", "[x-z]|[0-9]|");
    let values = prop::collection::vec(value, 1..12).prop_map(|values| values.join(","));
    let term = prop_oneof![
        1 => key.prop_map(|key| key),
        1 => key.prop_map(|key| format!("!{key}")),
        1 => (key, "=|==", value).prop_map(|(key, sign, value)| format!("{key}{sign}{value}")),
        8 => (key, value).prop_map(|(key, value)| format!("{key}!={value}")),
        2 => (key, values.clone()).prop_map(|(key, values)| format!("{key} in ({values})")),
        2 => (key, values).prop_map(|(key, values)| format!("{key} notin ({values})")),
        1 => (key, "[<>]", -3i32..12).prop_map(|(key, sign, bound)| format!("{key}{sign}{bound}")),
    ];
    prop::collection::vec(term, 0..20)
}

fn labels() -> impl Strategy<Value = Map<String, Value>> {
    let pairs = prop::collection::vec(("[a-f]", "[x-z]|[0-9]|"), 0..6);
    pairs.prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_round_trips(value in document()) {
        let parsed = json::parse(&json::to_vec(&value)).unwrap();
        prop_assert_eq!(parsed.value, value);
        prop_assert!(parsed.duplicates.is_empty());
    }

    #[test]
    fn serde_json_parses_the_same(value in document()) {
        let bytes = json::to_vec(&value);
        let other = serde_json::from_slice::<Value>(&bytes).unwrap();
        prop_assert!(is_close(&other, &value), "{} {}", other, value);
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(json::parse(&pretty).unwrap().value, value);
    }

    #[test]
    fn serde_json_rejects_the_same(bytes in nearly_json()) {
        let other = serde_json::from_slice::<Value>(&bytes);
        // Invalid UTF-8 is repaired here and rejected there, as are unpaired surrogates.
        let is_repaired = |error: &serde_json::Error| {
            let message = error.to_string();
            message.contains("surrogate") || message.contains("hex escape")
        };
        if std::str::from_utf8(&bytes).is_err() || other.as_ref().is_err_and(is_repaired) {
            return Ok(());
        }
        let parsed = json::parse(&bytes);
        prop_assert_eq!(parsed.is_ok(), other.is_ok(), "{:?} {:?}", parsed, other);
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(parsed) = json::parse(&bytes) {
            prop_assert!(serde_json::from_slice::<Value>(&json::to_vec(&parsed.value)).is_ok());
        }
    }

    #[test]
    fn stored_objects_keep_all_but_the_revision(value in document(), revision in any::<u64>()) {
        let object = serde_json::json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": value});
        let stored = json::encode_object(&object);
        let beginning = b"{\"kind\":\"K\",\"apiVersion\":\"v1\",\"metadata\":{";
        prop_assert!(stored.starts_with(beginning));
        prop_assert_eq!(&json::parse(&stored).unwrap().value, &object);
        let spliced = json::parse(&json::splice_resource_version(&stored, revision)).unwrap().value;
        prop_assert_eq!(&spliced["metadata"]["resourceVersion"], &Value::from(revision.to_string()));
        prop_assert_eq!(&spliced["spec"], &object["spec"]);
    }

    #[test]
    fn label_selectors_have_one_canonical_form(text in selector_text()) {
        let selector = LabelSelector::parse(&text).unwrap();
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    /// A selector of one term is evaluated as it is, so a long one must equal the conjunction of its terms.
    #[test]
    fn label_selectors_match_if_all_terms_match(terms in dense_terms(), labels in labels()) {
        let of = |key: &str| labels.get(key).and_then(Value::as_str);
        // A negative bound is not a label value.
        let terms: Vec<String> = terms.into_iter().filter(|term| LabelSelector::parse(term).is_ok()).collect();
        let single = terms.iter().map(|term| LabelSelector::parse(term).unwrap());
        let expected = single.into_iter().all(|term| term.requirements().iter().all(|requirement| {
            let is_listed = of(requirement.key()).is_some_and(|own| requirement.values().iter().any(|value| value == own));
            match requirement.operator() {
                LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => is_listed,
                LabelOperator::NotIn | LabelOperator::NotEquals => !is_listed,
                _ => term.matches(of),
            }
        }));
        let selector = LabelSelector::parse(&terms.join(",")).unwrap();
        prop_assert_eq!(selector.matches(of), expected, "{}", selector);
        prop_assert_eq!(selector.matches_labels(&Some(&labels)), expected, "{}", selector);
    }

    #[test]
    fn field_selectors_match_if_all_terms_match(
        terms in prop::collection::vec(("[a-c]", "=|==|!=|!=|!=|!=|!=", "[x-z]?"), 0..20),
        fields in labels(),
    ) {
        let of = |field: &str| fields.get(field).and_then(Value::as_str);
        let is_met = |(field, sign, value): &(String, String, String)| {
            (of(field).unwrap_or_default() == value) == (sign != "!=")
        };
        let text: Vec<String> = terms.iter().map(|(field, sign, value)| format!("{field}{sign}{value}")).collect();
        let selector = FieldSelector::parse(&text.join(",")).unwrap();
        prop_assert_eq!(selector.matches(of), terms.iter().all(is_met), "{}", selector);
    }

    #[test]
    fn any_text_is_handled_as_a_label_selector(text in "[a-z!=<>(), in\\PC]{0,24}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn field_selectors_round_trip(terms in prop::collection::vec(("[a-z.]{1,6}", any::<bool>(), any::<String>()), 0..4)) {
        let text: Vec<String> = terms.iter().map(|(field, equal, value)| {
            let escaped = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            format!("{field}{}{escaped}", if *equal { "=" } else { "!=" })
        }).collect();
        let selector = FieldSelector::parse(&text.join(",")).unwrap();
        prop_assert_eq!(selector.terms().len(), terms.len());
        for (field, equal, value) in &terms {
            prop_assert!(selector.terms().iter().any(|term| term.field == *field && term.value == *value
                && (term.operator == atoll_meta::selector::FieldOperator::Eq) == *equal));
        }
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn any_text_is_handled_as_a_field_selector(text in "[a-z!=,\\\\\\PC]{0,24}") {
        if let Ok(selector) = FieldSelector::parse(&text) {
            let again = FieldSelector::parse(&selector.to_string()).unwrap();
            prop_assert_eq!(again.terms().len(), selector.terms().len());
        }
    }

    #[test]
    fn times_round_trip(seconds in -62_135_596_800i64..253_402_300_800, micros in 0u32..1_000_000) {
        let nanos = micros * 1000;
        prop_assert_eq!(time::parse(&time::format(seconds)), Ok(time::Timestamp { seconds, nanos: 0 }));
        let text = time::format_micro(seconds, nanos);
        prop_assert_eq!(time::parse_micro(&text), Ok(time::Timestamp { seconds, nanos }));
        prop_assert_eq!(time::parse(&text), Ok(time::Timestamp { seconds, nanos }));
    }

    #[test]
    fn any_text_is_handled_as_a_time(text in "[0-9TZ:.,+é-]{0,32}|2026-0[0-9]-[0-3][0-9]T[0-2]?[0-9]:[0-6]0:00([.,][0-9]{0,9})?(Z|[+-][0-2][0-9]:[0-6]0)") {
        for parsed in [time::parse(&text), time::parse_micro(&text)] {
            match parsed {
                Ok(time) => prop_assert_eq!(time::parse(&time.to_time()).map(|again| again.seconds), Ok(time.seconds)),
                Err(error) => prop_assert!(error.to_string().starts_with("parsing time \"")),
            }
        }
    }
}
