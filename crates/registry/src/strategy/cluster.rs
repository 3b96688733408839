//! Clusters and ObjectStatuses.

use atoll_fleet::cluster::{MAX_LABELS, MAX_TAINTS};
use atoll_fleet::overrides;
use atoll_fleet::view::Drift;
use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath, names};
use atoll_podsecurity::Level;
use serde_json::{Map, Value, json};

use super::effects::Effects;
use super::{Strategy, spec_differs, text};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns_label,
    generation: true,
    raises_generation: spec_differs,
    prepare_create: |cluster, _| fill(cluster),
    prepare_update: |cluster, _, _| fill(cluster),
    validate: |cluster| validate(cluster).into_iter().chain(validate_counts(cluster, None)).collect(),
    validate_update: |new, old| validate(new).into_iter().chain(validate_counts(new, Some(old))).collect(),
    validate_subresource: |_, new, old| validate_identity(new, old),
    has_heartbeats: true,
    effects: Effects {
        reserve_name: Some(|registry, row, object_ref| {
            Box::pin(registry.reserve_cluster_name(row, object_ref))
        }),
        after_removal: Some(|registry, _, cluster| registry.remove_unregistered_cluster(cluster)),
        ..Effects::NONE
    },
    ..Strategy::GENERIC
};

/// ObjectStatuses, written only by syncers.
pub static OF_OBJECTS: Strategy = Strategy { keeps_status: true, ..Strategy::GENERIC };

const MODES: [&str; 3] = ["none", "pull", "push"];
const ACCESSES: [&str; 2] = ["manage", "observe"];
const CONTROLLERS: [&str; 2] = ["allow", "refuse"];
/// Maximum length of `spec.workspaces`.
const MAX_WORKSPACES: usize = 1000;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "PreferNoSchedule"];

/// Sets the default mode.
fn fill(cluster: &mut Value) {
    if !cluster["spec"].is_object() {
        cluster["spec"] = json!({});
    }
    for (field, usual) in [("mode", "push"), ("access", "manage")] {
        if cluster["spec"].get(field).is_none_or(Value::is_null) {
            cluster["spec"][field] = usual.into();
        }
    }
}

fn validate(cluster: &Value) -> Vec<FieldError> {
    let (spec, path) = (&cluster["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    for (field, known) in [("mode", &MODES[..]), ("access", &ACCESSES[..])] {
        if !known.iter().any(|value| spec[field] == *value) {
            errors.push(FieldError::not_supported(&path.child(field), spec[field].clone(), known));
        }
    }
    let controllers = spec.get("controllers").filter(|word| !word.is_null());
    if let Some(word) = controllers.filter(|word| !CONTROLLERS.iter().any(|known| **word == **known)) {
        errors.push(FieldError::not_supported(&path.child("controllers"), word.clone(), &CONTROLLERS));
    }
    if let Some(paused) = spec.get("paused").filter(|paused| !paused.is_null() && !paused.is_boolean()) {
        errors.push(FieldError::invalid(&path.child("paused"), paused.clone(), "must be true or false"));
    }
    if let Some(drift) = spec.get("drift").filter(|drift| !drift.is_null())
        && !Drift::NAMES.iter().any(|known| drift == *known)
    {
        errors.push(FieldError::not_supported(&path.child("drift"), drift.clone(), &Drift::NAMES));
    }
    for (index, taint) in spec["taints"].as_array().into_iter().flatten().enumerate() {
        let path = path.child("taints").index(index);
        if taint["key"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(&path.child("key"), ""));
        }
        if !EFFECTS.iter().any(|effect| taint["effect"] == *effect) {
            errors.push(FieldError::not_supported(&path.child("effect"), taint["effect"].clone(), &EFFECTS));
        }
    }
    for (name, limit) in spec["limits"].as_object().into_iter().flatten() {
        let path = path.child("limits").key(name);
        let is_quantity = match limit {
            Value::String(text) => Quantity::parse(text).is_ok(),
            other => other.is_i64(),
        };
        if !is_quantity {
            errors.push(FieldError::invalid(&path, limit.clone(), "must be a quantity"));
        }
    }
    if let Some(level) = spec.get("podSecurity").filter(|level| !level.is_null())
        && !Level::NAMES.iter().any(|known| level == *known)
    {
        errors.push(FieldError::not_supported(&path.child("podSecurity"), level.clone(), &Level::NAMES));
    }
    errors.extend(validate_workspaces(&spec["workspaces"], &path.child("workspaces")));
    errors.extend(overrides::validate(&spec["overrides"], &path.child("overrides")));
    // A kubeconfig here would be readable by all users who may read Clusters.
    if spec.get("kubeconfig").is_some_and(|inline| !inline.is_null()) {
        let message = "credentials belong into a Secret; name it in spec.credentials.secret";
        errors.push(FieldError::forbidden(&path.child("kubeconfig"), message));
    }
    errors
}

/// Limits what placement compares and keeps in memory. A Cluster from before the limits can have as many as before.
fn validate_counts(cluster: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let labels = |cluster: &Value| cluster["metadata"]["labels"].as_object().map_or(0, Map::len);
    let taints = |cluster: &Value| cluster["spec"]["taints"].as_array().map_or(0, Vec::len);
    let check = |path: FieldPath, count: fn(&Value) -> usize, most: usize| {
        let (count, before) = (count(cluster), old.map_or(0, count));
        (count > most && count > before).then(|| FieldError::too_many(&path, count, most))
    };
    let labels = check(FieldPath::new("metadata").child("labels"), labels, MAX_LABELS);
    let taints = check(FieldPath::new("spec").child("taints"), taints, MAX_TAINTS);
    labels.into_iter().chain(taints).collect()
}

/// Validates paths, which are relative because a Cluster does not know the path of its workspace.
fn validate_workspaces(workspaces: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let all: Vec<&str> = workspaces.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if all.len() > MAX_WORKSPACES {
        errors.push(FieldError::too_many(path, all.len(), MAX_WORKSPACES));
    }
    for (index, workspace) in all.iter().enumerate().take(MAX_WORKSPACES) {
        let path = path.index(index);
        let is_path = workspace.split(':').all(|name| names::name_is_dns_label(name, false).is_empty());
        if !is_path {
            let message =
                "must be the path of a workspace below the one of the Cluster, such as team or org:team";
            errors.push(FieldError::invalid(&path, *workspace, message));
        } else if all[..index].contains(workspace) {
            errors.push(FieldError::duplicate(&path, *workspace));
        }
    }
    errors
}

/// Refuses a changed cluster identity: a different cluster would get the objects of the first.
fn validate_identity(new: &Value, old: &Value) -> Vec<FieldError> {
    let (now, before) = (text(new, "status.id"), text(old, "status.id"));
    let path = FieldPath::new("status").child("id");
    let is_another = !before.is_empty() && now != before;
    is_another.then(|| FieldError::invalid(&path, now, "field is immutable")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_validated() {
        for (spec, expected) in [
            (json!(null), ""),
            (json!({ "mode": "none", "taints": [{ "key": "a", "effect": "NoSchedule" }] }), ""),
            (json!({ "limits": { "cpu": "10", "memory": "1Ti", "pods": 100 } }), ""),
            (
                json!({ "mode": "Push" }),
                "spec.mode: Unsupported value: \"Push\": supported values: \"none\", \"pull\", \"push\"",
            ),
            (
                json!({ "taints": [{ "key": "a", "effect": "No" }] }),
                "spec.taints[0].effect: Unsupported value: \"No\": supported values: \"NoExecute\", \"NoSchedule\", \
                 \"PreferNoSchedule\"",
            ),
            (
                json!({ "limits": { "cpu": "x" } }),
                "spec.limits[cpu]: Invalid value: \"x\": must be a quantity",
            ),
            (json!({ "controllers": "allow" }), ""),
            (
                json!({ "controllers": true }),
                "spec.controllers: Unsupported value: true: supported values: \"allow\", \"refuse\"",
            ),
            (json!({ "drift": "report" }), ""),
            (
                json!({ "drift": "ignore" }),
                "spec.drift: Unsupported value: \"ignore\": supported values: \"correct\", \"report\"",
            ),
            (json!({ "paused": true }), ""),
            (json!({ "paused": "yes" }), "spec.paused: Invalid value: \"yes\": must be true or false"),
            (json!({ "overrides": [{ "registry": { "to": "mirror.local:5000" } }] }), ""),
            (
                json!({ "overrides": [{ "env": [{ "name": "" }] }] }),
                "spec.overrides[0].env[0].name: Required value",
            ),
            (json!({ "podSecurity": "restricted", "workspaces": ["team", "org:team"] }), ""),
            (
                json!({ "podSecurity": "strict" }),
                "spec.podSecurity: Unsupported value: \"strict\": supported values: \"privileged\", \"baseline\", \
                 \"restricted\"",
            ),
            (
                json!({ "workspaces": ["team", "", ":a", "team"] }),
                "spec.workspaces[1]: Invalid value: \"\": must be the path of a workspace below the one of the Cluster, such as \
                 team or org:team\nspec.workspaces[2]: Invalid value: \":a\": must be the path of a workspace below the one of \
                 the Cluster, such as team or org:team\nspec.workspaces[3]: Duplicate value: \"team\"",
            ),
            (
                json!({ "kubeconfig": "secret" }),
                "spec.kubeconfig: Forbidden: credentials belong into a Secret; name it in spec.credentials.secret",
            ),
        ] {
            let mut cluster = json!({ "spec": spec });
            fill(&mut cluster);
            let errors: Vec<String> = validate(&cluster).iter().map(ToString::to_string).collect();
            assert_eq!(errors.join("\n"), expected, "{spec}");
        }
    }

    #[test]
    fn the_identity_of_a_cluster_is_immutable() {
        let of = |id: &str| json!({ "status": { "id": id } });
        assert!(validate_identity(&of("a"), &of("")).is_empty());
        assert!(validate_identity(&of("a"), &of("a")).is_empty());
        assert_eq!(validate_identity(&of("b"), &of("a")).len(), 1);
        assert_eq!(validate_identity(&of(""), &of("a")).len(), 1);
    }
}
