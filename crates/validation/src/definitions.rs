//! CustomResourceDefinitions.
//!
//! ```text
//! definitions ─ names, versions, conversion
//!      ├ top_level   fields that all versions share are hoisted above them, as in upstream's internal type
//!      ├ parts       names, subresources, columns
//!      ├ schema      fields of a schema
//!      │   ├ extensions  Kubernetes' extensions of schemas
//!      │   └ expressions compilation and cost of CEL rules
//!      └ structural  whether the schema is structural
//! ```

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go

mod expressions;
mod extensions;
mod parts;
mod schema;
mod structural;
mod top_level;

use std::collections::{BTreeMap, HashSet};

use atoll_crd::limits;
use atoll_meta::field::BadValue;
use atoll_meta::quote::is_print;
use atoll_meta::{Deadline, FieldError, FieldPath, names, object};
use serde_json::Value;

use parts::{resource_names, subresources};
use schema::ValidationOptions;
use top_level::TopLevelFields;

use crate::field_value::{Errors, FieldValue, immutable_name, immutable_text};
use crate::{Checks, SlowChecks};
use crate::{go_json, webhooks};

pub(crate) static DEFINITIONS: Checks = Checks {
    create: |new| create(new, &Deadline::never()),
    update: |new, old| update(new, old, &Deadline::never()),
    subresource,
};
pub(crate) static SLOW: SlowChecks = SlowChecks { create, update };

const APPROVED: &str = "api-approved.kubernetes.io";
const REVIEWS: &[&str] = &["v1", "v1beta1"];
const MAX_WARNING_LENGTH: usize = 256;

fn create(definition: &Value, deadline: &Deadline<'_>) -> Errors {
    let mut errors = Errors::new();
    let field = FieldValue::field(definition, "spec");
    let (name, expected) = (
        object::name(definition),
        format!("{}.{}", field.get("names").text_of("plural"), field.text_of("group")),
    );
    if !name.is_empty() && name != expected {
        let path = FieldPath::new("metadata").child("name");
        errors.push(FieldError::invalid(&path, name, "must be spec.names.plural+\".\"+spec.group"));
    }
    spec(&mut errors, &field, &ValidationOptions::all(deadline), true);
    status_and_approval(&mut errors, definition, None);
    errors
}

fn update(new: &Value, old: &Value, deadline: &Deadline<'_>) -> Errors {
    let mut errors = Errors::new();
    let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    let options = ValidationOptions::for_update(&spec, &before, deadline);
    let reviews = before.get("conversion").get("webhook").get("conversionReviewVersions");
    let known = reviews.is_empty() || reviews.texts().any(|version| REVIEWS.contains(&version));
    self::spec(&mut errors, &spec, &options, known);
    let established = FieldValue::field(old, "status")
        .get("conditions")
        .items()
        .any(|condition| condition.text_of("type") == "Established" && condition.text_of("status") == "True");
    if established {
        immutable_name(&mut errors, &spec.get("scope"), &before.get("scope"));
        immutable_text(&mut errors, &spec.get("names").get("kind"), &before.get("names").get("kind"));
    }
    immutable_text(&mut errors, &spec.get("group"), &before.get("group"));
    immutable_text(&mut errors, &spec.get("names").get("plural"), &before.get("names").get("plural"));
    status_and_approval(&mut errors, new, Some(old));
    errors
}

fn subresource(name: &str, new: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    if name == "status" {
        resource_names(&mut errors, &FieldValue::field(new, "status").get("acceptedNames"));
    }
    errors
}

/// Checks everything after the spec: the status, the approval of protected groups, and pruning.
fn status_and_approval(errors: &mut Errors, definition: &Value, old: Option<&Value>) {
    let (spec, status) = (FieldValue::field(definition, "spec"), FieldValue::field(definition, "status"));
    resource_names(errors, &status.get("acceptedNames"));
    stored_versions(errors, &spec, &status.get("storedVersions"));
    approval(errors, definition, old);
    let preserve = spec.get("preserveUnknownFields");
    let did = old.is_some_and(|old| FieldValue::field(old, "spec").get("preserveUnknownFields").flag());
    if preserve.flag() && !did {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(preserve.invalid(detail));
    }
}

/// Checks the stored versions. The server has already added the current storage version.
fn stored_versions(errors: &mut Errors, spec: &FieldValue<'_>, stored: &FieldValue<'_>) {
    let versions = spec.get("versions");
    let mut names: Vec<&str> = stored.texts().collect();
    let used = versions.items().find(|version| version.get("storage").flag());
    if let Some(used) = used.as_ref().map(|version| version.text_of("name"))
        && !names.contains(&used)
    {
        names.push(used);
    }
    if names.is_empty() {
        errors.push(stored.invalid_as(Value::Null, "must have at least one stored version"));
        return;
    }
    let list: Vec<Value> = names.iter().map(|name| Value::from(*name)).collect();
    let mut missing: BTreeMap<&str, usize> =
        names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
    for version in versions.items() {
        let name = version.text_of("name");
        // Upstream removes a name from the set once it has seen it.
        if missing.remove(name).is_none() && version.get("storage").flag() {
            errors.push(stored.invalid_as(list.clone(), format!("must have the storage version {name}")));
        }
    }
    for (name, index) in missing {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(&stored.path.index(index), name, detail));
    }
}

#[derive(PartialEq)]
enum Approval {
    Missing,
    Given,
    Invalid,
}

fn approval(errors: &mut Errors, definition: &Value, old: Option<&Value>) {
    let group = FieldValue::field(definition, "spec").text_of("group");
    let protected =
        |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !protected("k8s.io") && !protected("kubernetes.io") {
        return;
    }
    let state = |definition: &Value| {
        let text = object::annotation(definition, APPROVED).unwrap_or_default();
        let is_url = text
            .split_once("://")
            .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'));
        match text {
            "" => Approval::Missing,
            _ if text.starts_with("unapproved") || is_url => Approval::Given,
            _ => Approval::Invalid,
        }
    };
    let now = state(definition);
    if old.is_some_and(|old| state(old) == now) {
        return;
    }
    let path = FieldPath::new("metadata").child("annotations").key(APPROVED);
    let begin = format!("protected groups must have approval annotation \"{APPROVED}\"");
    let end = "see https://github.com/kubernetes/enhancements/pull/1111";
    match now {
        Approval::Missing => errors.push(FieldError::required(&path, format!("{begin}, {end}"))),
        Approval::Invalid => {
            let text = object::annotation(definition, APPROVED).unwrap_or_default();
            let detail = format!("{begin} with either a URL or a reason starting with \"unapproved\", {end}");
            errors.push(FieldError::invalid(&path, text, detail));
        }
        Approval::Given => {}
    }
}

fn spec(errors: &mut Errors, spec: &FieldValue<'_>, options: &ValidationOptions<'_>, known_reviews: bool) {
    // A definition that is too large to be compiled is not validated further.
    if !options.large
        && let Err(error) = compiled_size(spec)
    {
        errors.push(error);
        return;
    }
    let group = spec.get("group");
    let broken = names::dns1123_subdomain(group.text());
    if group.is_empty() {
        errors.push(group.required(""));
    } else if !broken.is_empty() {
        errors.push(group.invalid(broken.join(",")));
    } else if !group.text().contains('.') {
        errors.push(group.invalid("should be a domain with at least one dot"));
    }
    one_of_strings(errors, &spec.get("scope"), &["Cluster", "Namespaced"]);
    let top_level = TopLevelFields::of(spec);
    let preserves = spec.get("preserveUnknownFields").flag();
    let versions = spec.get("versions");
    if top_level.schema.is_none_or(|schema| schema.get("openAPIV3Schema").is_none()) {
        for version in versions.items() {
            let schema = version.get("schema").get("openAPIV3Schema");
            if !schema.is_set() && options.schemas {
                errors.push(schema.required(""));
            } else if !schema.is_set() && !preserves && version.get("served").flag() {
                errors.push(schema.required("because otherwise all fields are pruned"));
            }
        }
    }
    if preserves && schema::any(spec, &|schema| schema.keys().any(|field| field == "default")) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(spec.get("preserveUnknownFields").invalid(detail));
    }
    let structural = options.structural || !preserves || schema::any(spec, &schema::needs_structure);
    let mut seen = HashSet::new();
    let mut unique = true;
    for version in versions.items() {
        let name = version.get("name");
        unique &= seen.insert(name.text());
        let broken = names::dns1035_label(name.text());
        if !broken.is_empty() {
            errors.push(name.invalid_as(name.text(), broken.join(",")));
        }
        self::version(errors, &version, &top_level, options, structural);
    }
    if !unique {
        errors.push(
            versions.invalid_as(top_level.render_versions(&versions), "must contain unique version names"),
        );
    }
    if versions.items().filter(|version| version.get("storage").flag()).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(versions.invalid_as(top_level.render_versions(&versions), detail));
    }
    if let Some(first) =
        versions.items().next().map(|version| version.text_of("name")).filter(|name| !name.is_empty())
    {
        let broken = names::dns1035_label(first);
        if !broken.is_empty() {
            errors.push(FieldError::invalid(&spec.path.child("version"), first, broken.join(",")));
        }
    }
    let names = spec.get("names");
    let missing = ["plural", "singular", "kind", "listKind"].into_iter().map(|field| names.get(field));
    errors.extend(missing.filter(FieldValue::is_empty).map(|field| field.required("")));
    resource_names(errors, &names);
    let status = versions.items().any(|version| version.get("subresources").has("status"));
    let shared = FieldValue::under(top_level.schema, spec.path.child("validation"));
    let first = versions.items().next().map_or("", |version| version.text_of("name"));
    schema::check(errors, &shared, status, options, structural, first);
    subresources(errors, &FieldValue::under(top_level.subresources, spec.path.child("subresources")));
    for column in FieldValue::under(top_level.columns, spec.path.child("additionalPrinterColumns")).items() {
        parts::column(errors, &column);
    }
    let fields = FieldValue::under(top_level.fields, spec.path.child("selectableFields"));
    if !fields.is_empty() && !shared.is_set() {
        errors.push(fields.invalid_as("", "may only be set when validations.schema is included"));
    } else {
        schema::selectable(errors, &fields, shared.get("openAPIV3Schema").value, options, "");
    }
    conversion(errors, &spec.get("conversion"), known_reviews, preserves);
}

/// Estimates the memory that all versions with their compiled schemas need, or returns the field that exceeds
/// the limit.
pub(crate) fn compiled_size(spec: &FieldValue<'_>) -> Result<u64, FieldError> {
    let mut size = limits::Size::default();
    let names = spec.get("names");
    for version in spec.get("versions").items() {
        size.add_version(version.value, names.value, &version.path)?;
        let schema = version.get("schema").get("openAPIV3Schema");
        size.add(schema.value, &schema.path)?;
    }
    Ok(size.total())
}

/// Estimates the memory in bytes that a definition needs when it is compiled.
///
/// # Errors
///
/// Returns the field that makes the definition exceed the limit.
pub fn size(definition: &Value) -> Result<u64, FieldError> {
    compiled_size(&FieldValue::field(definition, "spec"))
}

/// Returns the field, if any, that makes the compiled definition exceed the memory limit.
pub fn too_large(definition: &Value) -> Option<FieldError> {
    size(definition).err()
}

/// Checks that a string of no named type is set to one of these values.
fn one_of_strings(errors: &mut Errors, field: &FieldValue<'_>, known: &[&str]) {
    if field.is_empty() {
        errors.push(field.required(""));
    } else if !known.contains(&field.text()) {
        errors.push(field.unsupported_text(known));
    }
}

fn version(
    errors: &mut Errors,
    version: &FieldValue<'_>,
    top_level: &TopLevelFields<'_>,
    options: &ValidationOptions<'_>,
    structural: bool,
) {
    let warning = version.get("deprecationWarning");
    if warning.is_set() {
        let rendered = || BadValue::named_text(warning.text());
        let faults = warning_errors(version.get("deprecated").flag(), warning.text());
        errors.extend(faults.into_iter().map(|fault| warning.invalid_as(rendered(), fault)));
    }
    let own = |is_shared: bool, field| {
        if is_shared { FieldValue::under(None, version.path.child(field)) } else { version.get(field) }
    };
    let with_status = version.get("subresources").has("status");
    let schema = own(top_level.schema.is_some(), "schema");
    schema::check(errors, &schema, with_status, options, structural, version.text_of("name"));
    subresources(errors, &own(top_level.subresources.is_some(), "subresources"));
    for column in own(top_level.columns.is_some(), "additionalPrinterColumns").items() {
        parts::column(errors, &column);
    }
    let fields = own(top_level.fields.is_some(), "selectableFields");
    if !fields.is_empty() {
        let schema = schema.get("openAPIV3Schema");
        if schema.is_set() {
            schema::selectable(errors, &fields, schema.value, options, version.text_of("name"));
        } else {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(fields.invalid_as("", detail));
        }
    }
}

fn warning_errors(deprecated: bool, warning: &str) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut faults = Vec::new();
    if warning.len() > MAX_WARNING_LENGTH {
        faults.push(format!("must be <= {MAX_WARNING_LENGTH} characters long"));
    }
    if warning.is_empty() {
        faults.push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| !is_print(*character)) {
        faults.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    faults
}

fn conversion(errors: &mut Errors, at: &FieldValue<'_>, known_reviews: bool, preserves: bool) {
    if !at.is_set() {
        return;
    }
    let strategy = at.get("strategy");
    if strategy.text() != "None" && preserves {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(strategy.invalid_as(strategy.named(), detail));
    }
    one_of_strings(errors, &strategy, &["None", "Webhook"]);
    let webhook = at.get("webhook");
    let client = webhook.get("clientConfig").with_path(at.path.child("webhookClientConfig"));
    // Upstream's internal type has this field beside the webhook.
    let webhook = webhook.with_path(at.path.clone());
    let versions = webhook.get("conversionReviewVersions");
    if strategy.text() != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        errors.extend(client.is_set().then(|| client.forbidden(detail)));
        errors.extend((!versions.is_empty()).then(|| versions.forbidden(detail)));
        return;
    }
    let (url, service) = (client.get("url"), client.get("service"));
    match (url.is_set(), service.is_set()) {
        _ if !client.is_set() => errors.push(client.required("required when strategy is set to Webhook")),
        (true, false) => webhooks::url(errors, &url),
        (false, true) => webhooks::service(errors, &service),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    if versions.is_empty() {
        errors.push(versions.required(""));
    } else {
        webhooks::versions(errors, &versions, known_reviews);
    }
}

/// Renders one version as upstream's internal type.
fn render_version(version: &Value) -> String {
    go_json::text("apiextensions/v1.CustomResourceDefinitionVersion", version)
}
