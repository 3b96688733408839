//! Failures as they are shown to a person: a message, and a hint about the next step.

use std::sync::OnceLock;

use atoll_meta::Status;

/// The program name for recommended commands: `atoll`, or `kubectl atoll` as a kubectl plugin.
static INVOCATION: OnceLock<&str> = OnceLock::new();

/// Sets the program name for recommended commands. As a kubectl plugin, they begin with kubectl.
pub fn set_invocation(program: &'static str) {
    let _ = INVOCATION.set(program);
}

pub fn invocation() -> &'static str {
    INVOCATION.get().copied().unwrap_or("atoll")
}

/// A failure of a command: a message, and a hint about the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    /// Suggested next step.
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: Some(hint.into()) }
    }

    /// A refusal with the server's message. Servers other than Atoll may send none.
    pub fn refused(status: &Status) -> Failure {
        let message = match (status.message(), status.reason()) {
            ("", "") => format!("the server refused the request with the status {}", status.code()),
            ("", reason) => {
                format!("the server refused the request with the status {} ({reason})", status.code())
            }
            (message, _) => message.to_string(),
        };
        Failure { message, hint: hint_for(status) }
    }
}

impl From<atoll_meta::Status> for Failure {
    fn from(status: atoll_meta::Status) -> Self {
        Failure::refused(&status)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { message, hint: None }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Separates the hint from the message in the text of a failure.
pub const HINT: &str = "\nhint: ";

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        match failure.hint {
            Some(hint) => format!("{}{HINT}{hint}", failure.message),
            None => failure.message,
        }
    }
}

/// A hint for common refusals, independent of the command.
fn hint_for(status: &Status) -> Option<String> {
    let hint = match (status.code(), status.reason()) {
        (401, _) => {
            "the certificate or token of this context is not valid here or has expired; get a new kubeconfig, or \
             choose another context with --context"
        }
        (403, "Forbidden") => {
            "list your permissions with: kubectl auth can-i --list; an administrator of the parent workspace can \
             grant more"
        }
        (429 | 503 | 504, _) => "the server is busy or cannot write; try again in a moment",
        _ => return None,
    };
    Some(hint.to_string())
}

/// Lists names in a sentence; only the first few if there are many.
pub fn join_names(names: &[&str]) -> String {
    const MAX_SHOWN: usize = 5;
    match names {
        [] => "none".to_string(),
        [one] => (*one).to_string(),
        [others @ .., last] if names.len() <= MAX_SHOWN => format!("{} and {last}", others.join(", ")),
        many => format!("{} and {} more", many[..MAX_SHOWN].join(", "), many.len() - MAX_SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_without_a_message_are_explained() {
        let refused = |status: serde_json::Value| {
            let mut status = status;
            status["apiVersion"] = "v1".into();
            status["kind"] = "Status".into();
            Failure::refused(&Status::from_value(&status).unwrap()).message
        };
        let cases = [
            (serde_json::json!({ "code": 409, "reason": "Conflict", "message": "changed" }), "changed"),
            (
                serde_json::json!({ "code": 418, "reason": "Teapot" }),
                "the server refused the request with the status 418 (Teapot)",
            ),
            (serde_json::json!({ "code": 418 }), "the server refused the request with the status 418"),
        ];
        for (status, expected) in cases {
            assert_eq!(refused(status), expected);
        }
    }

    #[test]
    fn names_are_joined_and_truncated() {
        let cases: [(&[&str], &str); 5] = [
            (&[], "none"),
            (&["a"], "a"),
            (&["a", "b"], "a and b"),
            (&["a", "b", "c", "d", "e"], "a, b, c, d and e"),
            (&["a", "b", "c", "d", "e", "f", "g"], "a, b, c, d, e and 2 more"),
        ];
        for (names, expected) in cases {
            assert_eq!(join_names(names), expected);
        }
    }
}
