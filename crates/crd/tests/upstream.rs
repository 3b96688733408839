//! Compares pruning, defaulting and validation of random objects with upstream's code.
//!
//! Upstream's code runs through `upstream/build extension`; without Go the comparison is skipped with a
//! message. Errors are compared as sets, because Go's map iteration has no order.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_crd::{Definition, Origin, Schema, ValidationResult, Version};
use atoll_meta::object::{validate_object_meta, validate_object_meta_update};
use atoll_meta::{Deadline, FieldError, FieldPath, names};
use atoll_upstream::rules::{decorate, plain};
use atoll_upstream::schemas::Generator;
use serde_json::{Value, json};

const SCHEMAS: usize = 1000;
const OBJECTS: usize = 6;
/// Minimum number of identical results per thousand objects.
const FLOOR: usize = 998;

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
        errors.iter().map(|error| plain(&format!("{} {error}", error.kind().reason()))).collect();
    texts.sort();
    texts
}

fn read(schema: &Arc<Schema>, object: &Value) -> Result<(Value, Vec<String>), String> {
    let mut object = object.clone();
    let unknown = schema.read(&mut object, Origin::Request)?;
    let _ = schema.apply_defaults(&mut object);
    Ok((object, unknown))
}

fn atoll_result(case: &Case) -> Value {
    let version = version(&case.schema);
    let (object, unknown) = match read(&version.schema, &case.object) {
        Ok(read) => read,
        Err(message) => return json!({"refused": message}),
    };
    let path = FieldPath::new("metadata");
    let mut create = ValidationResult {
        errors: validate_object_meta(&object, true, names::name_is_dns_subdomain, &path),
        ..ValidationResult::default()
    };
    version.validate_create(&object, &mut create, &Deadline::never());
    let Ok((old, _)) = read(&version.schema, &case.old) else { return json!({"error": "the old object"}) };
    let mut update = ValidationResult {
        errors: validate_object_meta_update(&object, &old, &path),
        ..ValidationResult::default()
    };
    version.validate_update(&object, &old, &mut update, &Deadline::never());
    let mut warnings: Vec<String> = update.warnings.iter().map(|text| plain(text)).collect();
    warnings.sort();
    let mut status = ValidationResult {
        errors: validate_object_meta_update(&object, &old, &path),
        ..ValidationResult::default()
    };
    version.validate_status_update(&object, &old, &mut status, &Deadline::never());
    // As Go encodes it: a float with an integral value has no decimal point.
    let value: Value =
        serde_json::from_str(&atoll_meta::json::to_string(&object)).expect("the encoding is valid JSON");
    json!({
        "unknown": unknown, "value": value, "create": texts(&create.errors), "update": texts(&update.errors),
        "status": texts(&status.errors), "warnings": warnings,
    })
}

/// A sorted list of normalised errors.
fn sorted(value: &Value) -> Value {
    let Some(texts) = value.as_array() else { return value.clone() };
    let mut texts: Vec<String> = texts.iter().map(|text| plain(text.as_str().unwrap_or_default())).collect();
    texts.sort();
    json!(texts)
}

#[test]
fn random_objects_have_the_same_results() {
    let mut generator = Generator::new(atoll_upstream::seed());
    let mut cases = Vec::new();
    for _ in 0..SCHEMAS {
        let mut schema = generator.root();
        if generator.chance(50) {
            decorate(&mut generator, &mut schema);
        }
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
    let Some(answers) = atoll_upstream::ask("extension", questions.iter().cloned()) else { return };
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    let mut differences: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let (mut compared, mut unasked, mut refused, mut otherwise, mut wrong) = (0, 0, 0, 0, 0);
    for (case, upstream) in cases.iter().zip(&answers) {
        if upstream.get("error").is_some() {
            unasked += 1;
            continue;
        }
        compared += 1;
        let atoll = atoll_result(case);
        let mut differs = false;
        refused += usize::from(upstream["create"].as_array().is_some_and(|errors| !errors.is_empty()));
        for part in ["refused", "unknown", "value", "create", "update", "status", "warnings"] {
            let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            let (atoll, upstream) = (
                &atoll[part],
                &if part == "unknown" { upstream[part].clone() } else { sorted(&upstream[part]) },
            );
            if (empty(atoll) && empty(upstream)) || atoll == upstream {
                continue;
            }
            if part == "refused" && atoll.is_string() && upstream.is_string() {
                // Go reports a random one of several reasons.
                otherwise += 1;
                continue;
            }
            differs = true;
            let (count, _) = differences.entry(part).or_insert_with(|| {
                let shown = [("schema", &case.schema), ("object", &case.object), ("old", &case.old)];
                let shown: Vec<String> =
                    shown.iter().map(|(name, value)| format!("{name} {value}")).collect();
                (0, format!("\n  {}\n  upstream {upstream:#}\n  atoll    {atoll:#}", shown.join("\n  ")))
            });
            *count += 1;
        }
        wrong += usize::from(differs);
    }
    println!(
        "{compared} objects compared, {refused} of them refused, {otherwise} refused with another reason, {unasked} with schemas that Go refuses"
    );
    assert!(otherwise < 100, "too many objects were refused with another reason");
    assert!(compared > 10 * unasked, "too few schemas were accepted for a meaningful comparison");
    let shown: Vec<String> =
        differences.iter().map(|(part, (count, text))| format!("{part} ({count} times){text}")).collect();
    println!("{wrong} objects differ\n{}", shown.join("\n"));
    assert!((compared - wrong) * 1000 >= compared * FLOOR, "{wrong} of {compared} objects differ");
}

/// Texts that have, or almost have, some format.
const NEARLY: &[&str] = &[
    "2024-02-29",
    "2023-02-29",
    "2014-12-15T19:30:20.000Z",
    "2014-12-15t19:30:20+01:00",
    "1h2m",
    "22 ns",
    "3 weeks",
    "-1.5h",
    "1.h",
    "YQ==",
    "YWJj",
    "010.0.0.1",
    "10.0.0.0/8",
    "fe80::1",
    "::ffff:1.2.3.4",
    "2001:db8::/32",
    "01:23:45:67:89:ab",
    "0123.4567.89ab",
    "a@b.c",
    "A B <a@b>",
    "\"x y\"@z",
    "a@[127.0.0.1]",
    "g: a@b;",
    "a@b (c)",
    "http://a.b/c?d=%20",
    "mailto:x",
    "/path",
    "http://[::1]:80/",
    "https://user:pw@host:1/%zz",
    "example.com",
    "a-b.cd",
    "é世.com",
    "507f1f77bcf86cd799439011",
    "123e4567-e89b-42d3-a456-426614174000",
    "123e4567e89b12d3a456426614174000",
    "0321751043",
    "978-0321751041",
    "080442957X",
    "4012 8888 8888 1881",
    "378282246310005",
    "111-11-1111",
    "#fff",
    "ABCDEF",
    "rgb(0, 128,255)",
    "a-b",
    "a.b-c",
    "web",
];
const FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "date-time",
    "datetime",
    "k8s-short-name",
    "k8s-long-name",
];
const PATTERNS: &[&str] = &[
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    r"^\d+(\.\d+)?%$",
    r"^(\d+h)?(\d+m)?$",
    r"\bfoo\b",
    r"^\S+@\S+$",
    r"^[\w.-]+/[\w-]+$",
    r"(?i)^[a-f0-9:]+$",
    r"^.{3,10}$",
    r"^[^\s/]+$",
    r"^a{2,}$",
    r"^[[:alpha:]][[:alnum:]_]*$",
    r"^\p{L}+$",
    r"\x41|\.",
    r"^(http|https)://.+$",
    r"^$|^[A-Z]",
    r"[\]\[^-]",
    r"^[+--]+$",
    r"\Qa.b\E",
    r"(?s)^.$",
    r"(?m)^b$",
    r"^\W+$",
    r"\B-",
];
const TEXTS: usize = 400;

#[test]
fn formats_and_patterns_accept_the_same_as_go() {
    let mut generator = Generator::new(atoll_upstream::seed());
    let mut texts: Vec<String> = NEARLY.iter().map(ToString::to_string).collect();
    while texts.len() < TEXTS {
        let mut characters: Vec<char> = NEARLY[generator.below(NEARLY.len())].chars().collect();
        for _ in 0..=generator.below(2) {
            let at = generator.below(characters.len() + 1);
            let signs = [
                'a', 'Z', '0', '9', '.', '-', ':', '@', '/', ' ', '%', 'é', '[', '(', '<', '"', '\\', '\n',
                '+', '_',
            ];
            let sign = signs[generator.below(signs.len())];
            match generator.below(3) {
                0 if at < characters.len() => drop(characters.remove(at)),
                1 if at < characters.len() => characters[at] = sign,
                _ => characters.insert(at, sign),
            }
        }
        texts.push(characters.into_iter().collect());
    }
    let says =
        FORMATS.iter().map(|format| ("format", *format)).chain(PATTERNS.iter().map(|it| ("pattern", *it)));
    let cases: Vec<Case> = says
        .map(|(keyword, text)| {
            let items = json!({"type": "string", keyword: text});
            let values = json!({"type": "array", "items": items});
            let spec = json!({"type": "object", "properties": {"values": values}});
            let object = json!({
                "apiVersion": "example.com/v1", "kind": "Thing",
                "metadata": {"name": "thing", "namespace": "default"}, "spec": {"values": texts},
            });
            let schema = json!({"type": "object", "properties": {"spec": spec}});
            Case { schema, object: object.clone(), old: object }
        })
        .collect();
    let questions: Vec<Value> =
        cases.iter().map(|case| json!({"schema": case.schema, "object": case.object})).collect();
    let Some(answers) = atoll_upstream::ask("extension", questions.iter().cloned()) else { return };
    let mut wrong = Vec::new();
    for (case, upstream) in cases.iter().zip(&answers) {
        let (atoll, upstream) = (atoll_result(case)["create"].clone(), sorted(&upstream["create"]));
        let lines = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().map(ToString::to_string).collect()
        };
        let (atoll, upstream) = (lines(&atoll), lines(&upstream));
        wrong.extend(
            atoll
                .iter()
                .filter(|line| !upstream.contains(line))
                .map(|line| format!("only Atoll refuses {line}")),
        );
        wrong.extend(
            upstream
                .iter()
                .filter(|line| !atoll.contains(line))
                .map(|line| format!("only Go refuses {line}")),
        );
    }
    println!("{} texts compared, {} differ", cases.len() * texts.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
