//! All that is asked of an object before it is stored.

use atoll_meta::field::FieldErrorKind;
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::Value;

use crate::check::{MOST, failures, is_valid};
use crate::correlate::Correlated;
use crate::definition::Version;
use crate::schema::Schema;

/// What was found in an object.
#[derive(Debug, Default)]
pub struct Findings {
    /// What it is refused for.
    pub errors: Vec<FieldError>,
    /// What it would be refused for, had it not been so before.
    pub warnings: Vec<String>,
}

const NULL: &Value = &Value::Null;

impl Schema {
    /// What the keywords of the schema say about a new object.
    pub fn check(&self, object: &Value, deadline: &Deadline<'_>) -> Vec<FieldError> {
        if is_valid(&self.nodes, self.root(), object, deadline) {
            return Vec::new();
        }
        let found = failures(&self.nodes, self.root(), object, None, deadline);
        found.into_iter().map(|failure| failure.into_error(&FieldPath::nil())).collect()
    }

    /// The same for a changed object: what has not changed is not refused.
    pub fn check_change(&self, new: &Value, old: &Value, deadline: &Deadline<'_>) -> Vec<FieldError> {
        if is_valid(&self.nodes, self.root(), new, deadline) {
            return Vec::new();
        }
        let before = Correlated { nodes: &self.nodes, node: self.root(), new, old };
        let found = failures(&self.nodes, self.root(), new, Some(before), deadline);
        found.into_iter().map(|failure| failure.into_error(&FieldPath::nil())).collect()
    }

    /// The same of both, and items that are there twice. Who has rules of its own asks no more of its schema.
    pub fn complaints(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
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

    /// The same for the status alone.
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
    /// Checks a new object. `findings` has what is wrong with its metadata, and gets what else is; it does not count once the
    /// deadline has passed.
    pub fn validate_create(&self, object: &Value, findings: &mut Findings, deadline: &Deadline<'_>) {
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

    /// Checks a changed object.
    pub fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        findings: &mut Findings,
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

    /// Checks an object whose status was changed.
    pub fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        findings: &mut Findings,
        deadline: &Deadline<'_>,
    ) {
        findings.errors.extend(self.schema.check_status(new, old, deadline));
        if let Some(scale) = &self.scale {
            scale.validate_status(new, &mut findings.errors);
        }
        self.validate_lists_change(new, old, findings);
        self.validate_rules(new, Some(old), findings, deadline);
    }

    /// Items that are there twice are refused only where none were before.
    fn validate_lists_change(&self, new: &Value, old: &Value, findings: &mut Findings) {
        let found = self.schema.validate_lists(new);
        if !found.is_empty() && self.schema.validate_lists(old).is_empty() {
            findings.errors.extend(found);
        }
    }

    fn validate_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        findings: &mut Findings,
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

/// Whether rules could stumble over it.
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
