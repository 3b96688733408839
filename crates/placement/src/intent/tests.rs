use serde_json::json;

use super::*;

#[test]
fn intents_are_parsed_and_formatted() {
    for (text, amounts, formatted) in [
        ("none", vec![], "none"),
        (" none ", vec![], "none"),
        ("east", vec![Amount::Unset], "east"),
        ("east,west", vec![Amount::Unset, Amount::Unset], "east,west"),
        ("east=2,west=1", vec![Amount::Weight(2), Amount::Weight(1)], "east=2,west=1"),
        ("east = 2 , west = 1", vec![Amount::Weight(2), Amount::Weight(1)], "east=2,west=1"),
        ("east=0,west=1", vec![Amount::Weight(0), Amount::Weight(1)], "east=0,west=1"),
        ("east==2", vec![Amount::Pin(2)], "east==2"),
        ("east==0,west==3", vec![Amount::Pin(0), Amount::Pin(3)], "east==0,west==3"),
        ("east==2,west", vec![Amount::Pin(2), Amount::Unset], "east==2,west"),
        ("east==2,west=1", vec![Amount::Pin(2), Amount::Weight(1)], "east==2,west=1"),
        ("east=all,west=all", vec![Amount::All, Amount::All], "east=all,west=all"),
    ] {
        let intent = Intent::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(intent.parts.iter().map(|part| part.amount).collect::<Vec<_>>(), amounts, "{text}");
        assert_eq!(intent.to_string(), formatted, "{text}");
        assert_eq!(Intent::parse(formatted), Ok(intent), "{text}");
    }
}

#[test]
fn mistakes_are_explained() {
    for (text, expected) in [
        ("", "must name clusters, such as east,west or east=2,west=1, or be none"),
        (" ", "must name clusters, such as east,west or east=2,west=1, or be none"),
        ("east,", "has a comma without a cluster; write east,west"),
        ("none,east", "none means no cluster and must stand alone"),
        ("none=1", "none means no cluster and must stand alone"),
        ("east,west,east", "names the cluster east twice"),
        (
            "East",
            "\"East\" is not the name of a cluster: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
             '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ),
        (
            "east=-1",
            "\"-1\" is not a number of replicas for east: write east=2 for a weight or east==2 for exactly two replicas, up to 1000000",
        ),
        (
            "east==all",
            "\"all\" is not a number of replicas for east: write east=2 for a weight or east==2 for exactly two replicas, up to \
             1000000",
        ),
        (
            "east=",
            "\"\" is not a number of replicas for east: write east=2 for a weight or east==2 for exactly two replicas, up to 1000000",
        ),
        ("east=0", "must give at least one cluster a weight above 0; to place it nowhere, write none"),
    ] {
        let error = Intent::parse(text).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
    for text in ["east,west=1", "east=all,west=1", "east=all,west", "east=all,west==1"] {
        assert_eq!(Intent::parse(text), Err(IntentError::Mixed), "{text}");
    }
    for number in ["+1", "1.5", "1000001", "two"] {
        assert!(
            matches!(Intent::parse(&format!("east={number}")), Err(IntentError::Number { .. })),
            "{number}"
        );
    }
    let many = vec!["c"; 1001].join(",");
    assert_eq!(Intent::parse(&many), Err(IntentError::TooMany { count: 1001 }));
}

#[test]
fn the_annotation_of_the_object_has_precedence() {
    let with = |text: Option<&str>| json!({ "metadata": { "annotations": text.map(|text| json!({ ANNOTATION: text })) } });
    for (object, namespace, expected) in [
        (None, None, None),
        (Some("east"), None, Some(("east", IntentSource::Object))),
        (Some("east"), Some("west"), Some(("east", IntentSource::Object))),
        (Some("none"), Some("west"), Some(("none", IntentSource::Object))),
        (None, Some("west"), Some(("west", IntentSource::Namespace))),
        (Some("?"), Some("west"), Some(("west", IntentSource::Namespace))),
    ] {
        let (own, of_namespace) = (with(object), with(namespace));
        let found = Intent::of(&own, Some(&of_namespace));
        let found = found.map(|(intent, source)| (intent.to_string(), source));
        assert_eq!(
            found,
            expected.map(|(text, source)| (text.to_string(), source)),
            "{object:?} {namespace:?}"
        );
    }
    assert_eq!(Intent::validate(&with(Some("east"))), None);
    let error = Intent::validate(&with(Some("east,"))).expect("an error");
    assert_eq!(
        error.to_string(),
        "metadata.annotations[atoll.dev/clusters]: Invalid value: \"east,\": has a comma without a cluster; write east,west"
    );
}

#[test]
fn pins_are_listed() {
    for (text, pins, is_pinned, is_duplicate) in [
        ("none", vec![], false, false),
        ("east==2,west", vec![("east", 2)], false, false),
        ("east==2,west==0", vec![("east", 2), ("west", 0)], true, false),
        ("east=2", vec![], false, false),
        ("east=all", vec![], false, true),
    ] {
        let intent = Intent::parse(text).expect(text);
        assert_eq!(intent.pins().collect::<Vec<_>>(), pins, "{text}");
        assert_eq!((intent.is_pinned(), intent.is_duplicate()), (is_pinned, is_duplicate), "{text}");
    }
}
