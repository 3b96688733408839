//! Random objects of random schemas: what is dropped, filled in and refused, against the API server's own code.
//!
//! Go answers through `upstream/build extension`; without Go the comparison is skipped and says so. Errors are compared as
//! sets: where Go walks over a map it has no order.

#[path = "upstream/generator.rs"]
mod generator;
#[path = "upstream/go.rs"]
mod go;

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_extension::{Definition, Findings, Origin, Schema, Version};
use atoll_meta::object::{validate_object_meta, validate_object_meta_update};
use atoll_meta::{FieldError, FieldPath, names};
use generator::Generator;
use go::ask;
use serde_json::{Value, json};

const SCHEMAS: usize = 1500;
const OBJECTS: usize = 6;

struct Case {
    schema: Value,
    object: Value,
    old: Value,
}

fn version(schema: &Value) -> Version {
    let scale = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if schema["properties"].get("scaled").is_some() {
        version["subresources"] = json!({"scale": scale});
    }
    let definition = Definition::compile(&json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"}, "versions": [version],
    }}));
    definition.versions()[0].clone()
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    let mut texts: Vec<String> =
        errors.iter().map(|error| format!("{} {error}", error.kind().reason())).collect();
    texts.sort();
    texts
}

fn read(schema: &Arc<Schema>, object: &Value) -> Result<(Value, Vec<String>), String> {
    let mut object = object.clone();
    let unknown = schema.read(&mut object, Origin::Request)?;
    schema.fill(&mut object);
    Ok((object, unknown))
}

fn ours(case: &Case) -> Value {
    let version = version(&case.schema);
    let (object, unknown) = match read(&version.schema, &case.object) {
        Ok(read) => read,
        Err(message) => return json!({"refused": message}),
    };
    let path = FieldPath::new("metadata");
    let mut create = Findings::default();
    create.errors = validate_object_meta(&object, true, names::name_is_dns_subdomain, &path);
    version.validate_create(&object, &mut create);
    let Ok((old, _)) = read(&version.schema, &case.old) else { return json!({"error": "the old object"}) };
    let mut update = Findings::default();
    update.errors = validate_object_meta_update(&object, &old, &path);
    version.validate_update(&object, &old, &mut update);
    let mut status = Findings::default();
    status.errors = validate_object_meta_update(&object, &old, &path);
    version.validate_status_update(&object, &old, &mut status);
    // As Go writes it: a float that is an integer has no point.
    let value: Value =
        serde_json::from_str(&atoll_meta::json::to_string(&object)).expect("what is written is JSON");
    json!({
        "unknown": unknown, "value": value, "create": texts(&create.errors), "update": texts(&update.errors),
        "status": texts(&status.errors),
    })
}

#[test]
fn random_objects_meet_the_same_fate() {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    let mut generator = Generator::new(seed);
    let mut cases = Vec::new();
    for _ in 0..SCHEMAS {
        let schema = generator.root();
        for _ in 0..OBJECTS {
            let old = generator.object(&schema);
            let object = generator.changed(&old, &schema);
            cases.push(Case { schema: schema.clone(), object, old });
        }
    }
    let questions: Vec<Value> = cases
        .iter()
        .map(|case| json!({"schema": case.schema, "object": case.object, "old": case.old}))
        .collect();
    let Some(answers) = ask(&questions) else { return };
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    let mut differences: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let (mut compared, mut unasked, mut refused, mut otherwise) = (0, 0, 0, 0);
    for (case, theirs) in cases.iter().zip(&answers) {
        if theirs.get("error").is_some() {
            unasked += 1;
            continue;
        }
        compared += 1;
        let ours = ours(case);
        refused += usize::from(theirs["create"].as_array().is_some_and(|errors| !errors.is_empty()));
        for part in ["refused", "unknown", "value", "create", "update", "status"] {
            let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let (ours, theirs) = (&ours[part], &theirs[part]);
            if (empty(ours) && empty(theirs)) || ours == theirs {
                continue;
            }
            if part == "refused" && ours.is_string() && theirs.is_string() {
                // Of several reasons Go names the one that it comes across first, which is chance.
                otherwise += 1;
                continue;
            }
            let (count, _) = differences.entry(part).or_insert_with(|| {
                let shown = [("schema", &case.schema), ("object", &case.object), ("old", &case.old)];
                let shown: Vec<String> =
                    shown.iter().map(|(name, value)| format!("{name} {value}")).collect();
                (0, format!("\n  {}\n  go   {theirs:#}\n  ours {ours:#}", shown.join("\n  ")))
            });
            *count += 1;
        }
    }
    println!(
        "{compared} objects compared, {refused} of them refused, {otherwise} not read for another reason, {unasked} of schemas that Go does not take"
    );
    assert!(otherwise < 100, "too many objects were not read for another reason");
    assert!(compared > 10 * unasked, "too few schemas were taken to tell anything");
    let wrong: usize = differences.values().map(|(count, _)| count).sum();
    let shown: Vec<String> =
        differences.iter().map(|(part, (count, text))| format!("{part} ({count} times){text}")).collect();
    assert!(wrong == 0, "{wrong} differences in {compared} objects:\n{}", shown.join("\n"));
}
