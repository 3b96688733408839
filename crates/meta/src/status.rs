//! `metav1.Status`, with upstream's messages.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go

mod constructors;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::json::write_string;
use crate::text;

/// A `Status`, usually an error. A single pointer, so that it is cheap to pass around.
#[derive(Clone, PartialEq, Eq)]
pub struct Status(Box<Content>);

#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Content {
    success: bool,
    message: String,
    reason: Cow<'static, str>,
    details: Option<Details>,
    /// 0 if upstream omits the code.
    code: u16,
    /// `metadata.continue`, with which a client can continue an expired list.
    continue_token: String,
}

/// The subject of a status.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group.
    pub group: String,
    /// Resource or, in errors about the contents of an object, kind.
    pub kind: String,
    /// UID of the object.
    pub uid: String,
    /// Individual errors.
    pub causes: Vec<Cause>,
    /// Seconds after which the client may retry; 0 if unspecified.
    pub retry_after_seconds: u32,
}

/// A cause of an error.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cause {
    /// Machine-readable type of the error.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

impl Status {
    /// Returns the HTTP status code of the response.
    pub fn code(&self) -> u16 {
        match (self.0.code, self.0.success) {
            (0, true) => 200,
            (0, false) => 500,
            (code, _) => code,
        }
    }

    /// Whether this is a success.
    pub fn is_success(&self) -> bool {
        self.0.success
    }

    /// Returns the machine-readable reason, or an empty string.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the details.
    pub fn details(&self) -> Option<&Details> {
        self.0.details.as_ref()
    }

    /// Returns the value of the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u32> {
        self.0.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// Returns the continue token, see [`Status::with_continue`].
    pub fn continue_token(&self) -> &str {
        &self.0.continue_token
    }

    /// Whether the details contain a cause with this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Adds a cause.
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Status {
        let cause = Cause { reason: reason.to_owned(), message: message.into(), field: field.to_owned() };
        self.0.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Adds a token with which the client can continue its list at the current revision.
    pub fn with_continue(mut self, token: impl Into<String>) -> Status {
        self.0.continue_token = token.into();
        self
    }

    /// Replaces the message.
    pub fn with_message(mut self, message: impl Into<String>) -> Status {
        self.0.message = message.into();
        self
    }

    /// Sanitizes a status of an untrusted server: removes control characters and limits the length of strings
    /// and the number of causes.
    pub fn bounded(mut self, most: usize) -> Status {
        const CAUSES: usize = 32;
        let bound = |text: &mut String| *text = text::clean(text, most);
        let content = &mut *self.0;
        bound(&mut content.message);
        let mut reason = std::mem::take(&mut content.reason).into_owned();
        bound(&mut reason);
        content.reason = Cow::Owned(reason);
        bound(&mut content.continue_token);
        if let Some(details) = &mut content.details {
            let Details { name, group, kind, uid, causes, .. } = details;
            [name, group, kind, uid].into_iter().for_each(bound);
            causes.truncate(CAUSES);
            causes.shrink_to_fit();
            for Cause { reason, message, field } in causes {
                [reason, message, field].into_iter().for_each(bound);
            }
        }
        self
    }

    /// Replaces the details.
    pub fn with_details(mut self, details: Details) -> Status {
        self.0.details = Some(details);
        self
    }

    /// Encodes the body of a response, without a final newline.
    pub fn to_json(&self) -> Vec<u8> {
        let content = &self.0;
        let mut out = Vec::with_capacity(256 + content.message.len());
        out.extend_from_slice(b"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{");
        let mut members = Members { out: &mut out, first: true };
        members.text("continue", &content.continue_token);
        out.extend_from_slice(if content.success {
            b"},\"status\":\"Success\""
        } else {
            b"},\"status\":\"Failure\""
        });
        let mut members = Members { out: &mut out, first: false };
        members.text("message", &content.message);
        members.text("reason", &content.reason);
        if let Some(details) = &content.details {
            members.key("details");
            details.write(&mut out);
        }
        Members { out: &mut out, first: false }.number("code", u32::from(content.code));
        out.push(b'}');
        out
    }

    /// Decodes a status; `None` if the value is another object.
    pub fn from_value(value: &Value) -> Option<Status> {
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text(value, "kind") != "Status"
            || !matches!(text(value, "apiVersion").as_str(), "v1" | "meta.k8s.io/v1")
        {
            return None;
        }
        let details = value.get("details").filter(|details| details.is_object()).map(|details| Details {
            name: text(details, "name"),
            group: text(details, "group"),
            kind: text(details, "kind"),
            uid: text(details, "uid"),
            causes: details.get("causes").and_then(Value::as_array).map_or_else(Vec::new, |causes| {
                let cause = |cause| Cause {
                    reason: text(cause, "reason"),
                    message: text(cause, "message"),
                    field: text(cause, "field"),
                };
                causes.iter().map(cause).collect()
            }),
            retry_after_seconds: details
                .get("retryAfterSeconds")
                .and_then(Value::as_u64)
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or_default(),
        });
        Some(Status(Box::new(Content {
            success: text(value, "status") == "Success",
            message: text(value, "message"),
            reason: Cow::Owned(text(value, "reason")),
            details,
            code: value
                .get("code")
                .and_then(Value::as_u64)
                .and_then(|code| u16::try_from(code).ok())
                .unwrap_or_default(),
            continue_token: value
                .get("metadata")
                .map(|metadata| text(metadata, "continue"))
                .unwrap_or_default(),
        })))
    }
}

impl Details {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut members = Members { out, first: true };
        members.text("name", &self.name);
        members.text("group", &self.group);
        members.text("kind", &self.kind);
        members.text("uid", &self.uid);
        if !self.causes.is_empty() {
            members.key("causes");
            for (index, cause) in self.causes.iter().enumerate() {
                members.out.extend_from_slice(if index == 0 { b"[{" } else { b",{" });
                let mut inner = Members { out: members.out, first: true };
                inner.text("reason", &cause.reason);
                inner.text("message", &cause.message);
                inner.text("field", &cause.field);
                members.out.push(b'}');
            }
            members.out.push(b']');
        }
        members.number("retryAfterSeconds", self.retry_after_seconds);
        out.push(b'}');
    }
}

/// Writes the members of an object. Empty ones are omitted, as upstream.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Members<'_> {
    fn key(&mut self, key: &str) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        write_string(key, self.out);
        self.out.push(b':');
    }

    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.key(key);
            write_string(text, self.out);
        }
    }

    fn number(&mut self, key: &str, number: u32) {
        if number > 0 {
            self.key(key);
            self.out.extend_from_slice(number.to_string().as_bytes());
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({})", String::from_utf8_lossy(&self.to_json()))
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests;
