//! The selectors of an access review.

// upstream: pkg/apis/authorization/validation/validation.go
// upstream: pkg/registry/authorization/util/helpers.go

use atoll_meta::selector::{FieldSelector, LabelSelector};
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::text;

/// Checks both selectors of `resourceAttributes`. Unknown operators are left to the authorizer.
pub fn check(errors: &mut Vec<FieldError>, attributes: &Value, path: &FieldPath) {
    selector(errors, &attributes["fieldSelector"], &path.child("fieldSelector"), |errors, one, path| {
        if text(one, "key").is_empty() {
            errors.push(FieldError::required(&path.child("key"), "must be specified"));
        }
        count(errors, one, path);
    });
    selector(errors, &attributes["labelSelector"], &path.child("labelSelector"), |errors, one, path| {
        count(errors, one, path);
        let key = text(one, "key");
        broken(errors, &path.child("key"), key, names::qualified_name(key));
        for (index, value) in values(one).iter().filter_map(Value::as_str).enumerate() {
            broken(errors, &path.child("values").index(index), value, names::label_value(value));
        }
    });
}

fn selector(
    errors: &mut Vec<FieldError>,
    selector: &Value,
    path: &FieldPath,
    check: impl Fn(&mut Vec<FieldError>, &Value, &FieldPath),
) {
    if !selector.is_object() {
        return;
    }
    let (raw, list) = (text(selector, "rawSelector"), path.child("requirements"));
    let requirements = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(&path.child("rawSelector"), raw, detail));
        }
        (true, true) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(&list, detail));
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        check(errors, requirement, &list.index(index));
    }
}

/// Checks that operators have values as required.
fn count(errors: &mut Vec<FieldError>, requirement: &Value, path: &FieldPath) {
    let path = path.child("values");
    match (text(requirement, "operator"), values(requirement).is_empty()) {
        ("In" | "NotIn", true) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path, detail));
        }
        ("Exists" | "DoesNotExist", false) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path, detail));
        }
        _ => {}
    }
}

fn broken(errors: &mut Vec<FieldError>, path: &FieldPath, value: &str, rules: Vec<String>) {
    errors.extend(rules.into_iter().map(|rule| FieldError::invalid(path, value, rule)));
}

fn values(requirement: &Value) -> &[Value] {
    requirement["values"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns an error about selectors that the authorizer ignores.
pub fn evaluation_error(attributes: &Value) -> Option<String> {
    let ignored = |name: &str, parses: fn(&str) -> bool, is_known: fn(&Value) -> bool| {
        let selector = &attributes[name];
        let (raw, requirements) = (text(selector, "rawSelector"), selector["requirements"].as_array());
        let requirements = requirements.map_or(&[][..], Vec::as_slice);
        let known = requirements.iter().filter(|requirement| is_known(requirement)).count();
        let broken = known < requirements.len() || (!raw.is_empty() && !parses(raw));
        let how_much = if known > 0 { "partially ignored" } else { "ignored" };
        broken.then(|| format!("spec.resourceAttributes.{name} {how_much} due to parse error"))
    };
    let fields = ignored(
        "fieldSelector",
        |raw| FieldSelector::parse(raw).is_ok(),
        |requirement| {
            matches!(text(requirement, "operator"), "In" | "NotIn") && values(requirement).len() == 1
        },
    );
    let labels = ignored(
        "labelSelector",
        |raw| LabelSelector::parse(raw).is_ok(),
        |requirement| matches!(text(requirement, "operator"), "In" | "NotIn" | "Exists" | "DoesNotExist"),
    );
    let all: Vec<String> = fields.into_iter().chain(labels).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
#[test]
fn selectors_are_checked() {
    use serde_json::json;

    let found = |attributes: Value| {
        let mut errors = Vec::new();
        check(&mut errors, &attributes, &FieldPath::new("a"));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let fields = |list: Value| found(json!({ "fieldSelector": { "requirements": list } }));
    let labels = |list: Value| found(json!({ "labelSelector": { "requirements": list } }));
    let wanted = "must be specified when `operator` is 'In' or 'NotIn'";
    let unwanted = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
    assert!(found(json!({ "verb": "list" })).is_empty());
    for name in ["fieldSelector", "labelSelector"] {
        assert!(found(json!({ name: { "rawSelector": "a=b" } })).is_empty());
        assert_eq!(
            found(json!({ name: {} })),
            [format!(
                "a.{name}.requirements: Required value: when a.{name} is specified, requirements or rawSelector is required"
            )]
        );
        let both = json!({ "rawSelector": "a=b", "requirements": [{ "key": "a", "operator": "Exists" }] });
        assert_eq!(
            found(json!({ name: both })),
            [format!(
                "a.{name}.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements"
            )]
        );
    }
    assert!(fields(json!([{ "key": "!", "operator": "New", "values": ["!"] }])).is_empty());
    assert!(labels(json!([{ "key": "a", "operator": "New", "values": ["b"] }])).is_empty());
    assert_eq!(
        fields(json!([{ "operator": "In" }, { "key": "a", "operator": "Exists", "values": ["b"] }])),
        [
            "a.fieldSelector.requirements[0].key: Required value: must be specified".to_owned(),
            format!("a.fieldSelector.requirements[0].values: Required value: {wanted}"),
            format!("a.fieldSelector.requirements[1].values: Forbidden: {unwanted}"),
        ]
    );
    let refused = labels(json!([{ "key": "a!", "operator": "NotIn" }, { "key": "b", "values": ["x!"] }]));
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert_eq!(refused[0], format!("a.labelSelector.requirements[0].values: Required value: {wanted}"));
    assert!(refused[1].starts_with("a.labelSelector.requirements[0].key: Invalid value: \"a!\": name part"));
    assert!(
        refused[2].starts_with("a.labelSelector.requirements[1].values[0]: Invalid value: \"x!\": a valid")
    );
}
