use std::sync::Arc;

use atoll_watch::Facts;
use serde_json::json;

use super::*;

fn object(workspace: &str, name: &str, size: usize) -> Object {
    let key = Key::object("", "configmaps", workspace, "default", name);
    Object::complete(key, 7, Bytes::from(vec![b'x'; size]), Facts::none())
}

pub(super) fn workspace(parent: &str, name: &str, id: &str, limits: &Value) -> Object {
    let key = Key::object(ATOLL, "workspaces", parent, "", name);
    let value = json!({ "spec": { "limits": limits }, "status": { "id": id } });
    let facts = Facts { fields: Box::from([("status.id", id.into())]), ..Facts::default() };
    Object::complete(key, 7, Bytes::from(value.to_string()), Arc::new(facts))
}

fn used(usage: &Usage, id: &str) -> (i64, i64) {
    let used = usage.state().used.get(id).copied().unwrap_or_default();
    (used.objects, used.bytes)
}

fn configmaps() -> Row {
    let catalog = crate::Catalog::new(crate::Profile::Minimal);
    Row::clone(catalog.find("", "v1", "configmaps").unwrap())
}

fn reserve<'u>(
    usage: &'u Usage,
    workspace: &str,
    name: &str,
    size: usize,
) -> Result<Reservation<'u>, String> {
    let key = Key::object("", "configmaps", workspace, "default", name);
    let object_ref = ObjectRef { workspace, namespace: "default", name };
    match usage.reserve(&configmaps(), &object_ref, &key, None, size) {
        Ok(reservation) => Ok(reservation.unwrap()),
        Err(status) => Err(status.message().to_string()),
    }
}

#[test]
fn usage_counts_for_ancestors_but_not_for_the_root() {
    let usage = Usage::default();
    // Contents are loaded before their workspaces.
    let (one, two) = (object("child", "one", 100), object("team", "two", 50));
    usage.replaced(None, Some(&one));
    usage.replaced(None, Some(&two));
    let (child, team) =
        (workspace("team", "c", "child", &json!({})), workspace(ROOT, "t", "team", &json!({})));
    let size = charged_bytes(child.slices()) as i64;
    usage.replaced(None, Some(&child));
    usage.replaced(None, Some(&team));
    assert_eq!(used(&usage, "child"), (1, 100));
    assert_eq!(used(&usage, "team"), (3, 150 + size), "its own object, the child and the child's object");
    assert_eq!(used(&usage, ROOT), (0, 0));
    usage.replaced(Some(&one), Some(&object("child", "one", 10)));
    assert_eq!(used(&usage, "team"), (3, 60 + size));
    usage.replaced(Some(&child), None);
    assert_eq!(used(&usage, "child"), (0, 0));
    assert_eq!(used(&usage, "team"), (1, 50), "a workspace is removed with its remaining contents");
    usage.replaced(Some(&two), None);
    assert!(usage.state().used.is_empty(), "an empty workspace has no entry");
}

#[test]
fn objects_within_objects_count() {
    for (json, expected) in [("", 0), ("[1]", 3), ("{}", 2 + 128), (r#"{"a":[{},{}]}"#, 13 + 3 * 128)] {
        assert_eq!(charged_bytes([json.as_bytes()]), expected, "{json}");
    }
}

#[test]
fn values_of_dense_lists_count() {
    let charged = |json: &str| {
        // The parts of an object are divided within the text of its resource version.
        let (first, second) = json.as_bytes().split_at(json.len() / 2);
        charged_bytes([first, second])
    };
    let list = format!("[{}1]", "1,".repeat(159));
    assert_eq!(charged(&list), list.len() + 32 * (159 - list.len() / 16));
    let text = format!(r#"["{}\\","{}\"{}"]"#, "1,".repeat(80), "1,".repeat(80), ",".repeat(80));
    assert_eq!(charged(&text), text.len(), "commas of texts do not count");
    let usual = format!("[{}1]", r#""0123456789012345","#.repeat(20));
    assert_eq!(charged(&usual), usual.len(), "values of usual length do not count");
}

#[test]
fn limits_apply_to_descendants_and_reservations_are_released() {
    let usage = Usage::default();
    usage.replaced(None, Some(&workspace(ROOT, "t", "team", &json!({ "objects": 3 }))));
    let child = workspace("team", "c", "child", &json!({ "objects": 1_000 }));
    usage.replaced(None, Some(&child));
    let first = reserve(&usage, "child", "a", 10).unwrap();
    let second = reserve(&usage, "team", "b", 10).unwrap();
    let refused = reserve(&usage, "child", "c", 10).err().unwrap();
    assert_eq!(
        refused,
        "configmaps \"c\" is forbidden: exceeded workspace limit: requested: objects=1, used: objects=3, limited: \
         objects=3 (in a workspace above and all below it)"
    );
    drop(second);
    let third = reserve(&usage, "child", "c", 10).unwrap();
    // The first write was observed: it counts once.
    usage.replaced(None, Some(&object("child", "a", 12)));
    drop(first);
    assert_eq!(used(&usage, "child"), (2, 22));
    drop(third);
    assert_eq!(used(&usage, "child"), (1, 12));
    assert_eq!(usage.refused(), [1, 0, 0]);
    // The limit is raised in the parent.
    let raised = workspace(ROOT, "t", "team", &json!({ "objects": 3, "bytes": "1Ki" }));
    usage.replaced(Some(&workspace(ROOT, "t", "team", &json!({ "objects": 3 }))), Some(&raised));
    let refused = reserve(&usage, "team", "d", 2_000).err().unwrap();
    assert!(refused.contains("limited: bytes=1024"), "{refused}");
    assert_eq!(usage.fullest()[0].0, "team");
}

#[test]
fn existing_objects_may_exceed_the_limit_by_a_tenth() {
    let usage = Usage::default();
    usage.replaced(None, Some(&workspace(ROOT, "t", "team", &json!({ "bytes": 1_000 }))));
    usage.replaced(None, Some(&object("team", "a", 1_000)));
    let key = Key::object("", "configmaps", "team", "default", "a");
    let object_ref = ObjectRef { workspace: "team", namespace: "default", name: "a" };
    let grow = |size| usage.reserve(&configmaps(), &object_ref, &key, Some(1_000), size).map(|_| ()).is_ok();
    assert!(grow(900) && grow(1_000) && grow(1_100));
    assert!(!grow(1_101));
}
