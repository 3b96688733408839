//! PersistentVolumeClaims.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::{Map, Value};

use crate::Checks;
use crate::field_value::{Errors, FieldValue, equal, immutable};
use crate::internal::unified;
use crate::{go_json, quantities, selectors, volume};

pub(crate) static CLAIMS: Checks = Checks {
    create: |claim| {
        let mut errors = Errors::new();
        spec(&mut errors, &FieldValue::field(claim, "spec"), &ValidationOptions::default());
        errors
    },
    update,
    subresource: |name, new, _| if name == "status" { status(new) } else { Errors::new() },
};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Validation that is relaxed because the old object already violates it.
#[derive(Default)]
pub(crate) struct ValidationOptions {
    pub selector_values: bool,
    pub source_group: bool,
}

impl ValidationOptions {
    fn for_update(old: &Value) -> ValidationOptions {
        let spec = FieldValue::field(old, "spec");
        let selector = spec.get("selector");
        let has_group = |field| spec.get(field).has("apiGroup");
        ValidationOptions {
            selector_values: selector.is_set()
                && !object::validate_label_selector(selector.value, &selector.path).is_empty(),
            source_group: has_group("dataSource") || has_group("dataSourceRef"),
        }
    }
}

pub(crate) fn spec(errors: &mut Errors, spec: &FieldValue<'_>, options: &ValidationOptions) {
    let modes = spec.get("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    let selector = spec.get("selector");
    if selector.is_set() {
        selectors::check(errors, &selector, options.selector_values);
    }
    volume::access_modes(errors, &modes);
    let resources = spec.get("resources");
    let storage = resources.get("requests").get("storage").with_path(resources.path.key("storage"));
    if storage.is_set() {
        quantities::positive(errors, &storage);
    } else {
        errors.push(storage.required(""));
    }
    let class = spec.get("storageClassName");
    if !class.is_empty() {
        class.rules(errors, names::dns1123_subdomain(class.text()));
    }
    let mode = spec.get("volumeMode");
    if mode.is_set() && !volume::MODES.contains(&mode.text()) {
        errors.push(mode.unsupported(volume::MODES));
    }
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    data_source(errors, &source, options);
    data_source(errors, &reference, options);
    let namespace = reference.get("namespace");
    if !namespace.is_empty() {
        namespace.rules(errors, names::dns1123_label(namespace.text()));
    }
    if source.is_set() && reference.is_set() {
        let parts = ["apiGroup", "kind", "name"];
        let detail = if !namespace.is_empty() {
            Some("may not be specified when dataSourceRef.namespace is specified")
        } else if parts.iter().any(|part| source.get(part).value != reference.get(part).value) {
            Some("must match dataSourceRef")
        } else {
            None
        };
        // Upstream passes the path as the value, which renders as `{}`.
        errors.extend(detail.map(|detail| spec.invalid_as(BadValue::Rendered("{}".to_owned()), detail)));
    }
    let class = spec.get("volumeAttributesClassName");
    if !class.is_empty() {
        class.rules(errors, names::dns1123_subdomain(class.text()));
    }
}

fn data_source(errors: &mut Errors, source: &FieldValue<'_>, options: &ValidationOptions) {
    if !source.is_set() {
        return;
    }
    let (name, kind, group) = (source.get("name"), source.get("kind"), source.get("apiGroup"));
    errors.extend([&name, &kind].into_iter().filter(|part| part.is_empty()).map(|part| part.required("")));
    if group.is_empty() && kind.text() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_as(kind.text(), detail));
    }
    if !group.is_empty() && !options.source_group {
        group.rules(errors, names::dns1123_subdomain(group.text()));
    }
}

fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    self::spec(&mut errors, &spec, &ValidationOptions::for_update(old));
    let classes = [new, old].map(|claim| object::annotation(claim, BETA_CLASS));
    let [name, old_name] = [&spec, &before].map(|spec| spec.get("storageClassName").optional_text());
    // A class may move from the annotation to the field, and a claim without a class may get one.
    let from_annotation = classes[1].is_some()
        && old_name.is_none()
        && name == classes[1]
        && (classes[0].is_none() || classes[0] == classes[1]);
    let from_nothing = name.is_some() && old_name.is_none() && (classes[1].is_none() || name == classes[1]);
    if !from_annotation && classes[0].unwrap_or_default() != classes[1].unwrap_or_default() {
        let path = FieldPath::new("metadata").child("annotations").child(BETA_CLASS);
        errors.push(FieldError::invalid(&path, classes[0].unwrap_or_default(), "field is immutable"));
    }
    let bound = FieldValue::field(new, "status").text_of("phase") == "Bound";
    let may_differ = |field: &str| match field {
        "volumeName" => before.text_of("volumeName").is_empty(),
        "storageClassName" => from_annotation || from_nothing,
        "volumeAttributesClassName" => bound,
        _ => false,
    };
    if !same(&spec, &before, &may_differ, bound) {
        errors.push(spec.forbidden(format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
            difference(&spec, &before, &may_differ, bound)
        )));
    }
    let storage = |at: &FieldValue<'_>| {
        at.quantity_of("storage").unwrap_or_else(|| {
            atoll_meta::quantity::Quantity::new(0, atoll_meta::quantity::Format::DecimalSi)
        })
    };
    let requests = spec.get("resources").get("requests");
    let (size, old_size) = (storage(&requests), storage(&before.get("resources").get("requests")));
    if size < old_size && size <= storage(&FieldValue::field(old, "status").get("capacity")) {
        errors.push(requests.get("storage").forbidden("field can not be less than status.capacity"));
    }
    let mode = spec.get("volumeMode").with_path(FieldPath::new("volumeMode"));
    immutable(&mut errors, &mode, &before.get("volumeMode"));
    let class = spec.get("volumeAttributesClassName");
    if class.value != before.get("volumeAttributesClassName").value
        && FieldValue::field(old, "status").has("currentVolumeAttributesClassName")
        && class.is_empty()
    {
        let to = if class.is_set() { "empty string" } else { "nil" };
        errors.push(class.forbidden(format!(
            "update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
        )));
    }
    errors
}

fn fields<'a>(spec: &FieldValue<'a>, old: &FieldValue<'a>) -> Vec<&'a str> {
    let mut fields: Vec<&str> = spec.keys().chain(old.keys()).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

fn same(spec: &FieldValue<'_>, old: &FieldValue<'_>, may_differ: &dyn Fn(&str) -> bool, bound: bool) -> bool {
    let (resources, old_resources) = (spec.get("resources"), old.get("resources"));
    fields(spec, old).into_iter().all(|field| {
        let [new, old] = [spec, old].map(|at| at.value.get(field).unwrap_or(&Value::Null));
        equal(new, old)
            || may_differ(field)
            || (field == "resources" && same_resources(&resources, &old_resources, bound))
    })
}

fn same_resources(new: &FieldValue<'_>, old: &FieldValue<'_>, bound: bool) -> bool {
    let bound = bound && new.has("requests");
    ["limits", "requests"].iter().all(|list| {
        let (new, old) = (new.get(list), old.get(list));
        new.keys().chain(old.keys()).all(|key| {
            (bound && *list == "requests" && key == "storage") || new.quantity_of(key) == old.quantity_of(key)
        })
    })
}

/// Returns the diff of the specs, without the fields that may differ.
fn difference(
    spec: &FieldValue<'_>,
    old: &FieldValue<'_>,
    may_differ: &dyn Fn(&str) -> bool,
    bound: bool,
) -> String {
    let mut new = spec.value.clone();
    let mut before = old.value.clone();
    if let (Some(new), Some(before)) = (new.as_object_mut(), before.as_object_mut()) {
        // Upstream copies the volume name to the old spec and all other fields to the new one.
        let take = |to: &mut Map<String, Value>, from: &Map<String, Value>, field: &str| match from.get(field)
        {
            Some(value) => drop(to.insert(field.to_owned(), value.clone())),
            None => drop(to.remove(field)),
        };
        if may_differ("volumeName") {
            take(before, new, "volumeName");
        }
        for field in
            ["storageClassName", "volumeAttributesClassName"].into_iter().filter(|field| may_differ(field))
        {
            take(new, before, field);
        }
        let storage = before.get("resources").and_then(|resources| resources.get("requests")?.get("storage"));
        if let Some(storage) = storage.cloned()
            && bound
            && let Some(requests) =
                new.get_mut("resources").and_then(|resources| resources.get_mut("requests"))
        {
            requests["storage"] = storage;
        }
    }
    let lines = |spec: &Value| go_json::lines(&go_json::text("core/v1.PersistentVolumeClaimSpec", spec));
    unified::difference(&lines(&before), &lines(&new))
}

const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

fn status(claim: &Value) -> Errors {
    let mut errors = Errors::new();
    if FieldValue::field(claim, "spec").get("accessModes").is_empty() {
        errors.push(FieldError::required(&FieldPath::new("Spec").child("accessModes"), ""));
    }
    let status = FieldValue::field(claim, "status");
    for (_, amount) in status.get("capacity").entries() {
        quantities::basic(&mut errors, &amount);
    }
    let statuses = status.get("allocatedResourceStatuses");
    for (key, value) in statuses.entries() {
        resource_key(&mut errors, &statuses, key);
        if !RESIZES.contains(&value.text()) {
            errors.push(FieldError::not_supported(&statuses.path, BadValue::named_text(key), RESIZES));
        }
    }
    let allocated = status.get("allocatedResources");
    for (key, amount) in allocated.entries() {
        if resource_key(&mut errors, &allocated, key) {
            let before = errors.len();
            quantities::basic(&mut errors, &amount);
            if errors.len() == before {
                quantities::not_negative(&mut errors, &amount);
            }
        }
    }
    errors
}

/// Checks the key of a resource status. Returns whether it is valid.
fn resource_key(errors: &mut Errors, field: &FieldValue<'_>, key: &str) -> bool {
    let broken = names::qualified_name(key);
    let native = !key.contains('/') || key.contains("kubernetes.io/");
    let good = broken.is_empty() && (!native || key == "storage");
    if broken.is_empty() && !good {
        errors.push(FieldError::not_supported(&field.path, key, &["storage"]));
    }
    errors.extend(broken.into_iter().map(|rule| field.invalid_as(key, rule)));
    good
}
