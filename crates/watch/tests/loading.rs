//! Opening a cache on a store with many objects.

use std::sync::{Arc, Mutex};

use atoll_store::memory::MemoryStore;
use atoll_store::{Condition, Key, Revision, Store, Write, WriteHint};
use atoll_watch::object::{Decode, TOMBSTONE};
use atoll_watch::{Cache, Facts, Layer, Limits, Object, Observer, Scope};
use bytes::Bytes;

/// Sets the label `n` to the name of the object.
struct Names;

impl Decode for Names {
    fn facts(&self, key: &Key, _: &Bytes, _: Option<&WriteHint>) -> Arc<Facts> {
        let name = key.parts().map(|parts| parts.name).unwrap_or_default();
        Arc::new(Facts { labels: [("n".into(), name.into())].into(), ..Facts::default() })
    }
}

/// Records its calls in order.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, Key)>>);

impl Observer for Recorder {
    fn changed(&self, key: &Key, value: Option<&Bytes>, revision: Revision) {
        let what = format!("changed to {:?} at {revision}", value.map(Bytes::len));
        self.0.lock().expect("no panic").push((what, key.clone()));
    }

    fn replaced(&self, before: Option<&Object>, after: Option<&Object>) {
        let [old, new] = [before, after].map(|object| object.map(|object| object.revision));
        let key = &after.or(before).expect("one of them").key;
        self.0.lock().expect("no panic").push((format!("replaced {old:?} by {new:?}"), key.clone()));
    }
}

async fn write(store: &MemoryStore, key: &Key, value: Option<Bytes>) -> Revision {
    let write = Write { key: key.clone(), expect: Condition::Any, value, guards: Vec::new(), hint: None };
    store.write(write).await.expect("the write succeeds")
}

#[tokio::test]
async fn observers_are_called_in_order_when_objects_are_created_in_parallel() {
    const COUNT: usize = 5_000;
    let store = MemoryStore::new();
    let key = |number: usize| {
        Key::object("", "configmaps", "w", &format!("n{}", number % 3), &format!("c{number:05}"))
    };
    let value = |number: usize| match number % 10 {
        9 => Bytes::from_static(TOMBSTONE),
        _ => Bytes::from(format!(r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"{number}"}}}}"#)),
    };
    for number in (0..COUNT).rev() {
        write(&store, &key(number), Some(value(number))).await;
    }
    // All objects exist at the start of the history; then each is changed once more or deleted.
    let base = store.revision().await.expect("readable");
    store.compact(base).await.expect("the write succeeds");
    for number in 0..COUNT {
        let value = (number % 4 > 0).then(|| value(number));
        write(&store, &key(number), value).await;
    }
    let recorded = Arc::new(Recorder::default());
    let observers: Vec<Arc<dyn Observer>> = vec![recorded.clone()];
    let opened = Cache::open(&store, Arc::new(Names), Layer::default(), Limits::default(), observers).await;
    let cache = opened.expect("the store can be read");

    let mut sorted: Vec<usize> = (0..COUNT).collect();
    sorted.sort_by_key(|number| key(*number));
    let loaded = sorted.iter().flat_map(|number| {
        let revision = base - *number as Revision;
        let changed = format!("changed to {:?} at {base}", Some(value(*number).len()));
        [changed, format!("replaced None by {:?}", Some(revision))].map(|what| (what, key(*number)))
    });
    let replayed = (0..COUNT).flat_map(|number| {
        let (old, new) = (base - number as Revision, base + 1 + number as Revision);
        let kept = (number % 4 > 0).then_some(new);
        let changed = format!("changed to {:?} at {new}", kept.map(|_| value(number).len()));
        [changed, format!("replaced {:?} by {kept:?}", Some(old))].map(|what| (what, key(number)))
    });
    let recorded = std::mem::take(&mut *recorded.0.lock().expect("no panic"));
    assert!(recorded.into_iter().eq(loaded.chain(replayed)), "in order of keys, then of revisions");

    let snapshot = cache.snapshot();
    for namespace in [None, Some("n0"), Some("n1"), Some("n2")] {
        let scope = Scope::new("", "configmaps", Some("w"), namespace);
        let listed: Vec<_> = snapshot.list(&scope, None).collect();
        let expected = sorted.iter().filter(|number| **number % 4 > 0 && **number % 10 != 9);
        let expected =
            expected.map(|number| key(*number)).filter(|key| scope.relative(key).len() < key.len());
        assert!(listed.iter().map(|object| object.key.clone()).eq(expected), "{namespace:?}");
        assert_eq!(snapshot.count(&scope), listed.len(), "{namespace:?}");
        assert!(listed.iter().all(|object| object.facts.label("n") == Some(object.name())));
    }
}
