//! Dynamic resource allocation: ResourceSlices, DeviceClasses, ResourceClaims and their templates.
//!
//! ```text
//! DeviceClass ─┐
//! claim spec ──┴ configuration, selectors       ResourceSlice ─ device ─ capacity
//! claim status ─ allocation, devices
//! ```

// upstream: pkg/apis/resource/validation/validation.go

mod capacity;
mod claim;
mod configuration;
mod device;
mod names;
mod slice;
mod status;

use std::collections::HashSet;
use std::hash::Hash;

use atoll_meta::FieldError;
use atoll_meta::field::BadValue;
use serde_json::{Map, Value};

use crate::field_value::{Errors, FieldValue, equal};
use crate::pod::claim_metadata;
use crate::{Checks, go_json, resources};

pub(crate) static CLASSES: Checks =
    Checks { create: |new| class(new, None), update: |new, old| class(new, Some(old)), ..Checks::NONE };

pub(crate) static CLAIMS: Checks = Checks {
    create: |object| {
        let mut errors = Errors::new();
        claim::check(&mut errors, &FieldValue::field(object, "spec"));
        errors
    },
    // Immutable fields are not checked again.
    update: |new, old| {
        let mut errors = Errors::new();
        let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
        if !equal(spec.value, before.value) {
            let rendered = go_json::value("resource/v1.ResourceClaimSpec", spec.value);
            errors.push(spec.invalid_as(rendered, IMMUTABLE));
        }
        errors
    },
    subresource: |_, new, old| status::check(new, old),
};

pub(crate) static CLAIM_TEMPLATES: Checks = Checks {
    create: template,
    update: |new, old| {
        let mut errors = template(new);
        let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
        if !equal(spec.value, before.value) {
            errors.push(spec.invalid_as(render_template(&spec), IMMUTABLE));
        }
        errors
    },
    ..Checks::NONE
};

pub(crate) static SLICES: Checks = Checks {
    create: |new| slice::check(new, None),
    update: |new, old| slice::check(new, Some(old)),
    ..Checks::NONE
};

const IMMUTABLE: &str = "field is immutable";
const MAX_SELECTORS: usize = 32;
const MAX_CONFIGURATIONS: usize = 32;
/// Maximum number of requests of a claim, and of allocation results.
const MAX_REQUESTS: usize = 32;

fn class(class: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(class, "spec");
    let selectors = spec.get("selectors");
    listed(&mut errors, &selectors, MAX_SELECTORS, configuration::selector);
    let config = spec.get("config");
    let is_stored =
        old.is_some_and(|old| equal(config.value, FieldValue::field(old, "spec").get("config").value));
    listed(&mut errors, &config, MAX_CONFIGURATIONS, |errors, one| {
        configuration::check(errors, one, is_stored);
    });
    let name = spec.get("extendedResourceName");
    if name.is_set() && !resources::is_extended(name.text()) {
        errors.push(name.invalid("must be a valid extended resource name"));
    }
    errors
}

fn template(template: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(template, "spec");
    let metadata = spec.get("metadata");
    claim_metadata(&mut errors, &metadata);
    claim::check(&mut errors, &spec.get("spec"));
    errors
}

/// Renders a template as upstream does: the fields of its metadata are beside those of the template.
fn render_template(template: &FieldValue<'_>) -> BadValue {
    let part = |key: &str, name: &'static str| {
        let part = template.get(name);
        let nothing = Value::Object(Map::new());
        go_json::text(key, if part.is_set() { part.value } else { &nothing })
    };
    let metadata = part("meta/v1.ObjectMeta", "metadata");
    let fields = metadata.strip_suffix('}').unwrap_or(&metadata);
    let comma = if fields == "{" { "" } else { "," };
    let spec = part("resource/v1.ResourceClaimSpec", "spec");
    BadValue::Rendered(format!("{fields}{comma}\"Spec\":{spec}}}"))
}

/// Checks each element, unless the list is too long.
fn listed<'a>(
    errors: &mut Errors,
    list: &FieldValue<'a>,
    most: usize,
    mut check: impl FnMut(&mut Errors, &FieldValue<'a>),
) -> bool {
    if list.len() > most {
        errors.push(FieldError::too_many(&list.path, list.len(), most));
        return false;
    }
    for item in list.items() {
        check(errors, &item);
    }
    true
}

/// Checks that no two elements have the same key.
fn unique<'a, K: Hash + Eq + Clone>(
    errors: &mut Errors,
    list: &FieldValue<'a>,
    key: impl Fn(&FieldValue<'a>) -> K,
    rendered: impl Fn(K) -> BadValue,
) {
    let mut seen = HashSet::with_capacity(list.len());
    for item in list.items() {
        let key = key(&item);
        if !seen.insert(key.clone()) {
            errors.push(FieldError::duplicate(&item.path, rendered(key)));
        }
    }
}

/// Checks each element and that their names are unique.
fn named<'a>(
    errors: &mut Errors,
    list: &FieldValue<'a>,
    most: usize,
    name: &'static str,
    check: impl FnMut(&mut Errors, &FieldValue<'a>),
) {
    if listed(errors, list, most, check) {
        unique(errors, list, |item| item.text_of(name), BadValue::from);
    }
}
