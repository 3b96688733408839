//! Failures of commands as they are shown to the user: a message and a hint.

use std::sync::OnceLock;

use atoll_meta::Status;

use crate::style::Paint;

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

    /// A refusal with the server's message.
    pub fn refused(status: &Status) -> Failure {
        Failure { message: status.message().to_string(), hint: hint_for(status) }
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

const HINT: &str = "\nhint: ";

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        match failure.hint {
            Some(hint) => format!("{}{HINT}{hint}", failure.message),
            None => failure.message,
        }
    }
}

/// Formats a problem for the terminal.
pub fn render(problem: &str, paint: Paint) -> String {
    let error = paint.error("error:");
    match problem.split_once(HINT) {
        Some((message, hint)) => format!("{error} {message}\n{} {hint}", paint.hint("hint:")),
        None => format!("{error} {problem}"),
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

/// Returns the name most similar to `wanted`, if one is similar enough.
pub fn closest_match<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let likeness = |name: &str| {
        // A name with the typed prefix is as likely as a name with one wrong letter.
        let is_prefix = wanted.len() >= 2 && name.starts_with(&wanted);
        let slips = strsim::osa_distance(&wanted, name);
        let is_typo = wanted.len() >= 3 && slips <= (wanted.len() / 3).min(2);
        strsim::jaro_winkler(&wanted, &name.to_lowercase()) + if is_prefix || is_typo { 1.0 } else { 0.0 }
    };
    let rated = names.into_iter().map(|name| (likeness(name), name)).filter(|(likeness, _)| *likeness > 0.8);
    rated.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// Formats a number with a noun: `1 namespace`, `2 namespaces`.
pub fn pluralize(count: u64, message: &str) -> String {
    if count == 1 { format!("1 {message}") } else { format!("{count} {message}s") }
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
    fn only_similar_names_are_suggested() {
        let names = ["east", "west", "production", "staging", "rack-1"];
        for (wanted, expected) in [
            ("eats", Some("east")),
            ("eest", Some("east")),
            ("ewst", Some("west")),
            ("West", Some("west")),
            ("prod", Some("production")),
            ("stagging", Some("staging")),
            ("rack-2", Some("rack-1")),
            ("nowhere", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest_match(wanted, names), expected, "{wanted}");
        }
        assert_eq!(closest_match("east", []), None);
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

    #[test]
    fn hints_have_a_line_of_their_own() {
        let text = String::from(Failure::new("it is gone", "look elsewhere"));
        assert_eq!(render(&text, Paint::PLAIN), "error: it is gone\nhint: look elsewhere");
        assert_eq!(render("it is gone", Paint::PLAIN), "error: it is gone");
    }
}
