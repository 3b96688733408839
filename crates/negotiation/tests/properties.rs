//! Properties of merged schemas for random schemas and objects.
//!
//! Random schemas and objects that almost match them come from `atoll_upstream::schemas`; half of the time
//! the cluster's schema is a changed copy of the offered one.

#![allow(clippy::unwrap_used)]

use atoll_crd::validate_defaults::validate;
use atoll_crd::{Definition, Origin, ValidationResult, Version};
use atoll_meta::{Deadline, FieldPath};
use atoll_negotiation::{
    Objects, canonical_text, check_object, compare, lost_fields, lowest_common_denominator,
};
use atoll_upstream::rules::decorate;
use atoll_upstream::schemas::Generator;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn version(schema: &Value) -> Version {
    definition(schema).versions()[0].clone()
}

fn definition(schema: &Value) -> Definition {
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    Definition::compile(&json!({ "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": { "kind": "Thing", "plural": "things" }, "versions": [version],
    }}))
}

/// The errors of an object: unknown fields and invalid values. The object gets the defaults.
fn errors(version: &Version, object: &mut Value) -> Vec<String> {
    let mut errors = match version.schema.read(object, Origin::Request) {
        Ok(unknown) => unknown,
        Err(error) => return vec![error],
    };
    let _ = version.schema.apply_defaults(object);
    let mut findings = ValidationResult::default();
    version.validate_create(object, &mut findings, &Deadline::never());
    errors.extend(findings.errors.iter().map(ToString::to_string));
    errors
}

/// Removes defaults: those of the cluster are not part of the merged schema.
fn without_defaults(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("default");
            fields.values_mut().for_each(without_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(without_defaults),
        _ => {}
    }
}

/// Changes some keywords of a schema and of its parts.
fn change(generator: &mut Generator, schema: &mut Value, depth: usize) {
    let Value::Object(fields) = schema else { return };
    if depth > 0 && generator.chance(15) {
        match generator.below(12) {
            0 => drop(fields.insert("nullable".into(), json!(generator.chance(50)))),
            1 => drop(fields.remove("enum")),
            2 => drop(fields.remove("required")),
            3 => drop(fields.insert("minimum".into(), json!(generator.below(4)))),
            4 => drop(fields.insert("maxLength".into(), json!(generator.below(6)))),
            5 => drop(fields.insert("maxItems".into(), json!(generator.below(4)))),
            6 => drop(fields.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true))),
            7 => drop(fields.remove("x-kubernetes-preserve-unknown-fields")),
            8 => drop(fields.insert("enum".into(), json!(["a", "abc", 1, 2]))),
            9 => drop(fields.remove("pattern")),
            10 if fields.get("type") == Some(&json!("number")) => {
                fields.insert("type".into(), json!("integer"));
            }
            _ => drop(fields.insert("anyOf".into(), json!([{ "minLength": 1 }, { "minimum": 1 }]))),
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        if depth > 0
            && generator.chance(15)
            && let Some(name) = properties.keys().next().cloned()
        {
            properties.remove(&name);
        }
        properties.values_mut().for_each(|property| change(generator, property, depth + 1));
        let names: Vec<String> = properties.keys().cloned().collect();
        if depth > 0 && generator.chance(15) && !names.is_empty() {
            fields.insert("required".into(), json!([names[generator.below(names.len())]]));
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(part) = fields.get_mut(name) {
            change(generator, part, depth + 1);
        }
    }
}

/// A pair of schemas, the second one without defaults.
fn pair(generator: &mut Generator, with_rules: bool) -> (Value, Value) {
    let mut offered = generator.root();
    if with_rules {
        decorate(generator, &mut offered);
    }
    let mut cluster = if generator.chance(80) { offered.clone() } else { generator.root() };
    if with_rules && generator.chance(30) {
        decorate(generator, &mut cluster);
    }
    change(generator, &mut cluster, 0);
    without_defaults(&mut cluster);
    (offered, cluster)
}

fn any_json() -> impl Strategy<Value = Value> {
    const NAMES: &[&str] = &[
        "type",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "enum",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "default",
        "format",
        "pattern",
        "minimum",
        "maxLength",
        "minItems",
        "nullable",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "rule",
        "metadata",
        "a",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["object", "array", "string", "integer", "set", "map", "self.a > 1", "["])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((prop::sample::select(NAMES), inner), 0..6).prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn objects_of_the_merged_schema_are_valid_in_both(seed in any::<u64>()) {
        let generator = &mut Generator::new(seed);
        let (mut offered, cluster) = pair(generator, false);
        if !validate(&offered, &FieldPath::nil(), true, &Deadline::never()).is_empty() {
            // The API server accepts no definition with invalid defaults.
            without_defaults(&mut offered);
        }
        let comparison = compare(&offered, &cluster, &Deadline::never());
        if !comparison.contradictions.is_empty() {
            return Ok(());
        }
        let [merged, one, other] = [&comparison.merged, &offered, &cluster].map(version);
        for _ in 0..12 {
            let mut object = generator.object(&comparison.merged);
            let object_errors = errors(&merged, &mut object);
            if !object_errors.is_empty() {
                continue;
            }
            for (name, schema) in [("offered", &one), ("cluster", &other)] {
                let mut copy = object.clone();
                let found = errors(schema, &mut copy);
                prop_assert!(
                    found.is_empty(),
                    "{name}: {found:?}\nobject {object}\noffered {offered}\ncluster {cluster}\nmerged {}",
                    comparison.merged
                );
            }
        }
    }

    #[test]
    fn merging_again_changes_nothing(seed in any::<u64>(), with_rules in any::<bool>()) {
        let (offered, cluster) = pair(&mut Generator::new(seed), with_rules);
        let once = compare(&offered, &cluster, &Deadline::never());
        let own = compare(&offered, &offered, &Deadline::never());
        prop_assert!(own.losses.is_empty() && own.contradictions.is_empty(), "{own:?}");
        prop_assert_eq!(&own.merged, &offered);
        if once.contradictions.is_empty() {
            let again = compare(&once.merged, &cluster, &Deadline::never());
            prop_assert!(
                again.losses.is_empty() && again.contradictions.is_empty(),
                "{:?}\n{offered}\n{cluster}\n{}", again, once.merged
            );
            prop_assert_eq!(canonical_text(&again.merged), canonical_text(&once.merged));
            // Every loss is gone once it is accepted, and without losses nothing changes.
            prop_assert!(!once.losses.is_empty() || once.merged == offered, "{offered}\n{}", once.merged);
        }
    }

    #[test]
    fn both_orders_accept_the_same_objects(seed in any::<u64>()) {
        let generator = &mut Generator::new(seed);
        let (mut offered, cluster) = pair(generator, false);
        without_defaults(&mut offered);
        let (one, other) = (compare(&offered, &cluster, &Deadline::never()), compare(&cluster, &offered, &Deadline::never()));
        if !one.contradictions.is_empty() || !other.contradictions.is_empty() {
            return Ok(());
        }
        let (one_version, other_version) = (version(&one.merged), version(&other.merged));
        for _ in 0..6 {
            let object = generator.object(&one.merged);
            let accepts = |version: &Version| errors(version, &mut object.clone()).is_empty();
            prop_assert_eq!(
                accepts(&one_version), accepts(&other_version),
                "{}\noffered {}\ncluster {}\n{}\n{}", object, offered, cluster, one.merged, other.merged
            );
        }
    }

    #[test]
    fn schemas_are_not_narrowed_below_the_objects(seed in any::<u64>()) {
        let generator = &mut Generator::new(seed);
        let (offered, cluster) = pair(generator, false);
        let before = version(&offered);
        let mut objects: Vec<Value> = (0..6).map(|_| generator.object(&offered)).collect();
        objects.retain_mut(|object| errors(&before, object).is_empty());
        if let Ok(common) = lowest_common_denominator("v1", &offered, &cluster, &Objects(&objects), &Deadline::never()) {
            let after = definition(&common.schema);
            for object in &objects {
                let problems = check_object(&after, object, &Deadline::never());
                prop_assert!(problems.is_empty(), "{problems:?}\n{object}\n{offered}\n{cluster}");
                prop_assert!(lost_fields(&after.versions()[0].schema, object).is_empty());
            }
        }
    }

    #[test]
    fn any_json_can_be_compared(one in any_json(), other in any_json()) {
        let comparison = compare(&one, &other, &Deadline::never());
        let _ = canonical_text(&comparison.merged);
        let _ = comparison.contradictions.describe("east");
        let root = |schema: &Value| json!({ "type": "object", "properties": { "spec": schema } });
        let wrapped = compare(&root(&one), &root(&other), &Deadline::never());
        prop_assert_eq!(&wrapped, &compare(&root(&one), &root(&other), &Deadline::never()));
        let own = compare(&one, &one, &Deadline::never());
        prop_assert!(own.losses.is_empty() && own.contradictions.is_empty(), "{own:?}");
    }
}
