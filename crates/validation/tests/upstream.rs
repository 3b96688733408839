//! Compares the validation of random CustomResourceDefinitions with the API server's own code.
//!
//! Go runs through `upstream/build extension`; without Go the comparison is skipped with a message. Errors
//! are compared as sets, because Go iterates over maps in random order.

#[path = "upstream/definitions.rs"]
mod definitions;

use std::collections::BTreeMap;

use atoll_meta::object::{validate_object_meta, validate_object_meta_update};
use atoll_meta::{FieldError, FieldPath, names};
use atoll_schema::{Types, decode};
use atoll_upstream::rules::plain;
use atoll_upstream::schemas::Generator;
use serde_json::{Value, json};

const DEFINITIONS: usize = 2500;
/// Minimum number of definitions out of a thousand for which all errors are identical.
const FLOOR: usize = 995;

/// Returns the definition as the server decodes it.
fn read(definition: &Value) -> Option<Value> {
    let types = Types::get();
    let id = types.by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")?;
    decode(types, id, definition.to_string().as_bytes()).ok().map(|decoded| decoded.value)
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    let mut texts: Vec<String> =
        errors.iter().map(|error| plain(&format!("{} {error}", error.kind().reason()))).collect();
    texts.sort();
    texts
}

fn validation_errors(definition: &Value, before: Option<&Value>) -> Vec<String> {
    let checks = atoll_validation::checks_for("apiextensions.k8s.io", "customresourcedefinitions");
    let path = FieldPath::new("metadata");
    let mut errors;
    match before {
        None => {
            errors = validate_object_meta(definition, false, names::name_is_dns_subdomain, &path);
            errors.extend((checks.create)(definition));
        }
        Some(before) => {
            errors = validate_object_meta_update(definition, before, &path);
            errors.extend((checks.update)(definition, before));
        }
    }
    texts(&errors)
}

#[test]
fn random_definitions_are_validated_as_upstream() {
    let mut generator = Generator::new(atoll_upstream::seed());
    let mut cases = Vec::new();
    for _ in 0..DEFINITIONS {
        let before = definitions::definition(&mut generator);
        let definition = definitions::changed(&mut generator, &before);
        let before = generator.chance(40).then_some(before);
        cases.push((definition, before));
    }
    let questions: Vec<Value> = cases
        .iter()
        .map(|(definition, before)| match before {
            None => json!({"definition": definition}),
            Some(before) => json!({"definition": definition, "before": before}),
        })
        .collect();
    let Some(results) = atoll_upstream::ask("extension", questions.iter().cloned()) else { return };
    assert_eq!(results.len(), questions.len(), "one result per definition");
    let mut differences: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let (mut compared, mut refused, mut wrong, mut verdicts) = (0, 0, 0, 0);
    for ((definition, before), result) in cases.iter().zip(&results) {
        if result.get("error").is_some() {
            continue;
        }
        let Some(mut definition) = read(definition) else { continue };
        let mut before = before.as_ref().and_then(read);
        if let Some(before) = &mut before {
            let versions = before["spec"]["versions"].as_array().into_iter().flatten();
            let stored: Vec<Value> = versions
                .filter(|version| version["storage"] == true)
                .map(|version| version["name"].clone())
                .collect();
            before["status"]["storedVersions"] = json!(stored);
            definition["status"] = before["status"].clone();
        }
        compared += 1;
        let mut expected: Vec<String> = result["definition"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|text| plain(text.as_str().unwrap_or_default()))
            .collect();
        expected.sort();
        let validation_errors = validation_errors(&definition, before.as_ref());
        refused += usize::from(!expected.is_empty());
        verdicts += usize::from(validation_errors.is_empty() != expected.is_empty());
        if validation_errors == expected {
            continue;
        }
        wrong += 1;
        let missing: Vec<&String> =
            expected.iter().filter(|text| !validation_errors.contains(text)).collect();
        let surplus: Vec<&String> =
            validation_errors.iter().filter(|text| !expected.contains(text)).collect();
        let key = missing.first().or(surplus.first()).map_or("order", |text| text.as_str());
        let key: String = key.rsplit(": ").next().unwrap_or(key).chars().take(60).collect();
        let (count, _) = differences.entry(key).or_insert_with(|| {
            (0, format!("\n  missing {missing:#?}\n  surplus {surplus:#?}\n  of {definition}"))
        });
        *count += 1;
    }
    println!(
        "{compared} definitions compared, {refused} refused, {wrong} differ, {verdicts} of them in the verdict"
    );
    for (key, (count, text)) in &differences {
        println!("{count} times {key}{text}");
    }
    assert!(compared * 10 > DEFINITIONS * 9, "too few definitions were compared");
    assert!((compared - wrong) * 1000 >= compared * FLOOR, "{wrong} of {compared} definitions differ");
}
