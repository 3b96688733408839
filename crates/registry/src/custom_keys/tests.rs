use atoll_store::memory::MemoryStore;
use serde_json::json;

use super::*;

fn entry(key: &str, value: Value) -> (Key, Bytes) {
    (Key::from(key), Bytes::from(value.to_string()))
}

fn workspace(id: &str, created: &str) -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "metadata": { "creationTimestamp": created }, "status": { "id": id },
    })
}

/// Contents of a store of an older version, and the key of each value after the migration.
fn old_store() -> Vec<((Key, Bytes), &'static str)> {
    let definition = |workspace: &str, name: &str| {
        format!("apiextensions.k8s.io/customresourcedefinitions/{workspace}//{name}")
    };
    let of = |api_version: &str| json!({ "apiVersion": api_version, "metadata": {} });
    let managed = |api_version: &str, manager: &str| json!({ "apiVersion": api_version, "metadata": { "managedFields": [{ "apiVersion": manager }] } });
    let cases = [
        ("core/configmaps/root/default/a", of("v1"), "core/configmaps/root/default/a"),
        ("apps/deployments/root/default/a", of("apps/v1"), "apps/deployments/root/default/a"),
        ("example.com/widgets/w/default/a", of("example.com/v1"), "~example.com/widgets/w/default/a"),
        ("apps/widgets/w//a", of("apps/v1"), "~apps/widgets/w//a"),
        (
            "fleet.example.com/clusters/w//a",
            of("fleet.example.com/v1alpha1"),
            "~fleet.example.com/clusters/w//a",
        ),
        ("internal.atoll.dev/nodeports/w//30000", json!({}), "internal.atoll.dev/nodeports/w//30000"),
        ("internal.atoll.dev/identity///self", json!({}), "internal.atoll.dev/identity///self"),
        (
            "rbac.authorization.k8s.io/clusterroles/w//edit",
            Value::Null,
            "rbac.authorization.k8s.io/clusterroles/w//edit",
        ),
        // A definition that shadows a built-in resource, with objects of both.
        ("apps/statefulsets/w/n/real", managed("apps/v1", "apps/v1"), "apps/statefulsets/w/n/real"),
        ("apps/statefulsets/w/n/v9", of("apps/v9"), "~apps/statefulsets/w/n/v9"),
        (
            "apps/statefulsets/w/n/converted",
            managed("apps/v1", "apps/v9"),
            "~apps/statefulsets/w/n/converted",
        ),
        ("apps/statefulsets/other/n/a", managed("apps/v1", "apps/v9"), "apps/statefulsets/other/n/a"),
        // Workspaces, and custom objects that look like one.
        (
            "atoll.dev/workspaces/root//a",
            workspace("aaaaaaaaaaaaaaa", "2026-01-01T00:00:00Z"),
            "atoll.dev/workspaces/root//a",
        ),
        (
            "atoll.dev/workspaces/other//b",
            workspace("aaaaaaaaaaaaaaa", "2026-02-01T00:00:00Z"),
            "~atoll.dev/workspaces/other//b",
        ),
        (
            "atoll.dev/workspaces/other//door",
            workspace("root", "2026-02-01T00:00:00Z"),
            "~atoll.dev/workspaces/other//door",
        ),
        (
            "atoll.dev/workspaces/aaaaaaaaaaaaaaa//own",
            workspace("ccccccccccccccc", "2026-02-01T00:00:00Z"),
            "atoll.dev/workspaces/aaaaaaaaaaaaaaa//own",
        ),
    ];
    let mut all: Vec<_> = cases.into_iter().map(|(old, value, new)| (entry(old, value), new)).collect();
    let shadow = entry(&definition("w", "statefulsets.apps"), of("apiextensions.k8s.io/v1"));
    all.push((shadow, "apiextensions.k8s.io/customresourcedefinitions/w//statefulsets.apps"));
    all
}

#[tokio::test]
async fn custom_objects_are_migrated_to_separate_keys() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for ((key, value), _) in old_store() {
        let write =
            Write { key, expect: Condition::Absent, value: Some(value), guards: Vec::new(), hint: None };
        store.write(write).await.unwrap();
    }
    let before = store.revision().await.unwrap();
    // An interrupted migration has written the new key and not yet deleted the old one.
    let (half, value) =
        (Key::from("~example.com/widgets/w/default/a"), Bytes::from_static(b"{\"older\":true}"));
    write_all(&store, [(half, Some(value))]).await.unwrap();

    assert_eq!(migrate(&store).await.unwrap(), 7);
    let entries = store.range(Range::all(), None, 0).await.unwrap().entries;
    let mut found: BTreeMap<Key, Bytes> = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
    assert!(found.remove(&marker().0).is_some());
    let expected: BTreeMap<Key, Bytes> =
        old_store().into_iter().map(|((_, value), new)| (Key::from(new), value)).collect();
    assert_eq!(found, expected);
    assert!(store.compacted().await.unwrap() > before, "older watches have to list again");

    let revision = store.revision().await.unwrap();
    assert_eq!(migrate(&store).await.unwrap(), 0);
    assert_eq!(store.revision().await.unwrap(), revision, "the second migration changes nothing");
}

#[test]
fn older_snapshots_are_migrated() {
    let mut entries: BTreeMap<Key, Bytes> = old_store().into_iter().map(|(entry, _)| entry).collect();
    upgrade(&mut entries);
    let mut expected: BTreeMap<Key, Bytes> =
        old_store().into_iter().map(|((_, value), new)| (Key::from(new), value)).collect();
    expected.extend([marker()]);
    assert_eq!(entries, expected);
}

/// Kubernetes Deployments stay built-in objects with every profile.
#[test]
fn built_in_versions_do_not_depend_on_the_profile() {
    let definition = "apiextensions.k8s.io/customresourcedefinitions/w//deployments.apps";
    let entries = BTreeMap::from([
        entry(definition, json!({})),
        entry("apps/deployments/w/n/a", json!({ "apiVersion": "apps/v1" })),
        entry("apps/deployments/w/n/b", json!({ "apiVersion": "apps/v9" })),
    ]);
    let moved: Vec<Key> = moves(&entries).into_iter().map(|(old, _)| old).collect();
    assert_eq!(moved, [Key::from("apps/deployments/w/n/b")]);
}

/// The older version has run again on a migrated store.
#[tokio::test]
async fn false_workspaces_of_a_downgrade_are_migrated() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    assert_eq!(migrate(&store).await.unwrap(), 0);
    let [one, two] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"];
    let written = [
        // The false workspace comes before the real one in key order, but was created later.
        entry("atoll.dev/workspaces/aaaaaaaaaaaaaaa//door", workspace(two, "2026-02-01T00:00:00Z")),
        entry("atoll.dev/workspaces/root//a", workspace(one, "2026-01-01T00:00:00Z")),
        entry("atoll.dev/workspaces/root//b", workspace(two, "2026-01-01T00:00:00Z")),
    ];
    write_all(&store, written.map(|(key, value)| (key, Some(value)))).await.unwrap();
    assert_eq!(migrate(&store).await.unwrap(), 1);
    let keys: Vec<Key> = read(&store, Range::all()).await.unwrap().into_keys().collect();
    let expected = ["atoll.dev/workspaces/root//a", "atoll.dev/workspaces/root//b"];
    assert_eq!(keys[..2], expected.map(Key::from));
    assert_eq!(keys.last(), Some(&Key::from("~atoll.dev/workspaces/aaaaaaaaaaaaaaa//door")));
    assert_eq!(migrate(&store).await.unwrap(), 0);
}

#[test]
fn workspaces_must_lead_to_the_root() {
    let [one, two, three, four] =
        ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb", "ccccccccccccccc", "ddddddddddddddd"];
    let created = "2026-01-01T00:00:00Z";
    let entries = BTreeMap::from([
        entry("atoll.dev/workspaces/root//a", workspace(one, created)),
        entry("atoll.dev/workspaces/aaaaaaaaaaaaaaa//b", workspace(two, created)),
        // A cycle, a child of it, and a child of an unknown workspace.
        entry("atoll.dev/workspaces/ccccccccccccccc//x", workspace(four, created)),
        entry("atoll.dev/workspaces/ddddddddddddddd//y", workspace(three, created)),
        entry("atoll.dev/workspaces/ddddddddddddddd//z", workspace("eeeeeeeeeeeeeee", created)),
        entry("atoll.dev/workspaces/zzzzzzzzzzzzzzz//l", workspace("fffffffffffffff", created)),
    ]);
    let kept = owners(&entries).into_iter().filter(|(_, is_owner)| *is_owner).map(|(key, _)| key);
    let mut kept: Vec<Key> = kept.collect();
    kept.sort();
    let expected = ["atoll.dev/workspaces/aaaaaaaaaaaaaaa//b", "atoll.dev/workspaces/root//a"];
    assert_eq!(kept, expected.map(Key::from));
}
