//! Objects that a workspace gives to itself and to the workspaces below it.

use std::sync::Arc;

use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Revision, Store, Write, WriteHint};
use atoll_watch::object::Decode;
use atoll_watch::{Cache, EventType, Facts, Layer, Limits, Scope, Watcher};
use bytes::Bytes;

const GROUP: &str = "apiextensions.k8s.io";
const RESOURCE: &str = "customresourcedefinitions";

/// Objects of the resource `gifts` give what they are named after. The workspace `a-b` is below `a`.
struct Gifts;

impl Decode for Gifts {
    fn facts(&self, _: &Key, _: &Bytes, _: Option<&WriteHint>) -> Arc<Facts> {
        Facts::none()
    }

    fn inherited(&self, key: &Key, value: &Bytes) -> Option<(Key, Bytes, Arc<Facts>)> {
        let parts = key.parts().filter(|parts| parts.resource == "gifts")?;
        let (name, _) = parts.name.split_once('.')?;
        Some((given(parts.workspace, name), value.clone(), Facts::none()))
    }

    fn ancestry(&self, workspace: &str) -> Vec<String> {
        let ends = workspace.match_indices('-').map(|(end, _)| end).rev();
        std::iter::once(workspace.len()).chain(ends).map(|end| workspace[..end].to_string()).collect()
    }
}

fn given(workspace: &str, name: &str) -> Key {
    Key::object(GROUP, RESOURCE, workspace, "", name)
}

fn gift(workspace: &str, name: &str) -> Key {
    Key::object("g", "gifts", workspace, "", name)
}

fn scope(workspace: Option<&str>) -> Scope {
    Scope::new(GROUP, RESOURCE, workspace, workspace.map(|_| ""))
}

struct World {
    store: MemoryStore,
    cache: Arc<Cache>,
}

impl World {
    async fn new() -> World {
        let store = MemoryStore::new();
        let cache =
            Cache::open(&store, Arc::new(Gifts), Layer::default(), Limits::default(), Vec::new()).await;
        World { cache: cache.expect("the store can be read"), store }
    }

    async fn write(&self, key: Key, value: Option<&str>) -> Revision {
        let value = value.map(|text| {
            let json = r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"x"},"text":"#;
            Bytes::from(format!("{json}\"{text}\"}}"))
        });
        let write = Write { key, expect: Condition::Any, value, guards: Vec::new(), hint: None };
        let revision = self.store.write(write).await.expect("the write succeeds");
        self.cache.wait_for(revision).await;
        revision
    }

    /// Names and texts of the objects of a workspace, or of all, with the workspace of each.
    fn list(&self, workspace: Option<&str>) -> Vec<String> {
        let scope = scope(workspace);
        let snapshot = self.cache.snapshot();
        let listed: Vec<String> = snapshot.list(&scope, None).map(|object| shown(&object)).collect();
        assert_eq!(snapshot.count(&scope), listed.len());
        listed
    }

    fn watch(&self, workspace: Option<&str>, after: Revision) -> Watcher {
        self.cache.watch(scope(workspace), after).expect("the history has it")
    }
}

fn shown(object: &atoll_watch::Object) -> String {
    let json = String::from_utf8(object.json().to_vec()).expect("text");
    let text = json.rsplit('"').nth(1).unwrap_or_default().to_string();
    format!("{}/{} {text} {}", object.workspace(), object.name(), object.revision)
}

/// The types of the next events, with the objects that they show.
fn events(watcher: &mut Watcher) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(events) = watcher.ready().expect("the history has it") {
        for event in events {
            let event_type = event.type_for(|_| true).expect("a change");
            let object = event.subject(event_type).expect("an object");
            let json = String::from_utf8(object.json().to_vec()).expect("text");
            let text = json.rsplit('"').nth(1).unwrap_or_default().to_string();
            let word = match event_type {
                EventType::Added => "+",
                EventType::Modified => "=",
                EventType::Deleted => "-",
            };
            seen.push(format!("{word}{text}"));
        }
    }
    seen
}

#[tokio::test]
async fn an_object_is_inherited_until_a_workspace_has_its_own() {
    let world = World::new().await;
    let first = world.write(gift("a", "w.1"), Some("one")).await;
    assert_eq!(world.list(Some("a")), [format!("a/w one {first}")]);
    assert_eq!(world.list(Some("a-b-c")), [format!("a-b-c/w one {first}")]);
    assert_eq!(world.list(Some("z")), Vec::<String>::new());
    assert_eq!(world.list(None), [format!("a/w one {first}")], "once in all workspaces");
    let giver = |workspace: &str| world.cache.snapshot().giver(&given(workspace, "w"));
    assert_eq!(
        [giver("a"), giver("a-b-c"), giver("z")],
        [Some("a".to_string()), Some("a".to_string()), None]
    );
    let snapshot = world.cache.snapshot();
    assert!(
        snapshot.is_inherited(&given("a-b", "w")) && snapshot.stored_revision(&given("a-b", "w")).is_none()
    );

    let own = world.write(given("a-b", "w"), Some("own")).await;
    assert_eq!(world.list(Some("a-b")), [format!("a-b/w own {own}")]);
    assert_eq!(
        world.list(Some("a-b-c")),
        [format!("a-b-c/w one {first}")],
        "stored objects are not inherited"
    );
    // A nearer workspace hides those above.
    let nearer = world.write(gift("a-b", "w.1"), Some("nearer")).await;
    assert_eq!(world.list(Some("a-b-c")), [format!("a-b-c/w nearer {nearer}")]);
    world.write(gift("a-b", "w.1"), None).await;
    assert_eq!(world.list(Some("a-b-c")), [format!("a-b-c/w one {first}")]);
    world.write(given("a-b", "w"), None).await;
    assert_eq!(world.list(Some("a-b")), [format!("a-b/w one {first}")]);

    // Another object takes over before the first one stops.
    let second = world.write(gift("a", "w.2"), Some("two")).await;
    world.write(gift("a", "w.1"), None).await;
    assert_eq!(world.list(Some("a-b")), [format!("a-b/w two {second}")]);
    world.write(gift("a", "w.2"), None).await;
    assert_eq!(world.list(Some("a-b")), Vec::<String>::new());
    // The past and a restart show the same.
    let past = world.cache.at(second, &scope(Some("a-b"))).expect("the history has it");
    let listed: Vec<String> = past.list(&scope(Some("a-b")), None).map(|object| shown(&object)).collect();
    assert_eq!(listed, [format!("a-b/w two {second}")]);
    let third = world.write(gift("a", "w.3"), Some("three")).await;
    let again =
        Cache::open(&world.store, Arc::new(Gifts), Layer::default(), Limits::default(), Vec::new()).await;
    let again = World { cache: again.expect("the store can be read"), store: MemoryStore::new() };
    assert_eq!(again.list(Some("a-b")), [format!("a-b/w three {third}")]);
}

#[tokio::test]
async fn watchers_see_what_their_workspace_inherits() {
    let world = World::new().await;
    let start = world.cache.revision();
    let places = [Some("a"), Some("a-b"), Some("a-b-c"), Some("z"), None];
    let mut live: Vec<Watcher> = places.iter().map(|place| world.watch(*place, start)).collect();
    let expected: [&[&str]; 5] = [
        &["+one", "=two", "-two"],
        // An own object hides inherited ones until it is gone.
        &["+one", "+own", "-own", "+two", "-two"],
        &["+one", "=near", "=one", "=two", "-two"],
        &[],
        // Once, in the workspace that gives it.
        &["+one", "+own", "=two", "-own", "-two"],
    ];
    let mut found: Vec<Vec<String>> = vec![Vec::new(); places.len()];
    let steps = [
        (gift("a", "w.1"), Some("one")),
        (given("a-b", "w"), Some("own")),
        (gift("a-b", "w.1"), Some("near")),
        (gift("a-b", "w.1"), None),
        (gift("a", "w.1"), Some("two")),
        (given("a-b", "w"), None),
        (gift("a", "w.1"), None),
    ];
    for (key, value) in steps {
        world.write(key, value).await;
        for (watcher, found) in live.iter_mut().zip(&mut found) {
            found.extend(events(watcher));
        }
    }
    for ((place, found), expected) in places.iter().zip(&found).zip(expected) {
        assert_eq!(found, expected, "{place:?}");
    }
    // A watch that starts later reads the same from the history, as far as it is still visible.
    assert_eq!(events(&mut world.watch(Some("a"), start)), ["+one", "=two", "-two"]);
    assert_eq!(events(&mut world.watch(Some("z"), start)), Vec::<String>::new());
}
