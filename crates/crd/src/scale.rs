//! The scale subresource of custom objects.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go

use std::fmt;

use atoll_meta::quote::{print_float, quote};
use atoll_meta::{FieldError, FieldPath, object};
use serde_json::{Map, Value, json};

use crate::embedded::go_type;

/// The field paths of the scale subresource, with dots, as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: Box<str>,
    pub status_replicas: Box<str>,
    pub label_selector: Option<Box<str>>,
}

/// The reason why a scale cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleError {
    /// A value on the path has the wrong type; upstream's message.
    Type(String),
    /// The object does not set the replicas; the path of the field.
    Absent(String),
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScaleError::Type(message) => f.write_str(message),
            ScaleError::Absent(path) => write!(f, "the spec replicas field {} does not exist", quote(path)),
        }
    }
}

impl std::error::Error for ScaleError {}

/// The steps of a path without its leading dot.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// A path with a dot before each step.
fn dotted<'a>(path: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for step in path {
        text.push('.');
        text.push_str(step);
    }
    text
}

/// The value at a path.
fn find<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    for (index, step) in steps(path).enumerate() {
        match value {
            Value::Object(fields) => match fields.get(step) {
                Some(found) => value = found,
                None => return Ok(None),
            },
            // Upstream treats null as absent.
            Value::Null => return Ok(None),
            other => {
                let wrong = dotted(steps(path).take(index + 1));
                let (shown, kind) = (go_print(other), go_type(other));
                return Err(format!(
                    "{wrong} accessor error: {shown} is of the type {kind}, expected map[string]interface{{}}"
                ));
            }
        }
    }
    Ok(Some(value))
}

/// A value as Go's `%v` prints it.
pub(crate) fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}:{}", go_print(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        Value::Number(number) if !number.is_i64() => print_float(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

fn integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match find(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(path, value, "int64")),
        },
    }
}

fn text<'v>(object: &'v Value, path: &str) -> Result<&'v str, String> {
    match find(object, path)? {
        None => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| wrong(path, value, "string")),
    }
}

fn wrong(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, kind) = (go_print(value), go_type(value));
    format!("{} accessor error: {shown} is of the type {kind}, expected {wanted}", dotted(steps(path)))
}

impl Scale {
    /// The `autoscaling/v1` Scale of an object.
    pub fn read(&self, object: &Value) -> Result<Value, ScaleError> {
        let (scale, found) = self.build(object).map_err(ScaleError::Type)?;
        if found { Ok(scale) } else { Err(ScaleError::Absent(self.spec_replicas.to_string())) }
    }

    /// The Scale of an object, and whether the object sets the replicas; absent replicas are 0.
    pub fn build(&self, object: &Value) -> Result<(Value, bool), String> {
        let wanted = integer(object, &self.spec_replicas)?;
        let there = integer(object, &self.status_replicas)?.unwrap_or_default();
        let selector = match &self.label_selector {
            Some(path) if !path.is_empty() => text(object, path)?,
            _ => "",
        };
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object::metadata(object).and_then(|metadata| metadata.get(field)) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let mut spec = Map::new();
        // Go truncates to 32 bits and omits 0.
        let replicas = wanted.unwrap_or_default() as i32;
        if replicas != 0 {
            spec.insert("replicas".to_owned(), Value::from(replicas));
        }
        let mut status = Map::new();
        status.insert("replicas".to_owned(), Value::from(there as i32));
        if !selector.is_empty() {
            status.insert("selector".to_owned(), Value::from(selector));
        }
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status,
        });
        Ok((scale, wanted.is_some()))
    }

    /// Sets the number of replicas in the object.
    pub fn write(&self, object: &mut Value, replicas: i32) -> Result<(), String> {
        let path: Vec<&str> = steps(&self.spec_replicas).collect();
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        let mut value = object;
        for (index, step) in way.iter().enumerate() {
            let Value::Object(fields) = value else { return Err(not_a_map(&path[..index])) };
            value = fields.entry(*step).or_insert_with(|| Value::Object(Map::new()));
        }
        let Value::Object(fields) = value else { return Err(not_a_map(way)) };
        fields.insert((*last).to_owned(), Value::from(replicas));
        Ok(())
    }

    pub(crate) fn validate_spec(&self, object: &Value, errors: &mut Vec<FieldError>) {
        replicas(object, &self.spec_replicas, errors);
    }

    pub(crate) fn validate_status(&self, object: &Value, errors: &mut Vec<FieldError>) {
        replicas(object, &self.status_replicas, errors);
        if let Some(path) = &self.label_selector
            && let Err(message) = text(object, path)
        {
            errors.push(FieldError::invalid(&FieldPath::new(path.to_string()), "", message));
        }
    }
}

fn not_a_map(path: &[&str]) -> String {
    let path = dotted(path.iter().copied());
    format!("value cannot be set because {path} is not a map[string]interface{{}}")
}

fn replicas(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (number, detail) = match integer(object, path) {
        Err(message) => (0, message),
        Ok(Some(number)) if number < 0 => (number, "should be a non-negative integer".to_owned()),
        Ok(Some(number)) if number > i64::from(i32::MAX) => {
            (number, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(&FieldPath::new(path.to_owned()), number, detail));
}
