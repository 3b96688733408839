//! StorageClasses, VolumeAttributesClasses, VolumeAttachments, CSIDrivers, CSINodes and CSIStorageCapacities.

// upstream: pkg/apis/storage/validation/validation.go

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue, equal, immutable, immutable_name, immutable_text};
use crate::{csi_names, go_json, quantities, selectors, volume};

const MAX_PARAMETERS: usize = 512;
const PARAMETERS_SIZE: usize = 256 * 1024;
const METADATA_SIZE: usize = 256 * 1024;
const MAX_MESSAGE_LENGTH: usize = 1024;
const MAX_NODE_ID_LENGTH: usize = 256;

pub(crate) static CLASSES: Checks = Checks {
    create: class,
    update: |new, old| {
        let mut errors = class(new);
        immutable(&mut errors, &FieldValue::field(new, "parameters"), &FieldValue::field(old, "parameters"));
        immutable_text(
            &mut errors,
            &FieldValue::field(new, "provisioner"),
            &FieldValue::field(old, "provisioner"),
        );
        for field in ["reclaimPolicy", "volumeBindingMode"] {
            immutable_name(&mut errors, &FieldValue::field(new, field), &FieldValue::field(old, field));
        }
        errors
    },
    ..Checks::NONE
};

fn class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    provisioner(&mut errors, &FieldValue::field(class, "provisioner"));
    parameters(&mut errors, &FieldValue::field(class, "parameters"), true);
    let (policy, mode) =
        (FieldValue::field(class, "reclaimPolicy"), FieldValue::field(class, "volumeBindingMode"));
    if !matches!(policy.text(), "" | "Delete" | "Retain") {
        errors.push(policy.unsupported(&["Delete", "Retain"]));
    }
    let modes = &["Immediate", "WaitForFirstConsumer"];
    if !mode.is_set() {
        errors.push(mode.required(""));
    } else if !modes.contains(&mode.text()) {
        errors.push(mode.unsupported(modes));
    }
    topologies(&mut errors, &FieldValue::field(class, "allowedTopologies"));
    errors
}

fn provisioner(errors: &mut Errors, name: &FieldValue<'_>) {
    if name.is_empty() {
        errors.push(name.required(""));
        return;
    }
    let lower = name.text().to_lowercase();
    let broken = names::qualified_name(&lower);
    errors.extend(broken.into_iter().map(|rule| name.invalid_as(lower.as_str(), rule)));
}

fn parameters(errors: &mut Errors, parameters: &FieldValue<'_>, may_be_empty: bool) {
    if parameters.len() > MAX_PARAMETERS {
        errors.push(FieldError::too_long(&parameters.path, MAX_PARAMETERS));
        return;
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.push(parameters.invalid_as("", "field can not be empty."));
        }
        size += key.len() + value.len();
    }
    if size > PARAMETERS_SIZE {
        errors.push(FieldError::too_long(&parameters.path, PARAMETERS_SIZE));
    }
    if !may_be_empty && parameters.is_empty() {
        errors.push(parameters.required("must contain at least one key/value pair"));
    }
}

/// Maximum number of errors about equal terms, which grows with the square of the number of terms.
const MAX_DUPLICATES: usize = 10_000;

fn topologies(errors: &mut Errors, topologies: &FieldValue<'_>) {
    // Upstream starts with as many empty terms as there are terms, so an empty term counts as a duplicate.
    let mut seen = HashMap::from([(BTreeMap::<&str, BTreeSet<&str>>::new(), topologies.len())]);
    for term in topologies.items() {
        let expressions = term.get("matchLabelExpressions");
        let mut values_of = BTreeMap::new();
        for expression in expressions.items() {
            let (key, values) = (expression.get("key"), expression.get("values"));
            let mut found = BTreeSet::new();
            if values.is_empty() {
                errors.push(values.required(""));
            }
            errors.extend(
                values.items().filter(|value| !found.insert(value.text())).map(|value| value.duplicate()),
            );
            key.rules(errors, names::qualified_name(key.text()));
            if values_of.insert(key.text(), found).is_some() {
                errors.push(FieldError::duplicate(&key.path, key.text()));
            }
        }
        let same = seen.entry(values_of).or_default();
        // A response shows far fewer errors.
        let shown = (*same).min(MAX_DUPLICATES.saturating_sub(errors.len()));
        errors.extend((0..shown).map(|_| FieldError::duplicate(&expressions.path, "")));
        *same += 1;
    }
}

pub(crate) static ATTRIBUTES_CLASSES: Checks = Checks {
    create: attributes_class,
    update: |new, old| {
        let mut errors = Errors::new();
        for field in ["driverName", "parameters"] {
            let at = FieldValue::field(new, field);
            if !equal(at.value, FieldValue::field(old, field).value) {
                errors.push(at.forbidden(format!("updates to {field} are forbidden.")));
            }
        }
        errors.extend(attributes_class(new));
        errors
    },
    ..Checks::NONE
};

fn attributes_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    provisioner(&mut errors, &FieldValue::field(class, "driverName"));
    parameters(&mut errors, &FieldValue::field(class, "parameters"), false);
    errors
}

pub(crate) static ATTACHMENTS: Checks = Checks {
    create: attachment,
    update: changed_attachment,
    subresource: |name, new, old| if name == "status" { changed_attachment(new, old) } else { Errors::new() },
};

fn changed_attachment(new: &Value, old: &Value) -> Errors {
    let mut errors = attachment(new);
    let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    if spec.value != before.value {
        errors.push(
            spec.invalid_as(
                go_json::value("storage/v1.VolumeAttachmentSpec", spec.value),
                "field is immutable",
            ),
        );
    }
    errors
}

fn attachment(attachment: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, status) = (FieldValue::field(attachment, "spec"), FieldValue::field(attachment, "status"));
    csi_names::driver(&mut errors, &spec.get("attacher"));
    let source = spec.get("source");
    let (name, inline) = (source.get("persistentVolumeName"), source.get("inlineVolumeSpec"));
    let exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_set(), name.is_set()) {
        (false, false) => errors.push(source.required(exactly_one)),
        (true, true) => errors.push(source.forbidden(exactly_one)),
        (false, true) if name.is_empty() => {
            errors.push(name.required("must specify non empty persistentVolumeName"));
        }
        (false, true) => {}
        (true, false) => {
            let context = volume::VolumeSpecOptions { inline: true, lenient: false };
            volume::check_spec(&mut errors, &inline, "", &context);
        }
    }
    let node = spec.get("nodeName");
    node.rules(&mut errors, names::dns1123_subdomain(node.text()));
    let metadata = status.get("attachmentMetadata");
    if metadata.entries().map(|(key, value)| key.len() + value.len()).sum::<usize>() > METADATA_SIZE {
        errors.push(FieldError::too_long(&metadata.path, METADATA_SIZE));
    }
    for error in [status.get("attachError"), status.get("detachError")] {
        let (message, code) = (error.get("message"), error.get("errorCode"));
        if message.len() > MAX_MESSAGE_LENGTH {
            // Upstream reports the wrong limit.
            errors.push(FieldError::too_long(&message.path, METADATA_SIZE));
        }
        if code.number().is_some_and(|code| code < 0) {
            errors.push(code.invalid("must be between 0 and 2147483647, inclusive"));
        }
    }
    if name.is_set() {
        let name = name.with_path(FieldPath::new("spec.source.persistentVolumeName"));
        name.rules(&mut errors, names::dns1123_subdomain(name.text()));
    }
    errors
}

pub(crate) static NODES: Checks = Checks {
    create: node,
    update: |new, old| {
        let mut errors = node(new);
        let drivers = |node| FieldValue::field(node, "spec").get("drivers");
        let (drivers, before) = (drivers(new), drivers(old));
        for old in before.items() {
            for driver in drivers.items().filter(|driver| driver.text_of("name") == old.text_of("name")) {
                let same = ["nodeID", "topologyKeys"]
                    .iter()
                    .all(|field| equal(driver.get(field).value, old.get(field).value));
                if !same {
                    let mut rendered = driver.value.clone();
                    rendered.as_object_mut().map(|fields| fields.remove("allocatable"));
                    let rendered = go_json::value("storage/v1.CSINodeDriver", &rendered);
                    errors.push(drivers.invalid_as(rendered, "field is immutable"));
                }
            }
        }
        errors
    },
    ..Checks::NONE
};

fn node(node: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen = HashSet::new();
    for driver in FieldValue::field(node, "spec").get("drivers").items() {
        let (name, id) = (driver.get("name"), driver.get("nodeID"));
        csi_names::driver(&mut errors, &name);
        if id.is_empty() {
            errors.push(id.required(""));
        }
        if id.len() > MAX_NODE_ID_LENGTH {
            errors.push(id.invalid(format!("must be {MAX_NODE_ID_LENGTH} characters or less")));
        }
        driver.get("allocatable").get("count").not_negative(&mut errors);
        if !seen.insert(name.text()) {
            errors.push(FieldError::duplicate(&name.path, name.text()));
        }
        let mut keys = HashSet::new();
        for key in driver.get("topologyKeys").texts() {
            if key.is_empty() {
                errors.push(driver.required(""));
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(&driver.path, key));
            }
            let broken = names::qualified_name(key);
            errors.extend(broken.into_iter().map(|rule| driver.invalid_as(key, rule)));
        }
    }
    errors
}

pub(crate) static DRIVERS: Checks = Checks {
    create: driver,
    update: |new, old| {
        let mut errors = driver(new);
        let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
        let required = spec.get("attachRequired").with_path(spec.path.child("attachedRequired"));
        immutable(&mut errors, &required, &before.get("attachRequired"));
        let field = "volumeLifecycleModes";
        immutable(&mut errors, &spec.get(field), &before.get(field));
        errors
    },
    ..Checks::NONE
};

fn driver(driver: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldValue::field(driver, "spec");
    // Upstream's message uses another name for the first.
    let flags = [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ];
    for (_, rendered) in flags.into_iter().filter(|(field, _)| !spec.has(field)) {
        errors.push(spec.get(rendered).required(""));
    }
    let policy = spec.get("fsGroupPolicy");
    let policies = &["File", "None", "ReadWriteOnceWithFSType"];
    if policy.is_set() && !policies.contains(&policy.text()) {
        errors.push(policy.unsupported(policies));
    }
    let requests = spec.get("tokenRequests");
    token_requests(&mut errors, &requests);
    let modes = spec.get("volumeLifecycleModes");
    for mode in modes.items().filter(|mode| !matches!(mode.text(), "Persistent" | "Ephemeral")) {
        errors.push(FieldError::not_supported(&modes.path, mode.named(), &["Persistent", "Ephemeral"]));
    }
    if !spec.has("seLinuxMount") {
        errors.push(spec.get("seLinuxMount").required(""));
    }
    let period = spec.get("nodeAllocatableUpdatePeriodSeconds");
    if period.number().is_some_and(|period| period < 10) {
        errors.push(period.invalid("must be greater than or equal to 10 seconds"));
    }
    let in_secrets = spec.get("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && requests.is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(in_secrets.invalid(detail));
    }
    errors
}

fn token_requests(errors: &mut Errors, requests: &FieldValue<'_>) {
    let mut seen = HashSet::new();
    for request in requests.items() {
        let (audience, expiration) = (request.get("audience"), request.get("expirationSeconds"));
        if !seen.insert(audience.text()) {
            errors.push(FieldError::duplicate(&audience.path, audience.text()));
            continue;
        }
        let Some(seconds) = expiration.number() else { continue };
        if seconds < 600 {
            errors.push(expiration.invalid("may not specify a duration less than 10 minutes"));
        }
        if seconds > 1 << 32 {
            errors.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"));
        }
    }
}

pub(crate) static CAPACITIES: Checks = Checks {
    create: |capacity| self::capacity(capacity, false),
    update: |new, old| {
        let lenient = selectors::has_bad_value(&FieldValue::field(old, "nodeTopology"));
        let mut errors = capacity(new, lenient);
        let topology = FieldValue::field(new, "nodeTopology");
        if !equal(topology.value, FieldValue::field(old, "nodeTopology").value) {
            let rendered = BadValue::Rendered(selectors::render(topology.value));
            errors.push(topology.invalid_as(rendered, "field is immutable"));
        }
        immutable_text(
            &mut errors,
            &FieldValue::field(new, "storageClassName"),
            &FieldValue::field(old, "storageClassName"),
        );
        errors
    },
    ..Checks::NONE
};

fn capacity(capacity: &Value, lenient: bool) -> Errors {
    let mut errors = Errors::new();
    let topology = FieldValue::field(capacity, "nodeTopology");
    if topology.is_set() {
        selectors::check(&mut errors, &topology, lenient);
    }
    let class = FieldValue::field(capacity, "storageClassName");
    class.rules(&mut errors, names::dns1123_subdomain(class.text()));
    quantities::not_negative(&mut errors, &FieldValue::field(capacity, "capacity"));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::checks_for;

    #[test]
    fn errors_about_equal_terms_are_limited() {
        let class = |terms: usize| {
            json!({ "metadata": { "name": "a" }, "provisioner": "example.com/a", "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate", "allowedTopologies": vec![json!({}); terms] })
        };
        let errors = |terms| (checks_for("storage.k8s.io", "storageclasses").create)(&class(terms)).len();
        // An empty term is equal to as many empty terms as there are terms, and to those before it.
        assert_eq!(errors(3), 3 + 4 + 5);
        assert_eq!(errors(3000), 10_000);
    }
}
