//! Checks whether a cluster accepts an object.

use atoll_crd::{Definition, Origin, Schema, ValidationResult, Version};
use atoll_meta::{Deadline, FieldError, object};
use serde_json::Value;

use crate::difference::{MOST_LISTED, shortened};
use crate::schema_path::of_object;

/// A field of an object that a cluster does not accept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldProblem {
    /// The path of the field: `.spec.ports[0].name`. The object itself is `.`.
    pub field: String,
    pub cause: FieldCause,
}

/// The reason why a field is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldCause {
    /// The cluster would remove the field.
    Unknown,
    /// The cluster would refuse the object, with this message.
    Invalid(String),
}

impl FieldProblem {
    fn invalid(field: &str, message: &str) -> FieldProblem {
        FieldProblem { field: of_object(field), cause: FieldCause::Invalid(shortened(message)) }
    }

    /// The reason in words that follow the field.
    pub fn words(&self) -> String {
        match &self.cause {
            FieldCause::Unknown => "unknown field".to_owned(),
            FieldCause::Invalid(message) => message.clone(),
        }
    }

    /// The problem as a sentence: `cluster east does not accept .spec.color: unknown field`.
    pub fn describe(&self, cluster: &str) -> String {
        format!("cluster {cluster} does not accept {}: {}", self.field, self.words())
    }
}

/// Checks an object against a definition of a cluster, as the cluster would when it is created there: kind,
/// version, fields that the cluster lacks, and values that it refuses after its defaults were applied. The
/// object is the one that is sent, without the status. Fields that are not checked before the deadline are
/// not reported.
pub fn check_object(definition: &Definition, object: &Value, deadline: &Deadline<'_>) -> Vec<FieldProblem> {
    let api_version = object::api_version(object);
    let name = api_version.rsplit('/').next().unwrap_or_default();
    let Some(version) = definition.version(name).filter(|version| version.served) else {
        let message = format!("{} is not served", shortened(api_version));
        return vec![FieldProblem::invalid("apiVersion", &message)];
    };
    let mismatches = definition.validate_type(object, name);
    if !mismatches.is_empty() {
        return mismatches.iter().map(problem).collect();
    }
    check_version(version, object, deadline)
}

/// Checks an object against one version, whatever its type is.
pub(crate) fn check_version(version: &Version, object: &Value, deadline: &Deadline<'_>) -> Vec<FieldProblem> {
    let mut copy = object.clone();
    let mut problems = match decode(&version.schema, &mut copy) {
        Ok(problems) => problems,
        Err(problem) => return vec![problem],
    };
    let mut findings = ValidationResult::default();
    version.validate_create(&copy, &mut findings, deadline);
    problems.extend(findings.errors.iter().map(problem));
    problems.sort();
    problems.dedup();
    problems.truncate(MOST_LISTED);
    problems
}

/// The fields that are lost when an object is used through another version of its kind, because the schema
/// of that version does not have them.
pub fn lost_fields(schema: &Schema, object: &Value) -> Vec<String> {
    let mut fields = schema.prune(&mut object.clone());
    fields.truncate(MOST_LISTED);
    fields.iter().map(|field| of_object(field)).collect()
}

/// Decodes an object as the API server does. Returns the unknown fields, or the problem that prevents it.
fn decode(schema: &Schema, object: &mut Value) -> Result<Vec<FieldProblem>, FieldProblem> {
    let unknown = schema
        .read(object, Origin::Request)
        .map_err(|message| FieldProblem::invalid("metadata", &message))?;
    let _ = schema.apply_defaults(object);
    Ok(unknown
        .iter()
        .map(|field| FieldProblem { field: of_object(field), cause: FieldCause::Unknown })
        .collect())
}

fn problem(error: &FieldError) -> FieldProblem {
    FieldProblem::invalid(error.field(), &error.body())
}
