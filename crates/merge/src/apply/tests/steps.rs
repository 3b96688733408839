//! Long lists and many managers take few steps: work that grows with the square of their number would occupy the
//! server for minutes.

use std::cell::Cell;

use serde_json::{Value, json};

use super::{author, kind, managers};
use crate::apply::managed;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a comparison of path elements or of managers.
pub fn count() {
    STEPS.set(STEPS.get() + 1);
}

/// Returns the result of the work, which must not take more than 300 steps for each of `size` things.
fn in_few_steps<T>(size: usize, work: impl FnOnce() -> T) -> T {
    STEPS.set(0);
    let done = work();
    assert!(STEPS.get() <= 300 * size, "{} steps for {size}", STEPS.get());
    done
}

const SIZE: usize = 3000;

fn pod(prefix: &str, numbers: impl Iterator<Item = usize>) -> Value {
    let environment: Vec<Value> =
        numbers.map(|number| json!({ "name": format!("{prefix}{number}"), "value": "x" })).collect();
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "env": environment}]}})
}

#[test]
fn applying_long_lists_takes_few_steps() {
    let kind = kind("v1", "Pod");
    let apply = |live: &Value, config: &Value, manager: &str| {
        in_few_steps(SIZE, || kind.apply(live, config, &author(manager), true).unwrap())
    };
    let names = |pod: &Value| -> Vec<String> {
        let items = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = apply(kind.empty(), &pod("A", 0..SIZE), "x");
    assert_eq!(first["spec"], pod("A", 0..SIZE)["spec"]);
    // The same items in another order, then other items, then fewer.
    let turned = apply(&first, &pod("A", (0..SIZE).rev()), "y");
    assert_eq!(turned["spec"], pod("A", (0..SIZE).rev())["spec"]);
    let more = apply(&turned, &pod("B", 0..SIZE), "z");
    assert_eq!(names(&more), [names(&turned), names(&pod("B", 0..SIZE))].concat());
    let fewer = apply(&more, &pod("B", 0..1), "z");
    assert_eq!(names(&fewer).len(), SIZE + 1);
}

#[test]
fn repeated_items_are_found_in_few_steps() {
    let kind = kind("v1", "Pod");
    let twice = pod("A", (0..SIZE).chain([7, 5]));
    let refused = in_few_steps(SIZE, || kind.apply(kind.empty(), &twice, &author("x"), true).unwrap_err());
    let path = ".spec.containers[name=\"c\"].env";
    assert_eq!(
        refused.message(),
        format!(
            "failed to create typed patch object (/a; /v1, Kind=Pod): errors:\n  {path}: duplicate entries for key \
             [name=\"A7\"]\n  {path}: duplicate entries for key [name=\"A5\"]"
        )
    );
}

/// Returns entries of managers, each with a field of its own.
fn entries(operation: &str) -> Value {
    let entry = |number: usize| {
        json!({"manager": format!("m{number}"), "operation": operation, "apiVersion": "v1", "time": "2020-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:{number:05}"): {}}}})
    };
    Value::Array((0..SIZE).map(entry).collect())
}

#[test]
fn many_managers_take_few_steps() {
    let kind = kind("v1", "ConfigMap");
    for operation in ["Apply", "Update"] {
        let data: Value = (0..SIZE).map(|number| (format!("{number:05}"), json!("x"))).collect();
        let live = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data,
            "metadata": {"name": "a", "uid": "1", "managedFields": entries(operation)}});
        let mut new = live.clone();
        new["data"] = json!({ "new": "x" });
        in_few_steps(SIZE, || kind.record(&live, &mut new, &author("own")));
        assert_eq!(managers(&new), json!({ "own Update": { "f:data": { "f:new": {} } } }));
        let mut new = live.clone();
        new["data"]["new"] = json!("x");
        in_few_steps(SIZE, || kind.record(&live, &mut new, &author("own")));
        let recorded = managers(&new);
        assert_eq!(recorded["own Update"], json!({ "f:data": { "f:new": {} } }));
        match operation {
            "Apply" => assert_eq!(recorded.as_object().unwrap().len(), SIZE + 1),
            // All but the newest ones are combined.
            _ => {
                assert_eq!(recorded.as_object().unwrap().len(), 10);
                let ancient = recorded["ancient-changes Update"]["f:data"].as_object().unwrap();
                assert_eq!(ancient.len(), SIZE - 8);
            }
        }
        let config = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"00001": "y"}});
        let applied = in_few_steps(SIZE, || kind.apply(&live, &config, &author("own"), true).unwrap());
        assert_eq!(applied["data"]["00001"], "y");
    }
}

#[test]
fn the_last_entry_of_a_manager_counts() {
    let entry = |manager: &str, operation: &str, version: &str, field: &str| json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": {field: {}}});
    let own = [
        entry("a", "Apply", "v1", "f:a"),
        entry("b", "Update", "v1", "f:b"),
        entry("a", "Apply", "v2", "f:c"),
        entry("b", "Update", "v2", "f:d"),
        entry("b", "Update", "v1", "f:e"),
    ];
    // Short lists are compared, long ones are indexed.
    for others in [0, 20] {
        let others = (0..others).map(|number| entry(&format!("m{number}"), "Update", "v1", "f:x"));
        let list: Value = others.clone().chain(own.clone()).collect();
        let decoded = managed::decode(Some(&list)).unwrap();
        let fields: Vec<Value> =
            decoded.iter().skip(others.len()).map(|entry| entry.set.to_fields()).collect();
        assert_eq!(fields, [json!({"f:c": {}}), json!({"f:d": {}}), json!({"f:e": {}})]);
    }
}
