use atoll_watch::{Facts, Object};
use serde_json::json;

use super::judging::{MOST_DISTINCT, name_of_cluster};
use super::*;
use crate::definitions::conditions;
use crate::imports::OFFERED;

fn import(cluster: &str, properties: Value, offered: bool, served: bool) -> Import {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
            "type": "object", "properties": properties,
        } } } },
    });
    let mut import = json!({
        "metadata": { "name": format!("widgets.example.com.{cluster}"), "creationTimestamp": "2026-11-19T04:00:00Z" },
        "spec": { "cluster": cluster, "served": served, "definition": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [version],
        } },
    });
    if offered {
        conditions::set(&mut import, [OFFERED, "True", "Offered", ""], "");
    }
    let key = Key::object(ATOLL, RESOURCE, "w", "", object::name(&import));
    let json = atoll_meta::json::to_vec(&import).into();
    Import::read(Arc::new(Object::complete(key, 1, json, Facts::none()))).unwrap()
}

/// Cluster, whether it offers the definition, and the reason and the message of its compatibility.
fn results(judged: &[Judged]) -> Vec<(String, String, String, String)> {
    let one = |judged: &Judged| {
        let [_, reason, message] = judged.compatible.clone();
        (name_of_cluster(&judged.import).to_string(), judged.offered[0].clone(), reason, message)
    };
    judged.iter().map(one).collect()
}

#[test]
fn the_first_cluster_offers_what_all_share() {
    let size = |kind: &str| json!({ "size": { "type": kind } });
    let both = json!({ "size": { "type": "integer" }, "color": { "type": "string" } });
    let judged = judge(
        vec![import("east", both.clone(), false, true), import("west", size("integer"), false, true)],
        Some(&[]),
    );
    let found = results(&judged);
    assert_eq!((&*found[0].0, &*found[0].1, &*found[0].2), ("east", "True", "Compatible"));
    assert_eq!((&*found[1].0, &*found[1].1, &*found[1].2), ("west", "False", "Compatible"));
    let offered = judged[0].definition.as_ref().expect("a narrower definition");
    let spec = offered.pointer("/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
    assert_eq!(spec.as_object().unwrap().keys().collect::<Vec<_>>(), ["size"]);

    // A field that objects use is not dropped, and a contradiction names the field.
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "color": "red" },
    });
    for (properties, field) in [(size("integer"), ".spec.color"), (size("string"), ".spec.size")] {
        let imports = vec![import("east", both.clone(), true, true), import("west", properties, false, true)];
        let judged = judge(imports, Some(std::slice::from_ref(&object)));
        let found = results(&judged);
        assert_eq!((&*found[1].0, &*found[1].2), ("west", "Incompatible"), "{field}");
        assert!(found[1].3.contains(field) && found[1].3.contains("west"), "{}", found[1].3);
        assert_eq!(judged[0].definition, None);
    }
}

#[test]
fn a_cluster_that_no_longer_serves_it_hands_over() {
    let size = json!({ "size": { "type": "integer" } });
    let imports = vec![import("east", size.clone(), true, false), import("west", size, false, true)];
    let found = results(&judge(imports, None));
    assert_eq!((&*found[0].0, &*found[0].1), ("west", "True"));
    assert_eq!((&*found[1].0, &*found[1].1, &*found[1].2), ("east", "False", "NotServed"));
}

/// The definitions themselves are not read to tell them apart.
#[test]
fn imports_are_read_without_their_definitions() {
    let east = import("east", json!({ "size": { "type": "integer" } }), true, true);
    assert_eq!(east.head["spec"], json!({ "cluster": "east", "served": true }));
    assert!(east.is_offered() && east.is_candidate());
    assert_eq!(east.whole().unwrap()["spec"]["definition"]["group"], "example.com");
}

#[test]
fn few_different_definitions_are_compared() {
    let of = |number: usize| json!({ "size": { "type": "integer", "minimum": number } });
    let all = MOST_DISTINCT + 2;
    let mut imports: Vec<Import> =
        (0..all).map(|number| import(&format!("c{number}"), of(number), false, true)).collect();
    // A definition that was compared is not a further one.
    imports.push(import("equal", of(3), false, true));
    let found = results(&judge(imports, Some(&[])));
    let reasons: Vec<&str> = found.iter().map(|(_, _, reason, _)| &**reason).collect();
    let mut expected = vec!["Compatible"; MOST_DISTINCT];
    expected.extend(["Incompatible", "Incompatible", "Compatible"]);
    assert_eq!(reasons, expected);
    assert!(
        found[MOST_DISTINCT].3.contains("more than 16 different definitions"),
        "{}",
        found[MOST_DISTINCT].3
    );
}
