//! The scale subresource: replicas as an `autoscaling/v1` Scale.

// upstream: pkg/registry/apps/deployment/storage/storage.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go

use std::sync::LazyLock;

use atoll_merge::apply::{Kind, REPLICAS, parent_fields, scale_fields};
use atoll_meta::{FieldError, FieldPath, LabelSelector, Status, object};
use atoll_schema::Types;
use serde_json::{Map, Value, json};

use crate::row::Row;
use crate::strategy::at;

/// Managed fields of a Scale.
pub static MANAGED: LazyLock<Kind> = LazyLock::new(|| {
    Kind::new("autoscaling/v1".to_owned(), "Scale", Types::get().by_kind("autoscaling", "v1", "Scale"))
});

/// Replaces a missing number of replicas of a custom object.
const MISSING: i64 = i32::MIN as i64;

/// The Scale of an object with its managed fields.
pub fn with_managers(row: &Row, object: &Value) -> Result<Value, Status> {
    let (mut scale, is_set) = build(row, object)?;
    if !is_set {
        scale["spec"]["replicas"] = MISSING.into();
    }
    let managed = object["metadata"].get("managedFields");
    let entries = with_path(row, |path| scale_fields(managed, &row.api_version(), path));
    if let Some(entries) = entries {
        object::metadata_mut(&mut scale).insert("managedFields".into(), entries);
    }
    Ok(scale)
}

/// The Scale of an object.
pub fn of(row: &Row, object: &Value) -> Result<Value, Status> {
    let (scale, is_set) = build(row, object)?;
    if is_set {
        return Ok(scale);
    }
    let path =
        row.custom.as_ref().and_then(|custom| custom.scale()).map_or("", |scale| &*scale.spec_replicas);
    Err(Status::internal_error(format!("the spec replicas field {path:?} does not exist")))
}

/// The Scale of an object that has just been written.
pub fn after(row: &Row, object: &Value) -> Result<Value, Status> {
    build(row, object).map(|(scale, _)| scale)
}

/// The Scale of an object, and whether the object sets the number of replicas.
fn build(row: &Row, object: &Value) -> Result<(Value, bool), Status> {
    match row.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(scale) => scale.build(object).map_err(Status::plain_internal),
        None => Ok((builtin_scale(row, object), true)),
    }
}

/// Calls `then` with the path of the replicas field.
fn with_path<T>(row: &Row, then: impl FnOnce(&[&str]) -> T) -> T {
    match row.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(scale) => {
            let path = scale.spec_replicas.strip_prefix('.').unwrap_or(&scale.spec_replicas);
            then(&path.split('.').collect::<Vec<_>>())
        }
        None => then(REPLICAS),
    }
}

/// The Scale of an object of a built-in kind.
fn builtin_scale(row: &Row, object: &Value) -> Value {
    let fields = &object["metadata"];
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = fields.get(name) {
            metadata.insert(name.into(), value.clone());
        }
    }
    let count = |path: &str| at(object, path).and_then(Value::as_i64);
    let mut spec = Map::new();
    if let Some(replicas) = count("spec.replicas").filter(|replicas| *replicas != 0) {
        spec.insert("replicas".into(), replicas.into());
    }
    let mut status = json!({ "replicas": count("status.replicas").unwrap_or(0) });
    let selector = selector(row, object);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status })
}

/// Sets the replicas and managed fields of an object from `scale`.
pub fn apply(row: &Row, object: &Value, scale: &Value) -> Result<Value, Status> {
    let replicas = at(scale, "spec.replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 && row.custom.is_none() {
        let path = FieldPath::new("spec").child("replicas");
        let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        let name = at(scale, "metadata.name").and_then(Value::as_str).unwrap_or_default();
        return Err(Status::invalid("autoscaling", "Scale", name, vec![error]));
    }
    let mut scaled = object.clone();
    match row.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(own) if replicas == MISSING => {
            let path = &own.spec_replicas;
            return Err(Status::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
        }
        Some(own) => {
            let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
            own.write(&mut scaled, replicas).map_err(Status::plain_internal)?;
        }
        None => scaled["spec"]["replicas"] = replicas.into(),
    }
    // The preconditions of the Scale apply to the object.
    for field in ["resourceVersion", "uid"] {
        let wanted = scale["metadata"][field].as_str().unwrap_or_default();
        match wanted {
            // A custom object keeps the resource version with which it was read.
            "" if field == "resourceVersion" && row.custom.is_none() => scaled["metadata"][field] = "".into(),
            "" => {}
            wanted => scaled["metadata"][field] = wanted.into(),
        }
    }
    let (parent, own) = (object["metadata"].get("managedFields"), scale["metadata"].get("managedFields"));
    let managed = with_path(row, |path| parent_fields(parent, own, &row.api_version(), path));
    let fields = object::metadata_mut(&mut scaled);
    match managed {
        Some(managed) => fields.insert("managedFields".into(), managed),
        None => fields.remove("managedFields"),
    };
    Ok(scaled)
}

fn selector(row: &Row, object: &Value) -> String {
    let Some(selector) = at(object, "spec.selector") else { return String::new() };
    // ReplicationControllers have a map as selector, all others a LabelSelector.
    let wrapped = match row.resource.as_str() {
        "replicationcontrollers" => json!({ "matchLabels": selector }),
        _ => selector.clone(),
    };
    LabelSelector::from_object(&wrapped).map(|selector| selector.to_string()).unwrap_or_default()
}
