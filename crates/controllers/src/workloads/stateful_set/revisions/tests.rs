use serde_json::json;

use super::*;

fn set(image: &str) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "u"},
        "spec": {
            "revisionHistoryLimit": 1,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}},
        },
    })
}

fn revision(image: &str, number: i64) -> Arc<Value> {
    let set = set(image);
    let data = history::snapshot(&set);
    let hash = history::hash(&data, Some(0));
    Arc::new(history::revision(&set, &resources::STATEFUL_SETS, data, number, HASH_LABEL, &hash))
}

#[test]
fn old_templates_are_reused() {
    let (one, two) = (revision("one", 1), revision("two", 2));
    let all = [one.clone(), two.clone()];
    assert_eq!(newest(&set("two"), &all, 0), Newest::Unchanged(two));
    assert_eq!(newest(&set("one"), &all, 0), Newest::Old(one.clone(), 3));
    assert_eq!(newest(&set("one"), &[], 0), Newest::New(one.as_ref().clone()));
    let Newest::New(three) = newest(&set("three"), &all, 0) else { panic!("a new template") };
    assert_eq!(history::number(&three), 3);
    let Newest::New(other) = newest(&set("three"), &all, 1) else { panic!("a new template") };
    assert_ne!(object::name(&three), object::name(&other), "collisions make another name");
}

#[test]
fn oldest_unused_revisions_are_deleted_first() {
    let all: Vec<_> = (1..=5).map(|number| revision(&number.to_string(), number)).collect();
    let live = HashSet::from([object::name(&all[1]), object::name(&all[4])]);
    let forgotten = |limit: i64| {
        let mut set = set("5");
        set["spec"]["revisionHistoryLimit"] = limit.into();
        revisions_to_delete(&set, &all, &live).map(|revision| history::number(revision)).collect::<Vec<_>>()
    };
    assert_eq!(forgotten(0), [1, 3, 4]);
    assert_eq!(forgotten(1), [1, 3]);
    assert_eq!(forgotten(3), [] as [i64; 0]);
    assert_eq!(forgotten(-1), [] as [i64; 0]);
}
