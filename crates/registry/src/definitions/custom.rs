//! What a row has that a definition made.

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::{FieldError, FieldPath};
use atoll_schema::Types;
use serde_json::{Map, Value};

use crate::row::Row;
use crate::strategy::{MetadataChecks, Strategy, at};

/// One version of a custom resource.
#[derive(Debug)]
pub struct Custom {
    /// A number of its own: objects say by it which version of which definition their JSON is right for.
    pub form: u64,
    pub version: Box<str>,
    pub list_kind: Box<str>,
    /// The version that objects are stored in; `None` if it is this one.
    pub stored: Option<Arc<Custom>>,
    /// What every request is told.
    pub deprecation: Option<Box<str>>,
    pub scale: Option<ScalePaths>,
    /// Selectable fields: the name, and the way to it in the object.
    pub selectable: Box<[(Arc<str>, Box<[Box<str>]>)]>,
    /// Whether nothing new may be created, for the definition is going.
    pub is_terminating: bool,
}

/// Where an object has what its Scale shows.
#[derive(Debug)]
pub struct ScalePaths {
    pub spec_replicas: Box<str>,
    pub status_replicas: Box<str>,
    pub selector: Option<Box<str>>,
}

/// What a write of the status leaves as it is: all but the account of who manages what.
const ALL_METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "labels",
    "ownerReferences",
];

/// The rules of all custom resources.
pub static STRATEGY: Strategy = Strategy {
    generation: true,
    is_counted: |new, old| differs_beside_metadata(new, old),
    unconditional_update: false,
    finalizer_names: false,
    metadata_checks: MetadataChecks::Twice,
    status_keeps: ALL_METADATA,
    ..Strategy::GENERIC
};

fn differs_beside_metadata(new: &Value, old: &Value) -> bool {
    fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata")
    }
    !members(new).eq(members(old))
}

impl Custom {
    /// The version that objects are stored in.
    pub fn storage(&self) -> &Custom {
        self.stored.as_deref().unwrap_or(self)
    }

    /// Whether objects can be selected by this field.
    pub fn is_selectable(&self, field: &str) -> bool {
        self.selectable.iter().any(|(name, _)| **name == *field)
    }

    /// What goes without saying.
    pub fn fill(&self, _object: &mut Value) {}

    /// Brings an object of this version into its form: what is not known goes. Returns the paths of what went, or why it
    /// cannot be read.
    pub fn shape(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let types = Types::get();
        let (Some(id), Some(metadata)) = (types.by_key("meta/v1.ObjectMeta"), object.get_mut("metadata")) else {
            return Ok(Vec::new());
        };
        let unknown = atoll_schema::normalise(types, id, metadata).map_err(|error| error.to_string())?;
        Ok(unknown.iter().map(|remark| format!("metadata.{remark}")).collect())
    }

    /// All that is wrong with a new object whose metadata has these errors.
    pub fn check_create(&self, row: &Row, new: &Value, metadata: Vec<FieldError>) -> Vec<FieldError> {
        let mut errors = type_errors(row, new);
        if errors.is_empty() {
            errors = metadata;
            errors.extend(self.scale_errors(new, true));
        }
        errors
    }

    /// All that is wrong with a changed object, or the status of one, whose metadata has these errors.
    pub fn check_update(
        &self,
        row: &Row,
        subresource: &str,
        new: &Value,
        _old: &Value,
        metadata: Vec<FieldError>,
    ) -> Vec<FieldError> {
        let mut errors = metadata;
        errors.extend(type_errors(row, new));
        errors.extend(self.scale_errors(new, subresource != "status"));
        errors
    }

    fn scale_errors(&self, object: &Value, with_spec: bool) -> Vec<FieldError> {
        let Some(scale) = &self.scale else { return Vec::new() };
        let spec = with_spec.then_some(&scale.spec_replicas);
        let counts = spec.into_iter().chain([&scale.status_replicas]);
        let mut errors: Vec<FieldError> = counts.filter_map(|path| count_error(object, path)).collect();
        if let Some(path) = &scale.selector
            && let Err(problem) = text_at(object, path)
        {
            errors.push(FieldError::invalid(&FieldPath::new(path.to_string()), "", problem));
        }
        errors
    }

    /// What is remarked on: finalizers that do not say whose they are.
    pub fn remarks(&self, subresource: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        if !subresource.is_empty() {
            return Vec::new();
        }
        let known: Vec<&str> = old.into_iter().flat_map(object::finalizers).collect();
        let mut added: Vec<&str> = object::finalizers(new).filter(|name| !known.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_remarks).collect()
    }
}

/// An object must be of the kind that it is sent as.
fn type_errors(row: &Row, object: &Value) -> Vec<FieldError> {
    let (kind, api_version) = (object::kind(object), row.api_version());
    let mut errors = Vec::new();
    if kind != row.kind {
        let message = format!("must be {}", row.kind);
        errors.push(FieldError::invalid(&FieldPath::new("kind"), kind, message));
    }
    if object::api_version(object) != api_version {
        let message = format!("must be {api_version}");
        errors.push(FieldError::invalid(&FieldPath::new("apiVersion"), object::api_version(object), message));
    }
    errors
}

fn finalizer_remarks(name: &str) -> Vec<String> {
    let told = |words: &str| format!("metadata.finalizers: {name:?}: {words}");
    let mut remarks: Vec<String> =
        atoll_meta::names::is_qualified_name(name).iter().map(|problem| told(problem)).collect();
    if !name.contains('/') && !matches!(name, "orphan" | "foregroundDeletion" | "kubernetes") {
        remarks.push(told(match name.contains('.') {
            true => {
                "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other \
                 finalizer writers"
            }
            false => {
                "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            }
        }));
    }
    remarks
}

/// The steps of a path such as `.spec.replicas`.
pub fn steps(path: &str) -> &str {
    path.strip_prefix('.').unwrap_or(path)
}

/// What upstream says of a value on the way, or at the end, that is not what it must be.
fn misfit(object: &Value, path: &str, wanted: &str) -> Option<String> {
    let all: Vec<&str> = steps(path).split('.').collect();
    let mut value = object;
    for (depth, step) in all.iter().enumerate() {
        let Some(fields) = value.as_object() else {
            let way = all[..depth].join(".");
            return Some(format!(
                ".{way} accessor error: {} is of the type {}, expected map[string]interface {{}}",
                go_value(value),
                go_type(value)
            ));
        };
        value = fields.get(*step)?;
    }
    Some(format!(
        ".{} accessor error: {} is of the type {}, expected {wanted}",
        all.join("."),
        go_value(value),
        go_type(value)
    ))
}

/// The number at a path, `None` if there is none.
pub fn count_at(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match at(object, steps(path)) {
        Some(value) if value.is_i64() => Ok(value.as_i64()),
        Some(_) => Err(misfit(object, path, "int64").unwrap_or_default()),
        None => misfit(object, path, "int64").map_or(Ok(None), Err),
    }
}

/// The text at a path, empty if there is none.
pub fn text_at<'a>(object: &'a Value, path: &str) -> Result<&'a str, String> {
    match at(object, steps(path)) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(misfit(object, path, "string").unwrap_or_default()),
        None => misfit(object, path, "string").map_or(Ok(""), Err),
    }
}

fn count_error(object: &Value, path: &str) -> Option<FieldError> {
    let place = FieldPath::new(path.to_string());
    match count_at(object, path) {
        Err(problem) => Some(FieldError::invalid(&place, 0, problem)),
        Ok(Some(count)) if count < 0 => {
            Some(FieldError::invalid(&place, count, "should be a non-negative integer"))
        }
        Ok(Some(count)) if count > i64::from(i32::MAX) => {
            let message = format!("should be less than or equal to {}", i32::MAX);
            Some(FieldError::invalid(&place, count, message))
        }
        Ok(_) => None,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%v` prints it.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let fields: &Map<String, Value> = fields;
            let shown = fields.iter().map(|(name, value)| format!("{name}:{}", go_value(value)));
            format!("map[{}]", shown.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}
