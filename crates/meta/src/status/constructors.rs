//! Constructors for each type of response, with upstream's code, reason, details and message.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go

use std::borrow::Cow;

use super::{Cause, Content, Details, Status};
use crate::field::{BadValue, FieldError, FieldPath, aggregate};
use crate::quote::quote;

/// Maximum total size of the errors in an object that are shown.
const MAX_ERROR_SIZE: usize = 512 << 10;

/// Returns `deployments.apps`, or just `pods` in the core group. Kinds are qualified in the same way.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn about(group: &str, resource: &str, name: &str) -> Details {
    Details {
        group: group.to_owned(),
        kind: resource.to_owned(),
        name: name.to_owned(),
        ..Details::default()
    }
}

fn failure(code: u16, reason: &'static str, message: impl Into<String>, details: Option<Details>) -> Status {
    Status(Box::new(Content {
        success: false,
        message: message.into(),
        reason: Cow::Borrowed(reason),
        details,
        code,
        continue_token: String::new(),
    }))
}

impl Status {
    /// Creates a success with the object in the details.
    pub fn success(details: impl Into<Option<Details>>) -> Status {
        Status(Box::new(Content { success: true, details: details.into(), ..Content::default() }))
    }

    /// Creates a success with this code, as bindings and evictions return.
    pub fn success_with_code(code: u16) -> Status {
        Status(Box::new(Content { success: true, code, ..Content::default() }))
    }

    /// Creates the error about an object that does not exist.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} {} not found", qualified(group, resource), quote(name));
        failure(404, "NotFound", message, Some(about(group, resource, name)))
    }

    /// Creates the error about an object that already exists.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} {} already exists", qualified(group, resource), quote(name));
        failure(409, "AlreadyExists", message, Some(about(group, resource, name)))
    }

    /// Creates the error about generated names that all exist.
    pub fn generate_name_conflict(group: &str, resource: &str, name: &str, retry_after: u32) -> Status {
        let message = format!(
            "{} {} already exists, the server was not able to generate a unique name for the object",
            qualified(group, resource),
            quote(name)
        );
        let details = Details { retry_after_seconds: retry_after, ..about(group, resource, name) };
        failure(409, "AlreadyExists", message, Some(details))
    }

    /// Creates the error about an object that was modified, or is not in the expected state.
    pub fn conflict(group: &str, resource: &str, name: &str, message: impl AsRef<str>) -> Status {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {}",
            qualified(group, resource),
            quote(name),
            message.as_ref()
        );
        failure(409, "Conflict", message, Some(about(group, resource, name)))
    }

    /// Creates the error about fields that other managers own.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Status {
        failure(409, "Conflict", message, Some(Details { causes, ..Details::default() }))
    }

    /// Creates the error about an invalid object. The message contains each error once, the causes list all.
    ///
    /// If there are very many or very long errors, only the first are shown: each is shown twice, and an
    /// object may have as many as it has fields.
    pub fn invalid(group: &str, kind: &str, name: &str, mut errors: Vec<FieldError>) -> Status {
        let mut size = 0;
        let count = errors.iter().take_while(|error| {
            size += error.size();
            size <= MAX_ERROR_SIZE
        });
        let count = count.count().max(1);
        if count < errors.len() {
            let detail = format!("{} more errors are not shown", errors.len() - count);
            errors.truncate(count);
            errors.push(FieldError::invalid(&FieldPath::nil(), BadValue::Omitted, detail));
        }
        let mut message = format!("{} {} is invalid", qualified(group, kind), quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(&errors));
        }
        let cause = |error: &FieldError| Cause {
            reason: error.kind().reason().to_owned(),
            message: error.body(),
            field: error.field().to_owned(),
        };
        let causes = errors.iter().map(cause).collect();
        failure(422, "Invalid", message, Some(Details { causes, ..about(group, kind, name) }))
    }

    /// Creates the error about a malformed request.
    pub fn bad_request(message: impl Into<String>) -> Status {
        failure(400, "BadRequest", message, None)
    }

    /// Creates the error about a request that is not allowed. Without a resource the message starts with
    /// `forbidden`.
    pub fn forbidden(group: &str, resource: &str, name: &str, message: impl AsRef<str>) -> Status {
        let message = message.as_ref();
        let message = if group.is_empty() && resource.is_empty() {
            format!("forbidden: {message}")
        } else if name.is_empty() {
            format!("{} is forbidden: {message}", qualified(group, resource))
        } else {
            format!("{} {} is forbidden: {message}", qualified(group, resource), quote(name))
        };
        failure(403, "Forbidden", message, Some(about(group, resource, name)))
    }

    /// Creates the error about a request without valid authentication.
    pub fn unauthorized(message: impl Into<String>) -> Status {
        let message = message.into();
        let message = if message.is_empty() { "not authorized".to_owned() } else { message };
        failure(401, "Unauthorized", message, None)
    }

    /// Creates the error about a verb that the resource does not support.
    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Status {
        let message =
            format!("{action} is not supported on resources of kind {}", quote(&qualified(group, resource)));
        failure(405, "MethodNotAllowed", message, Some(about(group, resource, "")))
    }

    /// Creates the error about a method that the path does not support.
    pub fn method_not_supported_generic() -> Status {
        let message = "the server does not allow this method on the requested resource";
        failure(405, "MethodNotAllowed", message, Some(Details::default()))
    }

    /// Creates the error about an unknown path.
    pub fn not_found_generic() -> Status {
        failure(404, "NotFound", "the server could not find the requested resource", Some(Details::default()))
    }

    /// Creates the error about contents that cannot be processed, without details, for example if a JSON
    /// patch fails.
    pub fn invalid_generic() -> Status {
        let message = "the server rejected our request due to an error in our request";
        failure(422, "Invalid", message, Some(Details::default()))
    }

    /// Creates the error about something that no longer exists.
    pub fn gone(message: impl Into<String>) -> Status {
        failure(410, "Gone", message, None)
    }

    /// Creates the error about a revision that is too old.
    pub fn expired(message: impl Into<String>) -> Status {
        failure(410, "Expired", message, None)
    }

    /// Creates the error about a request that took too long. It may still have an effect.
    pub fn timeout(message: impl AsRef<str>, retry_after: u32) -> Status {
        let details = Details { retry_after_seconds: retry_after, ..Details::default() };
        failure(504, "Timeout", format!("Timeout: {}", message.as_ref()), Some(details))
    }

    /// Creates the error about a revision that is ahead of the server's.
    pub fn resource_version_too_large(requested: u64, current: u64) -> Status {
        Status::timeout(format!("Too large resource version: {requested}, current: {current}"), 1).with_cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        )
    }

    /// Creates the error about an operation that cannot be completed now.
    pub fn server_timeout(group: &str, resource: &str, operation: &str, retry_after: u32) -> Status {
        let message = format!(
            "The {operation} operation against {} could not be completed at this time, please try again.",
            qualified(group, resource)
        );
        let details = Details { retry_after_seconds: retry_after, ..about(group, resource, operation) };
        failure(500, "ServerTimeout", message, Some(details))
    }

    /// Creates the error about too many requests.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Status {
        let details = Details { retry_after_seconds: retry_after, ..Details::default() };
        failure(429, "TooManyRequests", message, Some(details))
    }

    /// Creates the error about a body that is too large.
    pub fn request_entity_too_large(message: impl AsRef<str>) -> Status {
        let message = format!("Request entity too large: {}", message.as_ref());
        failure(413, "RequestEntityTooLarge", message, None)
    }

    /// Creates the error about an internal failure.
    pub fn internal_error(message: impl Into<String>) -> Status {
        let message = message.into();
        let text = format!("Internal error occurred: {message}");
        failure(500, "InternalError", text, Some(Details::default())).with_cause("", message, "")
    }

    /// Creates the error about an internal failure of unknown type, which upstream returns without a reason.
    pub fn plain_internal(message: impl Into<String>) -> Status {
        failure(500, "", message, None)
    }

    /// Creates the error about a service that is unavailable.
    pub fn service_unavailable(message: impl Into<String>) -> Status {
        failure(503, "ServiceUnavailable", message, None)
    }

    /// Creates a status from a response of another server, of which only the code and some text are known.
    pub fn from_response(code: u16, verb: &str, resource: &str, name: &str, text: &str) -> Status {
        let (reason, message): (&'static str, Cow<'_, str>) = match code {
            400 => ("BadRequest", "the server rejected our request for an unknown reason".into()),
            401 => ("Unauthorized", "the server has asked for the client to provide credentials".into()),
            403 => ("Forbidden", text.into()),
            404 => ("NotFound", "the server could not find the requested resource".into()),
            405 => {
                ("MethodNotAllowed", "the server does not allow this method on the requested resource".into())
            }
            406 if text.is_empty() || text == "unknown" => (
                "NotAcceptable",
                "the server was unable to respond with a content type that the client supports".into(),
            ),
            406 => ("NotAcceptable", text.into()),
            409 if verb == "POST" => ("AlreadyExists", "the server reported a conflict".into()),
            409 => ("Conflict", "the server reported a conflict".into()),
            415 => ("UnsupportedMediaType", text.into()),
            422 => ("Invalid", "the server rejected our request due to an error in our request".into()),
            429 => (
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later".into(),
            ),
            503 => {
                ("ServiceUnavailable", "the server is currently unable to handle the request".into())
            }
            504 => (
                "Timeout",
                "the server was unable to return a response in the time allotted, but may still be processing the \
                 request"
                    .into(),
            ),
            500.. => (
                "InternalError",
                format!("an error on the server ({}) has prevented the request from succeeding", quote(text)).into(),
            ),
            _ => (
                "",
                format!("the server responded with the status code {code} but did not return more information")
                    .into(),
            ),
        };
        let message = format!("{message} ({} {resource} {name})", verb.to_ascii_lowercase());
        failure(code, reason, message, Some(about("", resource, name)))
    }

    /// Creates the error about a body of an unsupported media type.
    pub fn unsupported_media_type<S: AsRef<str>>(accepted: &[S]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            comma_separated(accepted)
        );
        failure(415, "UnsupportedMediaType", message, None)
    }

    /// Creates the error about a route that does not accept this media type.
    pub fn unsupported_media_type_generic() -> Status {
        failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", Some(Details::default()))
    }

    /// Creates the error about a route that supports none of the media types that the client accepts.
    pub fn not_acceptable<S: AsRef<str>>(available: &[S]) -> Status {
        let message =
            format!("406: Not Acceptable\n\nAvailable representations: {}", comma_separated(available));
        failure(406, "NotAcceptable", message, Some(Details::default()))
    }

    /// Creates the error about a serializer that supports none of the media types that the client accepts.
    pub fn not_acceptable_types<S: AsRef<str>>(accepted: &[S]) -> Status {
        let message = format!("only the following media types are accepted: {}", comma_separated(accepted));
        failure(406, "NotAcceptable", message, None)
    }

    /// Creates the error about a response that does not exist in the requested form.
    pub fn not_acceptable_form(message: impl Into<String>) -> Status {
        failure(406, "NotAcceptable", message, None)
    }

    /// Creates the error about a response that cannot be converted to an accepted form.
    pub fn not_acceptable_conversion<S: AsRef<str>>(target: &str, accepted: &[S]) -> Status {
        let message = format!(
            "only the following media types are accepted when converting to {target}: {}",
            comma_separated(accepted)
        );
        failure(406, "NotAcceptable", message, None)
    }
}

fn comma_separated<S: AsRef<str>>(list: &[S]) -> String {
    list.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")
}
