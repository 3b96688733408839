//! Detects drift, and resolves field manager conflicts. Pure.

use atoll_fleet::marks;
use atoll_meta::Status;
use atoll_meta::quantity::Quantity;
use serde_json::Value;

use crate::settings::Drift;

/// Whether the existing object contains everything that is desired. May return false negatives: applying an
/// unchanged object has no effect.
pub fn covers(desired: &Value, found: &Value) -> bool {
    match (desired, found) {
        (Value::Null, _) => true,
        (Value::Object(desired), _) => desired
            .iter()
            // apiVersion and kind depend on the served version, and the status belongs to the cluster.
            .all(|(key, value)| {
                matches!(key.as_str(), "status" | "apiVersion" | "kind") || covers_field(key, value, found)
            }),
        (Value::Array(desired), Value::Array(found)) => {
            let in_order = desired.len() == found.len()
                && desired.iter().zip(found).all(|(desired, found)| covers(desired, found));
            in_order || desired.iter().all(|desired| found.iter().any(|found| covers(desired, found)))
        }
        (Value::String(desired), Value::String(found)) if desired != found => Quantity::parse(desired)
            .is_ok_and(|desired| Quantity::parse(found).is_ok_and(|found| desired == found)),
        (desired, found) => desired == found,
    }
}

fn covers_field(key: &str, desired: &Value, found: &Value) -> bool {
    if key == "metadata" {
        let found = &found["metadata"];
        return ["labels", "annotations"].iter().all(|field| covers(&desired[*field], &found[*field]));
    }
    match found.get(key) {
        Some(found) => covers(desired, found),
        None => is_empty_value(desired),
    }
}

/// Whether a value is empty, so that API servers omit it.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(content) => content.values().all(is_empty_value),
        Value::Array(content) => content.is_empty(),
        Value::String(content) => content.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}

/// Resolution of a field manager conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Whether fields were removed from the configuration.
    pub yielded: bool,
    /// Whether another manager took fields that the syncer owns, which an apply with force takes back.
    pub force: bool,
    /// Whether a conflicting field could not be removed; then nothing is overwritten.
    pub is_stuck: bool,
    /// Messages about changes that are left.
    pub left: Vec<String>,
    /// Messages about changes that are corrected.
    pub corrected: Vec<String>,
}

/// The field that autoscalers set.
pub const REPLICAS: &str = ".spec.replicas";
/// Managers of the scale subresource that are autoscalers: the controllers of a cluster scale nothing else.
const AUTOSCALERS: [&str; 2] = ["kube-controller-manager", "atoll-controllers"];

/// Whether an autoscaler has set the replicas that a configuration contains. Under an autoscaler that still exists,
/// the configuration has none.
fn is_former_autoscaler(manager: &str, message: &str) -> bool {
    AUTOSCALERS.contains(&manager) && message.contains("with subresource \"scale\"")
}

/// Whether a field is one of those that a field manager conflict is about.
pub fn conflicts_about(conflict: &Status, field: &str) -> bool {
    let mut causes = conflict.details().into_iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "FieldManagerConflict" && cause.field == field)
}

/// Removes fields from a configuration that other managers own and keep. Fields that the syncer also owns
/// have not been changed since it set them.
pub fn resolve(
    configuration: &mut Value,
    conflict: &Status,
    drift: Drift,
    is_ours: impl Fn(&str) -> bool,
) -> Resolution {
    let mut resolution = Resolution::default();
    for cause in conflict.details().into_iter().flat_map(|details| &details.causes) {
        if cause.reason != "FieldManagerConflict" {
            continue;
        }
        // conflict with "kubectl" with subresource "scale" using apps/v1
        let manager = cause.message.split('"').nth(1).unwrap_or_default();
        if cause.field == REPLICAS && is_former_autoscaler(manager, &cause.message) {
            resolution.force = true;
            continue;
        }
        let is_controllers = is_controller(manager);
        if !is_controllers && (drift == Drift::Correct || is_ours(&cause.field)) {
            resolution.force = true;
            resolution.corrected.push(format!("{manager} changed {}", cause.field));
            continue;
        }
        match remove(configuration, &cause.field) {
            true => resolution.yielded = true,
            false => resolution.is_stuck = true,
        }
        if !is_controllers {
            resolution.left.push(format!("{manager} changed {}", cause.field));
        }
    }
    resolution
}

/// Returns messages about the changes in a field manager conflict, except those of controllers.
pub fn conflict_messages(conflict: &Status) -> Vec<String> {
    let causes = conflict.details().into_iter().flat_map(|details| &details.causes);
    let messages = causes.filter(|cause| cause.reason == "FieldManagerConflict").filter_map(|cause| {
        let manager = cause.message.split('"').nth(1).unwrap_or_default();
        (!is_controller(manager)).then(|| format!("{manager} changed {}", cause.field))
    });
    messages.collect()
}

/// Whether the syncer owns a field of an object in the cluster.
pub fn owns(found: &Value, field: &str) -> bool {
    let entries = found["metadata"]["managedFields"].as_array().into_iter().flatten();
    let ours = entries.filter(|entry| entry["manager"] == marks::MANAGER && entry["subresource"].is_null());
    ours.into_iter().any(|entry| contains_path(&entry["fieldsV1"], field))
}

/// Whether a set of fields contains a path.
fn contains_path(fields: &Value, path: &str) -> bool {
    if path.is_empty() {
        return true;
    }
    let Some(fields) = fields.as_object() else { return false };
    if let Some(rest) = path.strip_prefix('.') {
        return fields.iter().any(|(key, below)| {
            let after = key.strip_prefix("f:").and_then(|name| rest.strip_prefix(name));
            after.is_some_and(|after| {
                (after.is_empty() || after.starts_with(['.', '['])) && contains_path(below, after)
            })
        });
    }
    let Some((element, rest)) = element(path) else { return false };
    fields.iter().any(|(key, below)| element.is_named(key) && contains_path(below, rest))
}

/// Controllers of every cluster, and suffixes of usual controller names. All other managers are considered
/// users.
const CONTROLLERS: [&str; 8] = [
    "kube-controller-manager",
    "kube-scheduler",
    "cloud-controller-manager",
    "kubelet",
    "kube-apiserver",
    "atoll-controllers",
    "cluster-autoscaler",
    "keda",
];
const CONTROLLER_SUFFIXES: [&str; 6] =
    ["-controller", "-controllers", "-controller-manager", "-operator", "-autoscaler", "-updater"];

pub fn is_controller(manager: &str) -> bool {
    CONTROLLERS.contains(&manager) || CONTROLLER_SUFFIXES.iter().any(|suffix| manager.ends_with(suffix))
}

/// Removes the value at a field path such as `.spec.containers[name="a"].image`.
pub fn remove(value: &mut Value, path: &str) -> bool {
    if let Some(rest) = path.strip_prefix('.') {
        let Some(content) = value.as_object_mut() else { return false };
        // Keys may contain dots: the longest match counts.
        let fits = |key: &&String| {
            rest.strip_prefix(key.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let Some(key) = content.keys().filter(fits).max_by_key(|key| key.len()).cloned() else {
            return false;
        };
        let rest = &rest[key.len()..];
        if rest.is_empty() {
            return content.remove(&key).is_some();
        }
        return content.get_mut(&key).is_some_and(|inner| remove(inner, rest));
    }
    let Some((element, rest)) = element(path) else { return false };
    let Some(items) = value.as_array_mut() else { return false };
    let Some(index) = items.iter().enumerate().position(|(index, item)| element.is(index, item)) else {
        return false;
    };
    if rest.is_empty() {
        items.remove(index);
        return true;
    }
    remove(&mut items[index], rest)
}

/// Selector of a list item in a field path.
enum Element {
    Index(usize),
    Is(Value),
    Keys(Vec<(String, Value)>),
}

impl Element {
    fn is(&self, index: usize, item: &Value) -> bool {
        match self {
            Element::Index(desired) => *desired == index,
            Element::Is(value) => value == item,
            // A missing key field has its default value.
            Element::Keys(keys) => {
                keys.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value))
            }
        }
    }
}

impl Element {
    /// Whether a key in managed fields selects the same item.
    fn is_named(&self, key: &str) -> bool {
        let (kind, text) = key.split_once(':').unwrap_or_default();
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        match (self, kind) {
            (Element::Index(index), "i") => value.as_u64().is_some_and(|said| said == *index as u64),
            (Element::Is(desired), "v") => *desired == value,
            (Element::Keys(keys), "k") => {
                value.as_object().is_some_and(|said| said.len() == keys.len())
                    && keys.iter().all(|(name, desired)| value[name] == *desired)
            }
            _ => false,
        }
    }
}

/// Parses `[0]`, `[="a"]` or `[name="a",port=80]`, and returns the rest of the path.
fn element(path: &str) -> Option<(Element, &str)> {
    let mut rest = path.strip_prefix('[')?;
    if let Some((number, after)) = rest.split_once(']')
        && let Ok(index) = number.parse()
    {
        return Some((Element::Index(index), after));
    }
    let mut keys = Vec::new();
    loop {
        let (name, value) = rest.split_once('=')?;
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        let parsed = values.next()?.ok()?;
        rest = &value[values.byte_offset()..];
        keys.push((name.to_string(), parsed));
        if let Some(after) = rest.strip_prefix(']') {
            let is_value = keys.len() == 1 && keys[0].0.is_empty();
            let element = if is_value { Element::Is(keys.remove(0).1) } else { Element::Keys(keys) };
            return Some((element, after));
        }
        rest = rest.strip_prefix(',')?;
    }
}

#[cfg(test)]
mod tests {
    use atoll_meta::status::Cause;
    use serde_json::json;

    use super::*;

    #[test]
    fn desired_state_is_covered() {
        for (desired, found, expected) in [
            (json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 2, "paused": false}}), true),
            (json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}}), false),
            (json!({"spec": {"replicas": 0}}), json!({"spec": {}}), true),
            (json!({"data": {"a": "1"}}), json!({"data": {}}), false),
            (json!({"kind": "A", "status": {"a": 1}}), json!({"kind": "B"}), true),
            (
                json!({"metadata": {"uid": "u", "labels": {"a": "b"}}}),
                json!({"metadata": {"labels": {"a": "b"}}}),
                true,
            ),
            (json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {"a": "c"}}}), false),
            (json!({"cpu": "1000m"}), json!({"cpu": "1"}), true),
            (json!({"cpu": "1000m"}), json!({"cpu": "2"}), false),
            (
                json!({"l": [{"name": "a", "x": 1}]}),
                json!({"l": [{"name": "s"}, {"name": "a", "x": 1, "y": 2}]}),
                true,
            ),
            (json!({"l": [{"name": "a", "x": 1}]}), json!({"l": [{"name": "a", "x": 2}]}), false),
            (json!({"l": [1, 2]}), json!({"l": "no"}), false),
        ] {
            assert_eq!(covers(&desired, &found), expected, "{desired} {found}");
        }
    }

    #[test]
    fn fields_are_removed_by_path() {
        let whole = json!({
            "metadata": {"annotations": {"a": "1", "a.b/c": "2"}},
            "spec": {"replicas": 1, "containers": [{"name": "a", "image": "x"}, {"name": "b\"]", "image": "y"}],
                "ports": [{"port": 80}], "set": ["p", "q"]},
        });
        for (path, pointer) in [
            (".spec.replicas", "/spec/replicas"),
            (".metadata.annotations.a", "/metadata/annotations/a"),
            (".metadata.annotations.a.b/c", "/metadata/annotations/a.b~1c"),
            (r#".spec.containers[name="a"].image"#, "/spec/containers/0/image"),
            (r#".spec.containers[name="b\"]"].image"#, "/spec/containers/1/image"),
            (r#".spec.ports[port=80,protocol="TCP"].port"#, "/spec/ports/0/port"),
            (r#".spec.set[="q"]"#, "/spec/set/1"),
            (".spec.containers[0].image", "/spec/containers/0/image"),
        ] {
            let mut changed = whole.clone();
            assert!(changed.pointer(pointer).is_some(), "{pointer}");
            assert!(remove(&mut changed, path), "{path}");
            assert!(changed.pointer(pointer).is_none(), "{path}: {changed}");
        }
        for path in
            ["", ".", ".none", ".spec[0]", ".spec.containers[name=\"z\"].image", ".spec.containers[", "spec"]
        {
            let mut changed = whole.clone();
            assert!(!remove(&mut changed, path), "{path}");
            assert_eq!(changed, whole);
        }
    }

    #[test]
    fn controllers_keep_their_fields_and_users_do_not() {
        let conflict = |manager: &str, field: &str| {
            let message = format!("conflict with {manager:?} with subresource \"scale\" using apps/v1");
            Cause { reason: "FieldManagerConflict".into(), message, field: field.into() }
        };
        let causes = vec![conflict("keda", ".spec.replicas"), conflict("kubectl-edit", ".spec.paused")];
        let status = Status::apply_conflict(causes, "conflicts");
        let whole = json!({"spec": {"replicas": 1, "paused": true, "minReadySeconds": 3}});
        let mut corrected = whole.clone();
        let resolution = resolve(&mut corrected, &status, Drift::Correct, |_| false);
        assert_eq!(corrected, json!({"spec": {"paused": true, "minReadySeconds": 3}}));
        let messages = vec!["kubectl-edit changed .spec.paused".to_string()];
        assert_eq!(
            resolution,
            Resolution { yielded: true, force: true, corrected: messages, ..Resolution::default() }
        );
        let mut reported = whole;
        let resolution = resolve(&mut reported, &status, Drift::Report, |_| false);
        assert_eq!(reported, json!({"spec": {"minReadySeconds": 3}}));
        assert_eq!(
            (resolution.force, resolution.left),
            (false, vec!["kubectl-edit changed .spec.paused".to_string()])
        );
    }

    #[test]
    fn replicas_of_a_former_autoscaler_are_taken_back() {
        for (manager, subresource, is_taken) in [
            ("kube-controller-manager", " with subresource \"scale\"", true),
            ("atoll-controllers", " with subresource \"scale\"", true),
            ("kube-controller-manager", "", false),
            ("some-operator", " with subresource \"scale\"", false),
        ] {
            let message = format!("conflict with \"{manager}\"{subresource} using apps/v1");
            let cause = Cause { reason: "FieldManagerConflict".into(), message, field: REPLICAS.into() };
            let status = Status::apply_conflict(vec![cause], "conflicts");
            let mut sent = json!({"spec": {"replicas": 4}});
            let resolution = resolve(&mut sent, &status, Drift::Report, |_| false);
            assert_eq!(
                (resolution.force, resolution.yielded),
                (is_taken, !is_taken),
                "{manager}{subresource}"
            );
            assert_eq!(sent["spec"].get("replicas").is_some(), is_taken);
        }
    }

    #[test]
    fn fields_with_shared_ownership_are_overwritten() {
        let fields = json!({ "f:spec": {
            "f:replicas": {}, "f:set": { "v:\"q\"": {} }, "f:list": { "i:1": {} },
            "f:containers": { "k:{\"name\":\"a\"}": { ".": {}, "f:image": {} } },
        }, "f:metadata": { "f:annotations": { "f:a.b/c": {} } } });
        let found = json!({ "metadata": { "managedFields": [
            { "manager": "kubectl", "fieldsV1": { "f:spec": { "f:paused": {} } } },
            { "manager": "atoll", "fieldsV1": fields },
        ] } });
        for (field, expected) in [
            (".spec.replicas", true),
            (".spec.paused", false),
            (".spec.containers[name=\"a\"].image", true),
            (".spec.containers[name=\"b\"].image", false),
            (".spec.set[=\"q\"]", true),
            (".spec.list[1]", true),
            (".spec.list[0]", false),
            (".metadata.annotations.a.b/c", true),
            (".metadata.annotations.a", false),
        ] {
            assert_eq!(owns(&found, field), expected, "{field}");
        }
        let cause = Cause {
            reason: "FieldManagerConflict".into(),
            message: "conflict with \"kubectl\" using apps/v1".into(),
            field: ".spec.replicas".into(),
        };
        let status = Status::apply_conflict(vec![cause], "conflicts");
        assert_eq!(conflict_messages(&status), ["kubectl changed .spec.replicas"]);
        let mut sent = json!({ "spec": { "replicas": 1 } });
        let resolution = resolve(&mut sent, &status, Drift::Report, |field| owns(&found, field));
        assert_eq!((resolution.force, resolution.yielded), (true, false));
    }

    #[test]
    fn controllers_are_recognized() {
        for name in ["kube-controller-manager", "atoll-controllers", "vpa-updater", "cert-manager-operator"] {
            assert!(is_controller(name), "{name}");
        }
        for name in ["kubectl", "kubectl-edit", "helm", "", "Mozilla", "atoll"] {
            assert!(!is_controller(name), "{name}");
        }
    }
}
