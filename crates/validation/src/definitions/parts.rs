//! Names, subresources and columns of a definition.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go

use atoll_meta::names;

use crate::field_value::{Errors, FieldValue};

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn resource_names(errors: &mut Errors, names: &FieldValue<'_>) {
    let mut label = |at: &FieldValue<'_>, text: &str, intro: &str| {
        let broken = names::dns1035_label(text);
        if !broken.is_empty() {
            errors.push(at.invalid_as(at.text(), format!("{intro}{}", broken.join(","))));
        }
    };
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = names.get(field);
        if name.is_empty() {
            continue;
        }
        match field {
            "plural" | "singular" => label(&name, name.text(), ""),
            _ => {
                let intro = "may have mixed case, but should otherwise match: ";
                label(&name, &name.text().to_lowercase(), intro);
            }
        }
    }
    names.get("shortNames").items().for_each(|name| label(&name, name.text(), ""));
    let (kind, list) = (names.text_of("kind"), names.get("listKind"));
    if !kind.is_empty() && kind == list.text() {
        errors.push(list.invalid("kind and listKind may not be the same"));
    }
    for category in names.get("categories").items() {
        let broken = names::dns1035_label(category.text());
        if !broken.is_empty() {
            errors.push(category.invalid(broken.join(",")));
        }
    }
}

fn json_path(errors: &mut Errors, field: &FieldValue<'_>) -> bool {
    let good = field.text().starts_with('.');
    if !good {
        errors.push(field.invalid("must be a simple json path starting with ."));
    }
    good
}

pub(super) fn subresources(errors: &mut Errors, at: &FieldValue<'_>) {
    let scale = at.get("scale");
    if !scale.is_set() {
        return;
    }
    let paths = [
        ("specReplicasPath", "scale.specReplicasPath", ".spec."),
        ("statusReplicasPath", "scale.statusReplicasPath", ".status."),
    ];
    for (field, upstream_name, prefix) in paths {
        let path = scale.get(field).with_path(at.path.child(upstream_name));
        if path.is_empty() {
            errors.push(path.required(""));
        } else if json_path(errors, &path) && !path.text().starts_with(prefix) {
            errors
                .push(path.invalid(format!("should be a json path under {}", prefix.trim_end_matches('.'))));
        }
    }
    let path = scale.get("labelSelectorPath").with_path(at.path.child("scale.labelSelectorPath"));
    if !path.is_empty()
        && json_path(errors, &path)
        && ![".spec.", ".status."].iter().any(|prefix| path.text().starts_with(prefix))
    {
        errors.push(path.invalid_as(path.named(), "should be a json path under either .spec or .status"));
    }
}

pub(super) fn column(errors: &mut Errors, column: &FieldValue<'_>) {
    let (name, kind, format) = (column.get("name"), column.get("type"), column.get("format"));
    if name.is_empty() {
        errors.push(name.required(""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        errors.push(kind.required(types));
    } else if !COLUMN_TYPES.contains(&kind.text()) {
        errors.push(kind.invalid(types));
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format.text()) {
        errors.push(format.invalid(format!("must be one of {}", COLUMN_FORMATS.join(","))));
    }
    // The internal type spells the field differently.
    let path = column.get("jsonPath").with_path(column.path.child("JSONPath"));
    if path.is_empty() {
        errors.push(path.required(""));
    } else {
        json_path(errors, &path);
    }
}
