//! Finds the volume that matches a claim.

// upstream: pkg/controller/volume/persistentvolume/index.go
// upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go
// upstream: pkg/volume/util/storageclass.go

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_meta::quantity::Quantity;
use atoll_meta::{LabelSelector, object};
use serde_json::Value;

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Access modes in upstream's order, with their short names.
const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// Returns the storage class of a volume or claim; empty for none.
pub fn class(object: &Value) -> &str {
    object::annotation(object, CLASS)
        .or_else(|| object["spec"]["storageClassName"].as_str())
        .unwrap_or_default()
}

/// Whether a claim specifies its class, even as none.
pub fn has_class(claim: &Value) -> bool {
    object::annotation(claim, CLASS).is_some() || claim["spec"]["storageClassName"].is_string()
}

/// Returns the default class: the newest one that is annotated as default.
pub fn default_class(classes: &[Arc<Value>]) -> Option<&Arc<Value>> {
    let marks =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let is_default =
        |class: &&Arc<Value>| marks.iter().any(|mark| object::annotation(class, mark) == Some("true"));
    let newest_first = |class: &&Arc<Value>| {
        (Reverse(object::creation_timestamp(class).map(String::from)), object::name(class).to_string())
    };
    classes.iter().filter(is_default).min_by_key(newest_first)
}

/// Whether the volume is reserved for, or bound to, this claim.
pub fn is_bound_to(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let uid = reference["uid"].as_str().unwrap_or_default();
    reference.is_object()
        && reference["name"] == object::name(claim)
        && reference["namespace"] == object::namespace(claim)
        && (uid.is_empty() || uid == object::uid(claim))
}

fn mode(object: &Value) -> &str {
    object["spec"]["volumeMode"].as_str().unwrap_or("Filesystem")
}

pub fn has_other_mode(volume: &Value, claim: &Value) -> bool {
    mode(volume) != mode(claim)
}

fn size(amount: &Value) -> Option<Quantity> {
    Quantity::parse(amount.as_str()?).ok()
}

fn is_large_enough(volume: &Value, claim: &Value) -> bool {
    match size(&claim["spec"]["resources"]["requests"]["storage"]) {
        None => true,
        Some(wanted) => size(&volume["spec"]["capacity"]["storage"]).is_some_and(|size| size >= wanted),
    }
}

fn attributes(object: &Value) -> &str {
    object["spec"]["volumeAttributesClassName"].as_str().unwrap_or_default()
}

/// Returns the distinct access modes in upstream's order.
fn modes(object: &Value) -> Vec<&'static str> {
    let listed = object["spec"]["accessModes"].as_array().map_or(&[][..], Vec::as_slice);
    let is_listed = |(name, _): &&(&str, &str)| listed.iter().any(|mode| mode == *name);
    MODES.iter().filter(is_listed).map(|(_, short)| *short).collect()
}

fn has_modes(volume: &Value, claim: &Value) -> bool {
    let has = modes(volume);
    modes(claim).iter().all(|mode| has.contains(mode))
}

/// Returns why a claim cannot use the volume that it names.
pub fn mismatch(volume: &Value, claim: &Value) -> Option<String> {
    match () {
        () if object::is_being_deleted(volume) => {
            Some(format!("the volume is marked for deletion \"{}\"", object::name(volume)))
        }
        () if !is_large_enough(volume, claim) => Some("requested PV is too small".into()),
        () if class(volume) != class(claim) => Some("storageClassName does not match".into()),
        () if attributes(volume) != attributes(claim) => {
            Some("volumeAttributesClassName does not match".into())
        }
        () if has_other_mode(volume, claim) => Some("incompatible volumeMode".into()),
        () if !has_modes(volume, claim) => Some("incompatible accessMode".into()),
        () => None,
    }
}

/// Returns the volume that is reserved for a claim, or the smallest one that matches, among those with the
/// fewest access modes. With `waits` (WaitForFirstConsumer) only a reserved one. Fails if the claim's
/// selector is invalid.
pub fn best<'a>(
    claim: &Value,
    volumes: &'a [Arc<Value>],
    waits: bool,
) -> Result<Option<&'a Arc<Value>>, String> {
    let selector = match &claim["spec"]["selector"] {
        Value::Null => LabelSelector::everything(),
        selector => LabelSelector::from_object(selector).map_err(|problem| {
            let place = format!("{}/{}", object::namespace(claim), object::name(claim));
            format!("error creating internal label selector for claim: {place}: {problem}")
        })?,
    };
    let mut by_modes: BTreeMap<(usize, String), Vec<&Arc<Value>>> = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| has_modes(volume, claim)) {
        let modes = modes(volume);
        by_modes.entry((modes.len(), modes.join(","))).or_default().push(volume);
    }
    for group in by_modes.into_values() {
        let mut smallest: Option<(Option<Quantity>, &Arc<Value>)> = None;
        for volume in group {
            let is_reserved = is_bound_to(volume, claim);
            if (volume["spec"]["claimRef"].is_object() && !is_reserved)
                || !is_large_enough(volume, claim)
                || has_other_mode(volume, claim)
                || attributes(volume) != attributes(claim)
                || object::is_being_deleted(volume)
            {
                continue;
            }
            if is_reserved {
                return Ok(Some(volume));
            }
            let fits = !waits
                && volume["status"]["phase"] == "Available"
                && selector.matches_labels(&object::label_map(volume))
                && class(volume) == class(claim);
            let size = size(&volume["spec"]["capacity"]["storage"]);
            if fits && smallest.as_ref().is_none_or(|(smaller, _)| size < *smaller) {
                smallest = Some((size, volume));
            }
        }
        if let Some((_, volume)) = smallest {
            return Ok(Some(volume));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, size: &str, changes: &Value) -> Arc<Value> {
        let mut volume = json!({
            "metadata": {"name": name, "labels": {"name": name}},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Available"},
        });
        for (path, value) in changes.as_object().into_iter().flatten() {
            let (parent, field) = path.rsplit_once('/').unwrap();
            volume.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        Arc::new(volume)
    }

    fn claim(changes: &Value) -> Value {
        let mut claim = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        });
        for (field, value) in changes.as_object().into_iter().flatten() {
            claim["spec"][field] = value.clone();
        }
        claim
    }

    #[test]
    fn the_smallest_matching_volume_wins() {
        let mine = json!({"name": "c", "namespace": "n"});
        let others = json!({"name": "d", "namespace": "n"});
        let volumes = [
            volume("small", "1Gi", &json!({})),
            volume("large", "50Gi", &json!({})),
            volume("medium", "10Gi", &json!({})),
            volume("taken", "5Gi", &json!({"/spec/claimRef": others})),
            volume("other-class", "5Gi", &json!({"/spec/storageClassName": "fast"})),
            volume("block", "5Gi", &json!({"/spec/volumeMode": "Block"})),
            volume("released", "5Gi", &json!({"/status/phase": "Released"})),
            volume("going", "5Gi", &json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"})),
            volume("many", "6Gi", &json!({"/spec/accessModes": ["ReadWriteOnce", "ReadWriteMany"]})),
            volume("gold", "5Gi", &json!({"/spec/volumeAttributesClassName": "gold"})),
        ];
        for (what, changes, waits, expected) in [
            ("anything", json!({}), false, Some("medium")),
            ("anything, later", json!({}), true, None),
            ("shared", json!({"accessModes": ["ReadWriteMany"]}), false, Some("many")),
            ("read only", json!({"accessModes": ["ReadOnlyMany"]}), false, None),
            ("fast", json!({"storageClassName": "fast"}), false, Some("other-class")),
            ("block", json!({"volumeMode": "Block"}), false, Some("block")),
            ("gold", json!({"volumeAttributesClassName": "gold"}), false, Some("gold")),
            ("by label", json!({"selector": {"matchLabels": {"name": "large"}}}), false, Some("large")),
            ("too large", json!({"resources": {"requests": {"storage": "51Gi"}}}), false, None),
        ] {
            let found = best(&claim(&changes), &volumes, waits).unwrap();
            assert_eq!(found.map(|volume| object::name(volume)), expected, "{what}");
        }
        let mut reserved = volumes.to_vec();
        reserved.push(volume(
            "reserved",
            "99Gi",
            &json!({"/spec/claimRef": mine, "/status/phase": "Pending"}),
        ));
        for waits in [false, true] {
            let found = best(&claim(&json!({})), &reserved, waits).unwrap();
            assert_eq!(found.map(|volume| object::name(volume)), Some("reserved"));
        }
    }

    #[test]
    fn mismatches_of_a_named_volume_are_explained() {
        for (changes, claimed, expected) in [
            (json!({}), json!({}), None),
            (json!({"/spec/capacity": {"storage": "1Gi"}}), json!({}), Some("requested PV is too small")),
            (json!({}), json!({"storageClassName": "x"}), Some("storageClassName does not match")),
            (json!({}), json!({"volumeMode": "Block"}), Some("incompatible volumeMode")),
            (json!({}), json!({"accessModes": ["ReadWriteMany"]}), Some("incompatible accessMode")),
            (
                json!({}),
                json!({"volumeAttributesClassName": "x"}),
                Some("volumeAttributesClassName does not match"),
            ),
            (
                json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}),
                json!({}),
                Some("the volume is marked for deletion \"v\""),
            ),
        ] {
            let found = mismatch(&volume("v", "5Gi", &changes), &claim(&claimed));
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn the_newest_default_class_wins() {
        let class = |name: &str, created: &str, default: &str| {
            Arc::new(json!({"metadata": {"name": name, "creationTimestamp": created,
                "annotations": {"storageclass.kubernetes.io/is-default-class": default}}}))
        };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let classes = [
            class("a", old, "true"),
            class("c", new, "true"),
            class("b", new, "true"),
            class("d", new, "false"),
        ];
        assert_eq!(default_class(&classes).map(|class| object::name(class)), Some("b"));
        assert!(default_class(&classes[3..]).is_none());
    }
}
