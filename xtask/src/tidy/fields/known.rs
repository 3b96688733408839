//! The names of fields that exist.

use std::collections::BTreeSet;

use super::documents::{DOCUMENTS, Document};
use super::uses::ProductFile;
use crate::tidy::tokens::{SourceToken, TokenKind, closing};

/// The facts about Kubernetes' types: lines with a field begin with a space, those with a type with `struct`.
const FACTS: &str = "crates/schema/data/types.txt";

/// Files with schemas of kinds that are not in the facts, by the beginning and the end of their paths: Atoll's,
/// those of dialects and those of metrics.k8s.io.
const SCHEMAS: [(&str, &str); 3] = [
    ("crates/registry/src/atoll_kinds/", ".rs"),
    ("crates/dialects/src/", "/definitions.rs"),
    ("crates/openapi/src/metrics", ".rs"),
];

/// Names with fewer characters are too similar to others to guess which one was meant.
const SHORTEST_GUESS: usize = 4;

pub struct Known {
    names: BTreeSet<String>,
}

impl Known {
    pub fn new(all: &[(String, String)], files: &[ProductFile<'_>]) -> Self {
        let mut names = BTreeSet::new();
        let facts = all.iter().filter(|(path, _)| path == FACTS);
        names.extend(facts.flat_map(|(_, text)| text.lines().filter_map(fact)).map(str::to_owned));
        for file in files {
            let is_schema =
                |(begin, end): &(&str, &str)| file.path.starts_with(begin) && file.path.ends_with(end);
            if SCHEMAS.iter().any(is_schema) {
                names.extend(json_keys(&file.tokens).map(str::to_owned));
            }
            names.extend(serde_fields(&file.tokens));
        }
        Known { names }
    }

    /// Whether a schema has a field of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the most similar name, if one is likely to be meant.
    pub fn similar(&self, path: &str, name: &str) -> Option<&str> {
        if name.len() < SHORTEST_GUESS {
            return None;
        }
        let of_documents = DOCUMENTS.iter().filter(|document| document.is_in(path));
        let listed = of_documents.flat_map(|document| document.words.iter().copied());
        let all = self.names.iter().map(String::as_str).chain(listed);
        let near = all.map(|known| (distance(known, name), known)).filter(|(distance, _)| *distance <= 2);
        near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
    }
}

impl Document {
    pub fn is_in(&self, path: &str) -> bool {
        self.files.iter().any(|file| path.starts_with(file))
    }
}

/// Returns the field or the type that a line of the facts describes. Names of types are keys of tables by type.
fn fact(line: &str) -> Option<&str> {
    match line.strip_prefix(' ') {
        Some(field) => field.split(' ').next().filter(|name| *name != "-"),
        None => line.strip_prefix("struct ")?.split(' ').next()?.rsplit('.').next(),
    }
}

/// Returns the keys of objects in `json!`.
fn json_keys<'t, 'a: 't>(tokens: &'t [SourceToken<'a>]) -> impl Iterator<Item = &'a str> + 't {
    let pairs = tokens.windows(2).filter(|pair| pair[0].kind == TokenKind::Text && pair[1].is(":"));
    pairs.map(|pair| pair[0].text)
}

/// Returns the fields of structs and variants that serde reads or writes.
fn serde_fields(tokens: &[SourceToken<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    for position in (0..tokens.len()).filter(|at| tokens[*at].is("derive")) {
        let end = closing(tokens, position + 1);
        let derived = &tokens[position..end];
        let Some(body) = tokens[end..].iter().position(|token| token.is("{") || token.is(";")) else {
            continue;
        };
        if !derived.iter().any(|token| token.is("Serialize") || token.is("Deserialize")) {
            continue;
        }
        let (head, fields) = (&tokens[end..end + body], &tokens[end + body..closing(tokens, end + body)]);
        let is_camel = head.iter().any(|token| token.kind == TokenKind::Text && token.text == "camelCase");
        for window in fields.windows(4) {
            let [before, name, colon, after] = window else { continue };
            if name.is_word() && colon.is(":") && !after.is(":") && !before.is(":") {
                found.push(if is_camel { camel_case(name.text) } else { name.text.to_owned() });
            }
        }
        let settings = head.windows(3).chain(fields.windows(3));
        let renames = ["content", "rename", "tag"];
        let is_name = |window: &&[SourceToken<'_>]| {
            renames.iter().any(|rename| window[0].is(rename)) && window[1].is("=")
        };
        found.extend(settings.filter(is_name).map(|window| window[2].text.to_owned()));
    }
    found
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        name + &initial.to_uppercase() + rest
    })
}

/// Returns how many letters must be added, removed, replaced or exchanged with the next to turn one name into the
/// other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().abs_diff(other.len()) > 2 {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tokens::tokens;

    #[test]
    fn facts_contain_fields_and_types() {
        assert_eq!(fact(" replicas Replicas *int32 omitempty proto=1,varint optional"), Some("replicas"));
        assert_eq!(fact(" - TypeMeta meta/v1.TypeMeta inline"), None);
        assert_eq!(fact("struct core/v1.PodSpec"), Some("PodSpec"));
        assert_eq!(fact("struct core/v1.NodeSelectorTerm structType=atomic"), Some("NodeSelectorTerm"));
        assert_eq!(fact("kind apps v1 Deployment apps/v1.Deployment"), None);
    }

    #[test]
    fn keys_of_schemas_and_fields_of_structs_are_known() {
        let schema = tokens(r#"json!({ "spec": text("Not: this."), "mode": { "type": "string" } })"#);
        assert_eq!(json_keys(&schema).collect::<Vec<_>>(), ["spec", "mode", "type"]);
        let plain = tokens(
            "#[derive(Debug, Serialize)] #[serde(tag = \"type\")] enum Line { Object { target: a::Target, \
             #[serde(rename = \"by\")] of_author: String }, End } #[derive(Debug)] struct Other { hidden: u8 }",
        );
        assert_eq!(serde_fields(&plain), ["target", "of_author", "type", "by"]);
        let camel = tokens(
            "#[derive(Deserialize)] #[serde(rename_all = \"camelCase\")] pub struct A { pub storage_class: B }",
        );
        assert_eq!(serde_fields(&camel), ["storageClass"]);
        assert!(serde_fields(&tokens("#[derive(Serialize)] struct Id(u8); struct B { c: u8 }")).is_empty());
    }

    #[test]
    fn distance_counts_typing_errors() {
        for (one, other, expected) in [
            ("replicas", "replicas", 0),
            ("replicas", "replcias", 1),
            ("metadata", "metdata", 1),
            ("template", "templates", 1),
            ("spec", "sepcs", 2),
            ("name", "namespace", usize::MAX),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
