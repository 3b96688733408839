//! Failures of commands as they are shown to the user: a message and a hint.

pub use atoll_joining::{Failure, invocation, join_names, set_invocation};

use crate::style::Paint;

/// Separates the hint from the message.
const HINT: &str = atoll_joining::HINT;

/// Formats a problem for the terminal.
pub fn render(problem: &str, paint: Paint) -> String {
    let error = paint.error("error:");
    match problem.split_once(HINT) {
        Some((message, hint)) => format!("{error} {message}\n{} {hint}", paint.hint("hint:")),
        None => format!("{error} {problem}"),
    }
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
    fn hints_have_a_line_of_their_own() {
        let text = String::from(Failure::new("it is gone", "look elsewhere"));
        assert_eq!(render(&text, Paint::PLAIN), "error: it is gone\nhint: look elsewhere");
        assert_eq!(render("it is gone", Paint::PLAIN), "error: it is gone");
    }
}
