//! The rules of docs/glossary.md that a program can check: names, the first words of comments, words in messages, and
//! paths in documents.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::{code, line, test_blocks};

/// A public type name that more crates define than this tells a reader nothing.
const MOST_CRATES: usize = 3;

/// Names of files that were replaced by the field's own words.
const NON_WORDS: [&str; 37] = [
    "ask",
    "beats",
    "begun",
    "belongings",
    "beside",
    "brake",
    "brakes",
    "census",
    "contact",
    "cuttable",
    "dawdling",
    "desk",
    "ending",
    "extension",
    "flag",
    "follow",
    "followers",
    "following",
    "furniture",
    "happening",
    "happenings",
    "keep",
    "letting_go",
    "neighbours",
    "operating",
    "ours",
    "package",
    "patience",
    "retire",
    "seats",
    "shelves",
    "sights",
    "spaces",
    "theirs",
    "trust",
    "weather",
    "world",
];

/// Comments that begin with one of these words hide their subject.
const OPENINGS: [&str; 4] = ["What", "Who", "Whose", "Whoever"];

/// Words that do not name the subject of a message or comment.
const PRONOUNS: [&str; 8] =
    ["anybody", "anyone", "everybody", "everyone", "nobody", "somebody", "someone", "whoever"];

/// Files in which a rule does not hold, and why.
const EXCEPTIONS: [(&str, &str); 2] =
    [("xtask/src/tidy/language.rs", "lists the words"), ("docs/glossary.md", "lists the words")];

/// Checks all files at once: whether a name is too common is seen in all crates only.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    let rust = || files.iter().filter(|(path, _)| path.ends_with(".rs") && is_source(path));
    let mut findings = type_names(rust().map(|(path, text)| (path.as_str(), text.as_str())));
    for (path, text) in files {
        findings.extend(file_name(path));
        if path.ends_with(".rs") && !is_excepted(path) {
            findings.extend(openings(path, text));
            findings.extend(comments(path, text));
            if is_source(path) {
                findings.extend(messages(path, text));
            }
        }
        if path.ends_with(".md") {
            if !is_excepted(path) {
                findings.extend(prose(path, text));
            }
            findings.extend(paths(path, text, |named| files.iter().any(|(file, _)| is_at(file, named))));
        }
    }
    findings
}

fn is_source(path: &str) -> bool {
    path.contains("/src/")
}

fn is_excepted(path: &str) -> bool {
    EXCEPTIONS.iter().any(|(file, _)| *file == path)
}

fn type_names<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    let mut crates: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in files {
        let krate = path.strip_prefix("crates/").unwrap_or(path).split("/src/").next().unwrap_or(path);
        for name in public_types(&code(text)) {
            crates.entry(name).or_default().insert(krate);
        }
    }
    let common = crates.into_iter().filter(|(_, crates)| crates.len() > MOST_CRATES);
    let finding = |(name, crates): (String, BTreeSet<&str>)| {
        let list = crates.into_iter().collect::<Vec<_>>().join(", ");
        Finding::error("crates", format!("`{name}` is a public type in {list}: give each a specific name"))
    };
    common.map(finding).collect()
}

/// Names of the types that `code` defines as public, within the crate or beyond.
fn public_types(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in code.lines() {
        let Some(rest) = line.trim_start().strip_prefix("pub") else { continue };
        let rest = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace();
        if !matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
            continue;
        }
        let name = words.next().unwrap_or_default();
        names.push(name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned());
    }
    names
}

fn file_name(path: &str) -> Option<Finding> {
    let parts = path.strip_suffix(".rs")?.split('/');
    let found = parts.into_iter().find(|part| NON_WORDS.contains(part))?;
    Some(Finding::error(
        path,
        format!("\"{found}\" is not a word of docs/glossary.md: name what is in the file"),
    ))
}

fn openings(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut continues = false;
    for (number, line) in text.lines().enumerate() {
        let comment =
            line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim());
        if let (Some(comment), false) = (comment, continues) {
            let first = comment.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
            if OPENINGS.contains(&first) {
                let message = format!("the comment begins with \"{first}\": name its subject");
                findings.push(Finding::error(format!("{path}:{}", number + 1), message));
            }
        }
        // The second line of a sentence may begin with any word.
        continues =
            comment.is_some_and(|comment| !comment.is_empty() && !comment.ends_with(['.', ':', '?', '`']));
    }
    findings
}

/// Comments with pronouns.
fn comments(path: &str, text: &str) -> Vec<Finding> {
    let comment = |line: &str| line.trim_start().strip_prefix("//").map(str::to_owned);
    let lines = text.lines().enumerate().filter_map(|(number, line)| Some((number, comment(line)?)));
    lines.filter_map(|(number, comment)| pronoun(path, number, &comment)).collect()
}

/// Sentences with pronouns in documents, without code.
fn prose(path: &str, text: &str) -> Vec<Finding> {
    let (mut findings, mut is_code) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code {
            let words: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
            findings.extend(pronoun(path, number, &words));
        }
    }
    findings
}

fn pronoun(path: &str, number: usize, sentence: &str) -> Option<Finding> {
    let sentence = sentence.to_lowercase();
    let is_pronoun = |word: &&str| PRONOUNS.contains(word);
    let found = sentence.split(|c: char| !c.is_alphanumeric() && c != '-').find(is_pronoun)?;
    let message = format!("\"{found}\" names no subject: name the user, client or component");
    Some(Finding::error(format!("{path}:{}", number + 1), message))
}

/// Literals with pronouns in code that is not for tests.
fn messages(path: &str, text: &str) -> Vec<Finding> {
    if path.split('/').any(|part| part.trim_end_matches(".rs") == "tests") {
        return Vec::new();
    }
    let code = code(text);
    if code.len() != text.len() {
        // The code has a space for every character of a literal, whatever its length in bytes.
        return messages(path, &text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect::<String>());
    }
    let tests = test_blocks(&code);
    let mut findings = Vec::new();
    for word in PRONOUNS {
        for (position, _) in text.to_lowercase().match_indices(word) {
            let is_code = code[position..].starts_with(&text[position..position + word.len()]);
            let start = text[..position].rfind('\n').map_or(0, |newline| newline + 1);
            let is_comment = text[start..position].contains("//") && !text[start..position].contains("://");
            if is_code || is_comment || tests.iter().any(|block| block.contains(&position)) {
                continue;
            }
            let message = format!("a message says \"{word}\": name the user, client or component");
            findings.push(Finding::error(format!("{path}:{}", line(text, position)), message));
        }
    }
    findings
}

/// Paths in backticks below `crates/`, `xtask/`, `fuzz/` and `docs/` must exist.
fn paths(page: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let roots = ["crates/", "xtask/", "fuzz/", "docs/"];
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let is_path = roots.iter().any(|root| quoted.starts_with(root));
            let is_pattern = quoted.contains(['*', '<', '{', ' ', '…']) || quoted.contains("KIND");
            if is_path && !is_pattern && !exists(quoted.trim_end_matches('/')) {
                let location = format!("{page}:{}", number + 1);
                findings.push(Finding::error(location, format!("there is no {quoted}")));
            }
        }
    }
    findings
}

/// Whether `named` is the file, or a directory above it.
fn is_at(file: &str, named: &str) -> bool {
    file.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn finds(files: &[(&str, &str)], expected: &str) {
        let found = findings(files);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }

    #[test]
    fn public_type_names_are_specific() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("crates/{name}/src/lib.rs"));
        let three = [
            (a.as_str(), "pub struct Place;"),
            (&b, "pub(crate) enum Place {}"),
            (&c, "pub type Place<T> = T;"),
        ];
        assert_eq!(findings(&three), Vec::<String>::new());
        finds(
            &[three[0], three[1], three[2], (&d, "pub trait Place {}")],
            "`Place` is a public type in a, b, c, d",
        );
        // Private types, re-exports and comments do not count.
        let others = "struct Place; pub use a::Place;\n// pub struct Place;\n";
        assert_eq!(findings(&[three[0], three[1], three[2], (&d, others)]), Vec::<String>::new());
    }

    #[test]
    fn file_names_are_words_of_the_glossary() {
        finds(&[("crates/a/src/weather.rs", "")], "\"weather\" is not a word");
        finds(&[("crates/a/tests/keep/main.rs", "")], "\"keep\" is not a word");
    }

    #[test]
    fn comments_begin_with_their_subject() {
        finds(
            &[("crates/a/src/b.rs", "/// What a cluster costs.\n")],
            "crates/a/src/b.rs:1: the comment begins",
        );
        finds(&[("crates/a/src/b.rs", "//! Fine.\n//!\n//! Whose turn it is.\n")], "crates/a/src/b.rs:3");
        assert_eq!(
            findings(&[("crates/a/src/b.rs", "// A sentence that goes on and ends in\n// What.\n")]),
            [""; 0]
        );
    }

    #[test]
    fn messages_name_who_acts() {
        finds(&[("crates/a/src/b.rs", "f(\"é: nobody has said\");")], "says \"nobody\"");
        finds(&[("crates/a/src/b.rs", "f(\"see https://x; Somebody else\");")], "says \"somebody\"");
        let fine = "fn nobody() {}\n#[cfg(test)]\nmod tests { const A: &str = \"nobody\"; }\n";
        assert_eq!(findings(&[("crates/a/src/b.rs", fine)]), [""; 0]);
        assert_eq!(findings(&[("crates/a/src/b/tests.rs", "f(\"nobody\")")]), [""; 0]);
    }

    #[test]
    fn sentences_name_their_subjects() {
        finds(&[("crates/a/src/b.rs", "fn f() {}\n// For everyone.\n")], "crates/a/src/b.rs:2: \"everyone\"");
        finds(&[("crates/a/tests/b.rs", "/// Who asks.\n")], "the comment begins with \"Who\"");
        finds(&[("docs/a.md", "A change that someone makes.\n")], "docs/a.md:1: \"someone\"");
        let code = "```\nkubectl auth can-i --as nobody\n```\nThe user `nobody` and rbac-nobody.\n";
        assert_eq!(findings(&[("docs/a.md", code), ("docs/glossary.md", "nobody")]), [""; 0]);
    }

    #[test]
    fn documents_name_files_that_exist() {
        let files = [
            ("crates/a/src/lib.rs", ""),
            ("A.md", "`crates/a/src`, `crates/a/src/lib.rs`, `crates/<name>/x`"),
        ];
        assert_eq!(findings(&files), [""; 0]);
        finds(&[("A.md", "text\n`crates/b/src/lib.rs`")], "A.md:2: there is no crates/b/src/lib.rs");
    }
}
