//! A version of a custom resource in a row.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go

use std::sync::Arc;

use atoll_crd::{Column, Definition, Origin, Scale, ValidationResult, Version};
use atoll_meta::object;
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::Value;

use crate::strategy::{MetadataChecks, Strategy};

/// One version of a custom resource.
#[derive(Debug)]
pub struct CustomVersion {
    /// Unique number: objects record with it for which version of which definition their JSON is valid.
    pub form: u64,
    /// The compiled version with its schema.
    pub version: Version,
    /// All versions.
    pub definition: Definition,
    pub list_kind: Box<str>,
    /// The group in the keys of its objects.
    pub key_group: Box<str>,
    /// The deprecation warning for every request.
    pub deprecation: Option<Box<str>>,
    /// The storage version; `None` if it is this one.
    pub stored: Option<Arc<CustomVersion>>,
    /// The names of the selectable fields.
    pub selectable: Box<[Arc<str>]>,
    /// Whether no objects can be created because the definition is being deleted.
    pub is_terminating: bool,
}

/// Metadata that a status update does not change: everything but the managed fields.
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

/// The strategy of all custom resources.
pub static STRATEGY: Strategy = Strategy {
    generation: true,
    raises_generation: differs_beside_metadata,
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

impl CustomVersion {
    /// The storage version.
    pub fn storage(&self) -> &CustomVersion {
        self.stored.as_deref().unwrap_or(self)
    }

    /// The field paths of the scale subresource.
    pub fn scale(&self) -> Option<&Scale> {
        self.version.scale.as_ref()
    }

    /// The columns of a table, besides the name.
    pub fn columns(&self) -> &[Column] {
        &self.version.columns
    }

    /// Whether the field is selectable.
    pub fn is_selectable(&self, field: &str) -> bool {
        self.selectable.iter().any(|name| **name == *field)
    }

    /// Applies the defaults of the schema. Returns whether the object stayed within the size limit.
    pub fn fill(&self, object: &mut Value) -> bool {
        self.version.schema.apply_defaults(object)
    }

    /// Coerces an object to the schema of this version and removes unknown fields. Returns their paths, or an
    /// error if the object cannot be decoded.
    pub fn shape(&self, object: &mut Value, origin: Origin) -> Result<Vec<String>, String> {
        self.version.schema.read(object, origin)
    }

    /// All validation errors of a new object, including the given errors of its metadata.
    pub fn check_create(
        &self,
        kind: &str,
        api_version: &str,
        new: &Value,
        metadata: Vec<FieldError>,
        deadline: &Deadline<'_>,
    ) -> Vec<FieldError> {
        let errors = type_errors(kind, api_version, new);
        if !errors.is_empty() {
            return errors;
        }
        let mut findings = ValidationResult { errors: metadata, ..ValidationResult::default() };
        self.version.validate_create(new, &mut findings, deadline);
        findings.errors
    }

    /// All validation errors of an updated object or status, including the given errors of its metadata.
    pub fn check_update(
        &self,
        (kind, api_version, subresource): (&str, &str, &str),
        new: &Value,
        old: &Value,
        metadata: Vec<FieldError>,
        deadline: &Deadline<'_>,
    ) -> Vec<FieldError> {
        let mut findings = ValidationResult { errors: metadata, ..ValidationResult::default() };
        let errors = type_errors(kind, api_version, new);
        if !errors.is_empty() {
            findings.errors.extend(errors);
            return findings.errors;
        }
        match subresource {
            "status" => self.version.validate_status_update(new, old, &mut findings, deadline),
            _ => self.version.validate_update(new, old, &mut findings, deadline),
        }
        findings.errors
    }

    /// Warnings about finalizers without a domain.
    pub fn write_warnings(&self, subresource: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        if !subresource.is_empty() {
            return Vec::new();
        }
        let known: Vec<&str> = old.into_iter().flat_map(object::finalizers).collect();
        let mut added: Vec<&str> = object::finalizers(new).filter(|name| !known.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }
}

/// Errors if the object's kind differs from the requested one.
fn type_errors(kind: &str, api_version: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object::kind(object) != kind {
        let message = format!("must be {kind}");
        errors.push(FieldError::invalid(&FieldPath::new("kind"), object::kind(object), message));
    }
    if object::api_version(object) != api_version {
        let message = format!("must be {api_version}");
        errors.push(FieldError::invalid(&FieldPath::new("apiVersion"), object::api_version(object), message));
    }
    errors
}

fn finalizer_warnings(name: &str) -> Vec<String> {
    let warning = |words: &str| format!("metadata.finalizers: {name:?}: {words}");
    let mut warnings: Vec<String> =
        atoll_meta::names::qualified_name(name).iter().map(|problem| warning(problem)).collect();
    if !name.contains('/') && !matches!(name, "orphan" | "foregroundDeletion" | "kubernetes") {
        warnings.push(warning(match name.contains('.') {
            true => {
                "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other \
                 finalizer writers"
            }
            false => {
                "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            }
        }));
    }
    warnings
}
