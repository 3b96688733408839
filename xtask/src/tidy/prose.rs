//! Checks that prose in Markdown files is wrapped.

use super::Finding;

const MAX_CHARS: usize = 100;

/// Returns the lines of prose in the Markdown file at `path` that are too long. Tables, code, headings, links on a
/// line of their own and quotations cannot be wrapped.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let mut in_code = false;
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.trim_start();
        if content.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && is_prose(content) && line.chars().count() > MAX_CHARS {
            let location = format!("{path}:{}", number + 1);
            findings.push(Finding::error(
                location,
                format!("a line of prose has more than {MAX_CHARS} characters"),
            ));
        }
    }
    findings
}

/// Whether a line could be wrapped: it is text, and has a blank at which it can end.
fn is_prose(content: &str) -> bool {
    let is_markup = ["|", "#", ">", "<", "[", "!"].iter().any(|mark| content.starts_with(mark));
    !is_markup && content.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_long_lines_of_prose_are_found() {
        let long = "word ".repeat(30);
        let cases = [
            ("README.md", long.clone(), 1),
            ("README.md", "word ".repeat(10), 0),
            ("README.md", format!("| {long} |"), 0),
            ("README.md", format!("# {long}"), 0),
            ("README.md", format!("```\n{long}\n```\n{long}"), 1),
            ("README.md", "w".repeat(120), 0),
            ("src/lib.rs", long, 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(check(path, &text).len(), expected, "{path}: {text}");
        }
    }
}
