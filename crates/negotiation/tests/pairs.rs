//! The table of pairs of schemas in `pairs.txt`: verdicts, words and merged schemas.

#![allow(clippy::unwrap_used)]

use atoll_meta::Deadline;
use atoll_negotiation::{AllUsed, Differences, Unused, canonical_text, compare, lowest_common_denominator};
use serde_json::{Value, json};

const TABLE: &str = include_str!("pairs.txt");

#[derive(Debug, Default)]
struct Pair {
    name: String,
    offered: Value,
    cluster: Value,
    /// The merged schema if the cluster is compatible.
    merged: Option<Value>,
    sentences: Vec<String>,
    remarks: Vec<String>,
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn pairs() -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for line in TABLE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("=== ") {
            pairs.push(Pair { name: name.to_owned(), ..Pair::default() });
            continue;
        }
        let pair = pairs.last_mut().expect("a row begins with its name");
        match line.split_once(' ').unwrap_or((line, "")) {
            ("offered:", schema) => pair.offered = yaml(schema),
            ("cluster:", schema) => pair.cluster = yaml(schema),
            ("same", _) => pair.merged = Some(pair.offered.clone()),
            ("narrowed:", schema) => pair.merged = Some(yaml(schema)),
            ("refused", _) => pair.merged = None,
            ("-", sentence) => pair.sentences.push(sentence.to_owned()),
            ("~", sentence) => pair.remarks.push(sentence.to_owned()),
            _ => panic!("{}: {line}", pair.name),
        }
    }
    pairs
}

/// The schema of objects with the field `.spec.x`.
fn object(x: &Value) -> Value {
    let spec = json!({ "type": "object", "properties": { "x": x } });
    json!({ "type": "object", "properties": { "spec": spec } })
}

fn sentences(differences: &Differences) -> Vec<String> {
    differences.describe("east")
}

#[test]
fn verdicts_and_words_are_those_of_the_table() {
    let pairs = pairs();
    assert!(pairs.len() >= 60, "{} pairs", pairs.len());
    let mut wrong = Vec::new();
    for pair in &pairs {
        let found = lowest_common_denominator(
            "v1",
            &object(&pair.offered),
            &object(&pair.cluster),
            &Unused,
            &Deadline::never(),
        );
        let actual = match &found {
            Ok(common) => {
                (Some(canonical_text(&common.schema)), sentences(&common.lost), sentences(&common.remarks))
            }
            Err(fields) => (None, sentences(fields), Vec::new()),
        };
        let merged = pair.merged.as_ref().map(|merged| canonical_text(&object(merged)));
        let expected = (merged, pair.sentences.clone(), pair.remarks.clone());
        if actual != expected {
            wrong.push(format!("{}\n  found    {actual:?}\n  expected {expected:?}", pair.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} pairs:\n{}", wrong.len(), pairs.len(), wrong.join("\n"));
}

#[test]
fn a_schema_in_use_is_never_narrowed() {
    for pair in pairs() {
        let (offered, cluster) = (object(&pair.offered), object(&pair.cluster));
        let found = lowest_common_denominator("v1", &offered, &cluster, &AllUsed, &Deadline::never());
        match pair.merged {
            Some(merged) if merged == pair.offered => {
                assert_eq!(found.map(|common| common.schema), Ok(offered), "{}", pair.name);
            }
            Some(_) => {
                let fields = found.expect_err(&pair.name);
                assert_eq!(sentences(&fields), pair.sentences, "{}", pair.name);
            }
            None => {
                let fields = sentences(&found.expect_err(&pair.name));
                assert!(fields.starts_with(&pair.sentences), "{}: {fields:?}", pair.name);
            }
        }
    }
}

#[test]
fn a_merged_schema_needs_no_more_changes() {
    for pair in pairs() {
        let (offered, cluster) = (object(&pair.offered), object(&pair.cluster));
        let once = compare(&offered, &cluster, &Deadline::never());
        if !once.contradictions.is_empty() {
            continue;
        }
        for other in [&offered, &cluster, &once.merged] {
            let again = compare(&once.merged, other, &Deadline::never());
            assert!(again.losses.is_empty() && again.contradictions.is_empty(), "{}: {again:?}", pair.name);
            assert_eq!(canonical_text(&again.merged), canonical_text(&once.merged), "{}", pair.name);
        }
    }
}

#[test]
fn both_orders_lead_to_the_same_schema() {
    for pair in pairs().into_iter().filter(|pair| pair.merged.is_some()) {
        let (offered, cluster) = (object(&pair.offered), object(&pair.cluster));
        let (one, other) = (
            compare(&offered, &cluster, &Deadline::never()),
            compare(&cluster, &offered, &Deadline::never()),
        );
        let text = pair.offered.to_string() + &pair.cluster.to_string();
        let is_ordered =
            ["default", "self.b", "additionalProperties", "colour"].iter().any(|word| text.contains(word));
        if other.contradictions.is_empty() && !is_ordered {
            assert_eq!(canonical_text(&one.merged), canonical_text(&other.merged), "{}", pair.name);
        }
    }
}
