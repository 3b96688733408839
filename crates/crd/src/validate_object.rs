//! Validation of custom objects.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go

use atoll_meta::field::FieldErrorKind;
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::Value;

use crate::correlate::Correlated;
use crate::definition::Version;
use crate::schema::Schema;
use crate::validate_value::{MOST, failures, is_valid};

/// The result of a validation.
#[derive(Debug, Default)]
pub struct ValidationResult {
    /// Errors that refuse the object.
    pub errors: Vec<FieldError>,
    /// Errors that existed before the update (ratcheting).
    pub warnings: Vec<String>,
}

const NULL: &Value = &Value::Null;

impl Schema {
    /// Validates a new object against the keywords of the schema.
    pub fn check(&self, object: &Value, deadline: &Deadline<'_>) -> Vec<FieldError> {
        if is_valid(&self.nodes, self.root(), object, deadline) {
            return Vec::new();
        }
        let found = failures(&self.nodes, self.root(), object, None, deadline);
        found.into_iter().map(|failure| failure.into_error(&FieldPath::nil())).collect()
    }

    /// Validates an updated object; unchanged values are not refused.
    pub fn check_change(&self, new: &Value, old: &Value, deadline: &Deadline<'_>) -> Vec<FieldError> {
        if is_valid(&self.nodes, self.root(), new, deadline) {
            return Vec::new();
        }
        let before = Correlated { nodes: &self.nodes, node: self.root(), new, old };
        let found = failures(&self.nodes, self.root(), new, Some(before), deadline);
        found.into_iter().map(|failure| failure.into_error(&FieldPath::nil())).collect()
    }

    /// Validates an object of a kind with its own validation code: only keywords and unique list items.
    pub fn validate_fields(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let deadline = &Deadline::never();
        let mut errors = match old {
            None => self.check(new, deadline),
            Some(old) => self.check_change(new, old, deadline),
        };
        if old.is_none_or(|old| self.validate_lists(old).is_empty()) {
            errors.extend(self.validate_lists(new));
        }
        errors
    }

    /// Validates only the status.
    fn check_status(&self, new: &Value, old: &Value, deadline: &Deadline<'_>) -> Vec<FieldError> {
        let (Some(id), Some(status)) = (self.root().property("status"), new.get("status")) else {
            return Vec::new();
        };
        let node = self.node(id);
        if is_valid(&self.nodes, node, status, deadline) {
            return Vec::new();
        }
        let old = old.get("status").unwrap_or(NULL);
        let before = Correlated { nodes: &self.nodes, node, new: status, old };
        let found = failures(&self.nodes, node, status, Some(before), deadline);
        found.into_iter().map(|failure| failure.into_error(&FieldPath::new("status"))).collect()
    }
}

impl Version {
    /// Validates a new object. `findings` contains the metadata errors and gets all others; it is invalid
    /// once the deadline has passed.
    pub fn validate_create(&self, object: &Value, findings: &mut ValidationResult, deadline: &Deadline<'_>) {
        let schema = &self.schema;
        findings.errors.extend(schema.check(object, deadline));
        if let Some(scale) = &self.scale {
            scale.validate_spec(object, &mut findings.errors);
            scale.validate_status(object, &mut findings.errors);
        }
        findings.errors.extend(schema.validate_embedded(object));
        findings.errors.extend(schema.validate_lists(object));
        self.validate_rules(object, None, findings, deadline);
    }

    /// Validates an updated object.
    pub fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        findings: &mut ValidationResult,
        deadline: &Deadline<'_>,
    ) {
        let schema = &self.schema;
        findings.errors.extend(schema.check_change(new, old, deadline));
        if let Some(scale) = &self.scale {
            scale.validate_spec(new, &mut findings.errors);
            scale.validate_status(new, &mut findings.errors);
        }
        findings.errors.extend(schema.validate_embedded(new));
        self.validate_lists_change(new, old, findings);
        self.validate_rules(new, Some(old), findings, deadline);
    }

    /// Validates an update of the status.
    pub fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        findings: &mut ValidationResult,
        deadline: &Deadline<'_>,
    ) {
        findings.errors.extend(self.schema.check_status(new, old, deadline));
        if let Some(scale) = &self.scale {
            scale.validate_status(new, &mut findings.errors);
        }
        self.validate_lists_change(new, old, findings);
        self.validate_rules(new, Some(old), findings, deadline);
    }

    /// Duplicate items are refused only if the old object had none.
    fn validate_lists_change(&self, new: &Value, old: &Value, findings: &mut ValidationResult) {
        let found = self.schema.validate_lists(new);
        if !found.is_empty() && self.schema.validate_lists(old).is_empty() {
            findings.errors.extend(found);
        }
    }

    fn validate_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        findings: &mut ValidationResult,
        deadline: &Deadline<'_>,
    ) {
        if deadline.has_passed() || !self.schema.has_rules() || self.schema.rules().is_empty() {
            return;
        }
        if findings.errors.len() >= MOST || findings.errors.iter().any(is_blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            findings.errors.push(FieldError::invalid(&FieldPath::nil(), Value::Null, detail));
        } else {
            self.schema.validate_rules(new, old, findings, deadline);
        }
    }
}

/// Whether an error prevents the evaluation of rules.
fn is_blocking(error: &FieldError) -> bool {
    matches!(
        error.kind(),
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}
