//! Errors and warnings in klog output, reduced to their kind.

use std::collections::BTreeMap;
use std::path::Path;

/// The programs whose logs are compared.
const PROGRAMS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// The number of messages of each kind.
pub type Counts = BTreeMap<String, usize>;

/// Counts the messages by kind in the logs of a directory.
pub fn read(directory: &Path) -> Counts {
    let mut counts = Counts::new();
    for program in PROGRAMS {
        let text = std::fs::read_to_string(directory.join(format!("{program}.log"))).unwrap();
        for kind in text.lines().filter_map(kind) {
            *counts.entry(format!("{program}: {kind}")).or_default() += 1;
        }
    }
    counts
}

/// Converts `E1115 12:34:56.789012  1234 file.go:56] message` to `E file.go] message`, with placeholders for
/// everything in the message that differs from run to run.
fn kind(line: &str) -> Option<String> {
    let severity = line.chars().next().filter(|letter| matches!(letter, 'E' | 'W' | 'F'))?;
    let (head, message) = line.split_once("] ")?;
    let position = head.split_whitespace().nth(3)?;
    let file = position.split_once(':').map_or(position, |(file, _)| file);
    Some(format!("{severity} {file}] {}", mask(message)))
}

/// Masks quoted names, addresses, identifiers and numbers. Quoted messages (`err="…"` and the message itself)
/// are masked recursively, because their words matter.
fn mask(message: &str) -> String {
    let message = without_dumps(message);
    let (mut masked, mut rest) = (String::new(), message.as_str());
    while let Some((before, quoted, after)) = next_quoted(rest) {
        masked.push_str(&mask_words(before));
        let is_message =
            before.is_empty() && masked.is_empty() || before.ends_with("err=") || before.ends_with("error=");
        match is_message {
            true => {
                masked.push_str(&format!("\"{}\"", mask(&quoted.replace("\\\"", "\"").replace("\\\\", "\\"))))
            }
            false => masked.push_str("<name>"),
        }
        rest = after;
    }
    masked.push_str(&mask_words(rest));
    masked
}

/// Removes objects printed by Go, `&Node{…}`, which do not matter for the kind of a message.
fn without_dumps(message: &str) -> String {
    let mut kept = String::new();
    let mut rest = message;
    while let Some(start) = rest.find('&') {
        let (before, dump) = rest.split_at(start);
        kept.push_str(before);
        let name = dump[1..].chars().take_while(char::is_ascii_alphanumeric).count();
        let mut depth = 0;
        let end = dump.char_indices().skip(1 + name).find_map(|(index, letter)| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            (depth <= 0).then_some(index)
        });
        match end {
            Some(end) if name > 0 && dump[..=end].ends_with('}') => {
                kept.push_str("<object>");
                rest = &dump[end + 1..];
            }
            _ => {
                kept.push('&');
                rest = &dump[1..];
            }
        }
    }
    kept + rest
}

/// Returns the text before the first quotation mark, the quoted text, and the rest.
fn next_quoted(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find('"')?;
    let inner = &text[start + 1..];
    let mut escaped = false;
    let end = inner.char_indices().find_map(|(index, letter)| {
        let found = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        found.then_some(index)
    })?;
    Some((&text[..start], &inner[..end], &inner[end + 1..]))
}

/// Masks unquoted words that contain a digit or are paths.
fn mask_words(text: &str) -> String {
    let mut masked = String::new();
    for word in text.split_inclusive([' ', ',', '(', ')', '[', ']', '{', '}', '=', ';', '&']) {
        let body = word.trim_end_matches([' ', ',', '(', ')', '[', ']', '{', '}', '=', ';', '&']);
        let known = ["v1", "v2", "*v1.", "k8s.io", "v1.", "v2."].iter().any(|part| body.contains(part))
            && !body.contains("://");
        match body {
            "" => {}
            _ if body.contains("://") => masked.push_str("<url>"),
            _ if known => masked.push_str(body),
            _ if body.contains(|letter: char| letter.is_ascii_digit()) => masked.push_str("<number>"),
            _ if body.contains('/') => masked.push_str("<path>"),
            _ => masked.push_str(body),
        }
        masked.push_str(&word[body.len()..]);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_kind_are_equal() {
        let cases = [
            ("I1115 12:00:00.000000       1 a.go:1] fine", None),
            (
                r#"E1115 12:00:00.000000    4711 replica_set.go:577] "Unhandled Error" err="sync \"ns/web-5d4f\" failed with Operation cannot be fulfilled on replicasets.apps \"web-5d4f\": the object has been modified" logger="UnhandledError""#,
                Some(
                    r#"E replica_set.go] "Unhandled Error" err="sync <name> failed with Operation cannot be fulfilled on replicasets.apps <name>: the object has been modified" logger=<name>"#,
                ),
            ),
            (
                r#"E1115 12:00:00.000000    4711 node.go:5] "Failed" err="update of &Node{ObjectMeta:{a {b}},Spec:{}}: no & never""#,
                Some(r#"E node.go] "Failed" err="update of <object>: no & never""#),
            ),
            (
                r#"W1115 12:00:00.000000    4711 reflector.go:561] k8s.io/client-go/informers/factory.go:160: failed to list *v1.Pod: Get https://127.0.0.1:1234/api/v1/pods?limit=500: dial tcp 127.0.0.1:1234: connect: refused"#,
                Some(
                    "W reflector.go] k8s.io/client-go/informers/factory.go:160: failed to list *v1.Pod: Get <url>=<number> dial tcp <number> connect: refused",
                ),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(kind(line).as_deref(), expected);
        }
    }
}
