//! Validation of overrides, field by field.

use std::collections::{BTreeMap, BTreeSet};

use atoll_meta::{FieldError, FieldPath, names, object};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Match, Override, Registry, Variable, image};
use crate::marks;

const MAX_ROWS: usize = 100;
const MAX_OPERATIONS: usize = 1000;

const FIELDS: &[&str] = &["match", "registry", "storageClass", "env", "labels", "annotations", "patch"];
const OPERATIONS: &[&str] = &["add", "copy", "move", "remove", "replace", "test"];
/// Paths that patches must not change: the identity of the object, and its status.
const FIXED: &[&str] =
    &["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid", "/status"];

/// Returns all errors of `spec.overrides` at `path`.
pub fn validate(overrides: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Errors(Vec::new());
    match overrides {
        Value::Null => {}
        Value::Array(rows) if rows.len() > MAX_ROWS => {
            errors.0.push(FieldError::too_many(path, rows.len(), MAX_ROWS));
        }
        Value::Array(rows) => {
            rows.iter().enumerate().for_each(|(index, row)| errors.row(row, &path.index(index)));
        }
        other => errors.0.push(FieldError::type_invalid(path, other.clone(), "must be a list")),
    }
    errors.0
}

struct Errors(Vec<FieldError>);

impl Errors {
    fn row(&mut self, row: &Value, path: &FieldPath) {
        let Some(fields) = row.as_object() else {
            return self.0.push(FieldError::type_invalid(path, row.clone(), "must be an object"));
        };
        for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
            self.0.push(FieldError::not_supported(path, name.as_str(), FIELDS));
        }
        // Field by field, so that every error has its path.
        let row = Override {
            matches: self.read::<Match>(row, "match", path).unwrap_or_default(),
            registry: self.read::<Registry>(row, "registry", path),
            storage_class: self.read(row, "storageClass", path).unwrap_or_default(),
            env: self.read::<Vec<Variable>>(row, "env", path).unwrap_or_default(),
            labels: self.read(row, "labels", path).unwrap_or_default(),
            annotations: self.read(row, "annotations", path).unwrap_or_default(),
            patch: self.read(row, "patch", path).unwrap_or_default(),
        };
        self.matches(&row.matches, &path.child("match"));
        if let Some(registry) = &row.registry {
            self.registry(registry, &path.child("registry"));
        }
        self.classes(&row.storage_class, &path.child("storageClass"));
        self.variables(&row.env, &path.child("env"));
        let labels = path.child("labels");
        self.0.extend(object::validate_labels(pairs(&row.labels), &labels));
        self.reject_marks(&row.labels, &labels);
        let annotations = path.child("annotations");
        self.0.extend(object::validate_annotations(pairs(&row.annotations), &annotations));
        self.reject_marks(&row.annotations, &annotations);
        self.patch(&row.patch, &path.child("patch"));
    }

    fn read<T: DeserializeOwned>(&mut self, row: &Value, name: &'static str, path: &FieldPath) -> Option<T> {
        let value = row.get(name).filter(|value| !value.is_null())?;
        match T::deserialize(value) {
            Ok(read) => Some(read),
            Err(error) => {
                // The error is shown without the value, which may be secret.
                self.0.push(FieldError::forbidden(&path.child(name), format!("cannot be read: {error}")));
                None
            }
        }
    }

    fn matches(&mut self, matches: &Match, path: &FieldPath) {
        for (index, kind) in matches.kinds.iter().enumerate() {
            let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
                && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
            if !is_kind {
                let detail = "must be a kind, such as Deployment or Deployment.apps";
                self.0.push(FieldError::invalid(&path.child("kinds").index(index), kind.as_str(), detail));
            }
        }
        for (index, namespace) in matches.namespaces.iter().enumerate() {
            self.each(&path.child("namespaces").index(index), namespace, names::dns1123_label(namespace));
        }
        self.0.extend(object::validate_labels(pairs(&matches.labels), &path.child("labels")));
    }

    fn registry(&mut self, registry: &Registry, path: &FieldPath) {
        let sides = [("from", registry.from.as_ref()), ("to", Some(&registry.to))];
        for (name, value) in sides.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            let path = path.child(name);
            if value.is_empty() {
                self.0.push(FieldError::required(&path, ""));
            } else if let Some(detail) = broken_registry(value) {
                self.0.push(FieldError::invalid(&path, value.as_str(), detail));
            }
        }
    }

    fn classes(&mut self, classes: &BTreeMap<String, String>, path: &FieldPath) {
        for (from, to) in classes {
            let path = path.key(from);
            for name in [from, to].into_iter().filter(|name| !name.is_empty()) {
                self.each(&path, name, names::dns1123_subdomain(name));
            }
        }
    }

    fn variables(&mut self, variables: &[Variable], path: &FieldPath) {
        let mut seen = BTreeSet::new();
        for (index, variable) in variables.iter().enumerate() {
            let path = path.index(index).child("name");
            if variable.name.is_empty() {
                self.0.push(FieldError::required(&path, ""));
                continue;
            }
            self.each(&path, &variable.name, names::relaxed_env_var_name(&variable.name));
            if !seen.insert(&variable.name) {
                self.0.push(FieldError::duplicate(&path, variable.name.as_str()));
            }
        }
    }

    fn patch(&mut self, patch: &[Value], path: &FieldPath) {
        if patch.len() > MAX_OPERATIONS {
            return self.0.push(FieldError::too_many(path, patch.len(), MAX_OPERATIONS));
        }
        for (index, operation) in patch.iter().enumerate() {
            self.operation(operation, &path.index(index));
        }
    }

    fn operation(&mut self, operation: &Value, path: &FieldPath) {
        let Some(name) = operation["op"].as_str() else {
            return self.0.push(FieldError::required(&path.child("op"), ""));
        };
        if !OPERATIONS.contains(&name) {
            return self.0.push(FieldError::not_supported(&path.child("op"), name, OPERATIONS));
        }
        let changes = if name == "move" { &["path", "from"][..] } else { &["path"] };
        for field in ["path", "from"] {
            let path = path.child(field);
            match operation[field].as_str() {
                None if field == "path" || matches!(name, "move" | "copy") => {
                    self.0.push(FieldError::required(&path, ""));
                }
                None => {}
                Some(pointer) if !pointer.starts_with('/') => {
                    self.0.push(FieldError::invalid(&path, pointer, "must begin with '/'"));
                }
                Some(pointer) if name != "test" && changes.contains(&field) && is_fixed(pointer) => {
                    self.0.push(FieldError::forbidden(
                        &path,
                        format!("{pointer} cannot be changed by overrides"),
                    ));
                }
                Some(_) => {}
            }
        }
        if matches!(name, "add" | "replace" | "test") && operation.get("value").is_none() {
            self.0.push(FieldError::required(&path.child("value"), ""));
        }
    }

    fn each(&mut self, path: &FieldPath, value: &str, broken: Vec<String>) {
        self.0.extend(broken.into_iter().map(|detail| FieldError::invalid(path, value, detail)));
    }

    fn reject_marks(&mut self, entries: &BTreeMap<String, String>, path: &FieldPath) {
        for key in entries.keys().filter(|key| key.starts_with(marks::PREFIX)) {
            self.0.push(FieldError::forbidden(&path.key(key), "is set by Atoll only"));
        }
    }
}

fn pairs(entries: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

/// Whether a pointer leads to a fixed path, into it, or to a parent of it.
fn is_fixed(pointer: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    pointer == "/" || FIXED.iter().any(|fixed| is_within(pointer, fixed) || is_within(fixed, pointer))
}

fn broken_registry(value: &str) -> Option<&'static str> {
    let (host, folders) = value.split_once('/').map_or((value, None), |(host, rest)| (host, Some(rest)));
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
    };
    if value.contains("://") {
        Some("must have no scheme")
    } else if !image::is_registry(host) {
        Some("must begin with the host of a registry, such as docker.io or localhost:5000")
    } else if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte)) {
        Some("must begin with the host of a registry and perhaps its port")
    } else if folders.is_some_and(|folders| !folders.split('/').all(is_part)) {
        Some("must be a registry, perhaps with folders, and no tag or digest")
    } else {
        None
    }
}
