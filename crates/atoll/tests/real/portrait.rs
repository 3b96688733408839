//! What an application looks like, without what is different each time: the same in every cluster, however it got there.

use std::collections::BTreeMap;

use atoll_meta::time;
use serde_json::{Value, json};

use crate::application::{Site, names};

/// Given out by a server, or made at random.
const GIVEN: [&str; 6] = [
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "atoll.dev/uid",
];

/// By its name: what an object is below, and its status above.
pub async fn of(site: &Site<'_>) -> BTreeMap<String, [Value; 2]> {
    let mut portrait = BTreeMap::new();
    for name in names() {
        let mut below = site.below.get(&site.path(&name)).await.expect(200);
        let mut status = site.at(&name).await["status"].take();
        let metadata = below["metadata"].take();
        below["metadata"] = json!({
            "labels": metadata["labels"], "annotations": metadata["annotations"],
            "finalizers": metadata["finalizers"], "ownerReferences": metadata["ownerReferences"],
        });
        for value in [&mut below, &mut status] {
            mask(value, site.namespace);
        }
        portrait.insert(name, [below, status]);
    }
    portrait
}

fn mask(value: &mut Value, namespace: &str) {
    match value {
        Value::Object(content) => {
            for (key, value) in content {
                match GIVEN.contains(&key.as_str()) {
                    true => *value = "given".into(),
                    false => mask(value, namespace),
                }
            }
        }
        Value::Array(content) => content.iter_mut().for_each(|value| mask(value, namespace)),
        Value::String(text) if time::parse(text).is_ok() => *value = "a time".into(),
        Value::String(text) => *text = text.replace(namespace, "namespace"),
        _ => {}
    }
}
