//! Devices of nodes: what there is (slices), what kinds of it (classes), and who wants and has which (claims).
//!
//! ```text
//! DeviceClass ─┐
//! claim spec ──┴ configuration, selectors       ResourceSlice ─ device ─ capacity
//! claim status ─ allocation, devices
//! ```

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

use crate::at::{At, Errors, equal};
use crate::pod::claim_metadata;
use crate::{Checks, resources, shown};

pub(crate) static CLASSES: Checks =
    Checks { create: |new| class(new, None), update: |new, old| class(new, Some(old)), ..Checks::NONE };

pub(crate) static CLAIMS: Checks = Checks {
    create: |object| {
        let mut errors = Errors::new();
        claim::check(&mut errors, &At::field(object, "spec"));
        errors
    },
    // What cannot have changed is not looked at again.
    update: |new, old| {
        let mut errors = Errors::new();
        let (spec, before) = (At::field(new, "spec"), At::field(old, "spec"));
        if !equal(spec.value, before.value) {
            let shown = shown::value("resource/v1.ResourceClaimSpec", spec.value);
            errors.push(spec.invalid_as(shown, IMMUTABLE));
        }
        errors
    },
    subresource: |_, new, old| status::check(new, old),
};

pub(crate) static CLAIM_TEMPLATES: Checks = Checks {
    create: template,
    update: |new, old| {
        let mut errors = template(new);
        let (spec, before) = (At::field(new, "spec"), At::field(old, "spec"));
        if !equal(spec.value, before.value) {
            errors.push(spec.invalid_as(shown_template(&spec), IMMUTABLE));
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
const MOST_SELECTORS: usize = 32;
const MOST_CONFIGURATIONS: usize = 32;
/// Devices that one claim can ask for or be given.
const MOST_REQUESTS: usize = 32;

fn class(class: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = At::field(class, "spec");
    let selectors = spec.get("selectors");
    listed(&mut errors, &selectors, MOST_SELECTORS, configuration::selector);
    let config = spec.get("config");
    let is_stored = old.is_some_and(|old| equal(config.value, At::field(old, "spec").get("config").value));
    listed(&mut errors, &config, MOST_CONFIGURATIONS, |errors, one| {
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
    let spec = At::field(template, "spec");
    let metadata = spec.get("metadata");
    claim_metadata(&mut errors, metadata.value, &metadata.path);
    claim::check(&mut errors, &spec.get("spec"));
    errors
}

/// A template as upstream shows it: the fields of its metadata are beside those of the template.
fn shown_template(template: &At<'_>) -> BadValue {
    let part = |key: &str, name: &'static str| {
        let part = template.get(name);
        let nothing = Value::Object(Map::new());
        shown::text(key, if part.is_set() { part.value } else { &nothing })
    };
    let metadata = part("meta/v1.ObjectMeta", "metadata");
    let fields = metadata.strip_suffix('}').unwrap_or(&metadata);
    let comma = if fields == "{" { "" } else { "," };
    let spec = part("resource/v1.ResourceClaimSpec", "spec");
    BadValue::Rendered(format!("{fields}{comma}\"Spec\":{spec}}}"))
}

/// Checks each element, unless there are too many of them to look at.
fn listed<'a>(
    errors: &mut Errors,
    list: &At<'a>,
    most: usize,
    mut check: impl FnMut(&mut Errors, &At<'a>),
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

/// No two elements have the same key.
fn unique<'a, K: Hash + Eq + Clone>(
    errors: &mut Errors,
    list: &At<'a>,
    key: impl Fn(&At<'a>) -> K,
    shown: impl Fn(K) -> BadValue,
) {
    let mut seen = HashSet::with_capacity(list.len());
    for item in list.items() {
        let key = key(&item);
        if !seen.insert(key.clone()) {
            errors.push(FieldError::duplicate(&item.path, shown(key)));
        }
    }
}

/// Elements of which each has a name of its own.
fn named<'a>(
    errors: &mut Errors,
    list: &At<'a>,
    most: usize,
    name: &'static str,
    check: impl FnMut(&mut Errors, &At<'a>),
) {
    if listed(errors, list, most, check) {
        unique(errors, list, |item| item.text_of(name), BadValue::from);
    }
}
