//! Options of requests, from the query or the body, validated as upstream.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go

use atoll_meta::{FieldError, FieldPath, FieldSelector, LabelSelector, Status, object, quote};
use atoll_registry::{DeleteOptions, Propagation, Row, Selection};
use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::{Value, json};

use crate::query::Query;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// The field manager; empty if the request does not name one.
    pub field_manager: String,
    /// Whether an apply takes over fields of other managers.
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Exact,
    NotOlderThan,
}

/// Options of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub struct ListOptions {
    pub selection: Selection,
    pub resource_version: String,
    pub resource_version_match: Option<Match>,
    pub limit: usize,
    pub continue_token: String,
    pub timeout_seconds: Option<u64>,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
}

impl WriteOptions {
    /// `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`; `own` are further errors of that kind.
    pub fn parse(kind: &str, query: &Query, own: Vec<FieldError>) -> Result<Self, Status> {
        let mut errors = own;
        let manager = query.get("fieldManager").unwrap_or_default();
        errors.extend(object::validate_field_manager(manager, &FieldPath::new("fieldManager")));
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        errors.extend(dry_run_error(&dry_run));
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = FieldPath::new("fieldValidation");
                errors.push(FieldError::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", errors));
        }
        Ok(WriteOptions {
            dry_run: !dry_run.is_empty(),
            field_validation,
            field_manager: manager.to_string(),
            force: query.is_true("force"),
        })
    }

    /// Returns the field manager: the given one, or the start of the user agent.
    pub fn manager(&self, headers: &HeaderMap) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.clone();
        }
        let agent = headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let agent = agent.as_deref().unwrap_or_default();
        let mut manager = String::new();
        for character in agent.split('/').next().unwrap_or_default().chars() {
            if !quote::is_print(character) {
                continue;
            }
            if manager.len() + character.len_utf8() > object::FIELD_MANAGER_LIMIT {
                break;
            }
            manager.push(character);
        }
        manager
    }
}

fn dry_run_error(values: &[&str]) -> Option<FieldError> {
    let wrong = values.iter().any(|value| *value != "All");
    wrong.then(|| FieldError::not_supported(&FieldPath::new("dryRun"), json!(values), &["All"]))
}

impl ListOptions {
    pub fn parse(row: &Row, query: &Query, watch: bool) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(Status::bad_request)?;
        let limit = integer(query, "limit")?.unwrap_or(0);
        let timeout = integer(query, "timeoutSeconds")?;
        let mut options = ListOptions {
            selection: Selection { labels, fields, within: None },
            resource_version: query.get("resourceVersion").unwrap_or_default().to_string(),
            resource_version_match: match query.get("resourceVersionMatch") {
                Some("Exact") => Some(Match::Exact),
                Some("NotOlderThan") => Some(Match::NotOlderThan),
                _ => None,
            },
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: query.get("continue").unwrap_or_default().to_string(),
            timeout_seconds: timeout.and_then(|seconds| u64::try_from(seconds).ok()),
            allow_bookmarks: query.is_true("allowWatchBookmarks"),
            send_initial_events: query.boolean("sendInitialEvents"),
        };
        let given = query.get("resourceVersionMatch").unwrap_or_default();
        let errors = if watch { options.watch_errors(given) } else { options.list_errors(given) };
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors));
        }
        options.check_fields(row)?;
        if let Some(view) = row.view {
            let stored = |label: &str, value: &str| {
                let label = view.stored_label(label).unwrap_or(label);
                Ok::<_, Status>((label.to_string(), value.to_string()))
            };
            options.selection.fields = options.selection.fields.transform(stored)?;
        }
        Ok(options)
    }

    fn list_errors(&self, given: &str) -> Vec<FieldError> {
        let path = FieldPath::new("resourceVersionMatch");
        let mut errors = Vec::new();
        let mut forbidden = |message: &str| errors.push(FieldError::forbidden(&path, message));
        if !given.is_empty() {
            if self.resource_version.is_empty() {
                forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbidden("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.resource_version_match == Some(Match::Exact) && self.resource_version == "0" {
                forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if self.resource_version_match.is_none() {
                errors.push(FieldError::not_supported(&path, given, &["Exact", "NotOlderThan", ""]));
            }
        }
        if self.send_initial_events.is_some() {
            let path = FieldPath::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, given: &str) -> Vec<FieldError> {
        let path = FieldPath::new("resourceVersionMatch");
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && self.resource_version_match != Some(Match::NotOlderThan) {
            let message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, message));
        }
        if !given.is_empty() {
            if self.send_initial_events.is_none() {
                let message =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&path, message));
            }
            if self.resource_version_match != Some(Match::NotOlderThan) {
                errors.push(FieldError::not_supported(&path, given, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                let message = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(&path, message));
            }
        }
        errors
    }

    /// Checks that the kind supports all selected fields.
    fn check_fields(&self, row: &Row) -> Result<(), Status> {
        for term in self.selection.fields.terms() {
            let known = matches!(term.field.as_str(), "metadata.name" | "metadata.namespace")
                || match (row.view, &row.custom) {
                    (Some(view), _) => view.stored_label(&term.field).is_some(),
                    (None, Some(custom)) => custom.is_selectable(&term.field),
                    (None, None) => row.strategy.fields.iter().any(|field| field.label == term.field),
                };
            if known {
                continue;
            }
            // Upstream's message depends on whether the kind has selectable fields of its own.
            let message = match row.strategy.fields.is_empty() && row.custom.is_none() {
                _ if row.kind == "Job" => {
                    format!("field label {} not supported for Job", quote::quote(&term.field))
                }
                true => {
                    format!(
                        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        quote::quote(&term.field)
                    )
                }
                false => format!("field label not supported: {}", term.field),
            };
            return Err(Status::bad_request(message));
        }
        Ok(())
    }
}

pub fn integer(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    let Some(text) = query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed = text.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {problem}", quote::quote(text)))
    })?;
    Ok(Some(parsed))
}

/// Options of delete, from the body if there is one, else from the query.
pub fn delete(query: &Query, body: Option<&Value>) -> Result<DeleteOptions, Status> {
    let from_query;
    let source = match body {
        Some(body) => body,
        None => {
            from_query = delete_from_query(query)?;
            &from_query
        }
    };
    let text = |value: &Value| value.as_str().map(str::to_string);
    let mut errors = Vec::new();
    let orphan = source["orphanDependents"].as_bool();
    let policy = source["propagationPolicy"].as_str();
    let path = FieldPath::new("propagationPolicy");
    if let (Some(_), Some(policy)) = (orphan, policy) {
        let message = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, message));
    }
    let propagation = match (policy, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, other, &supported));
            None
        }
        (None, None) => None,
    };
    let dry_run: Vec<&str> =
        source["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    errors.extend(dry_run_error(&dry_run));
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", errors));
    }
    Ok(DeleteOptions {
        uid: text(&source["preconditions"]["uid"]),
        resource_version: text(&source["preconditions"]["resourceVersion"]),
        propagation,
        grace_period_seconds: source["gracePeriodSeconds"].as_i64(),
        dry_run: !dry_run.is_empty(),
    })
}

fn delete_from_query(query: &Query) -> Result<Value, Status> {
    let mut options = json!({});
    if let Some(seconds) = integer(query, "gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(orphan) = query.boolean("orphanDependents") {
        options["orphanDependents"] = orphan.into();
    }
    if let Some(policy) = query.get("propagationPolicy") {
        options["propagationPolicy"] = policy.into();
    }
    options["dryRun"] = query.all("dryRun").collect();
    Ok(options)
}
