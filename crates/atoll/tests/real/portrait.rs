//! What an application looks like, without what is different each time: the same in every cluster, however it got there.

use atoll_meta::time;
use serde_json::{Value, json};

use crate::application::{Site, names};
use crate::support::eventually;

/// Given out by a server, or made at random.
const GIVEN: [&str; 7] = [
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "atoll.dev/uid",
    // A hash of what was sent, namespace and all.
    "atoll.dev/applied",
];

/// Waits until both are the same; controllers take their time.
pub async fn become_equal(one: &Site<'_>, other: &Site<'_>) {
    let mut last = String::new();
    eventually("push and none give the same", async || {
        let (one, other) = (of(one).await, of(other).await);
        let difference = one.iter().zip(&other).find(|(one, other)| one != other);
        let said = difference.map(|(one, other)| format!("{one}\n{other}")).unwrap_or_default();
        if said != last {
            println!("{said}");
            last.clone_from(&said);
        }
        said.is_empty()
    })
    .await;
}

/// What each object is below, and its status above.
async fn of(site: &Site<'_>) -> Vec<String> {
    let mut portrait = Vec::new();
    for name in names() {
        let mut below = site.below.get(&site.path(&name)).await.expect(200);
        let mut status = site.at(&name).await["status"].take();
        let metadata = below["metadata"].take();
        // How often it has changed there is not the same, and all else of this is above.
        below["status"].take();
        below["metadata"] = json!({
            "labels": metadata["labels"], "annotations": metadata["annotations"],
            "finalizers": metadata["finalizers"], "ownerReferences": metadata["ownerReferences"],
        });
        for value in [&mut below, &mut status] {
            mask(value, site);
        }
        portrait.push(format!("{name}: {below:#}\n{status:#}"));
    }
    portrait
}

fn mask(value: &mut Value, site: &Site<'_>) {
    match value {
        Value::Object(content) => {
            for (key, value) in content {
                match GIVEN.contains(&key.as_str()) {
                    true => *value = "given".into(),
                    false => mask(value, site),
                }
            }
        }
        Value::Array(content) => {
            content.iter_mut().for_each(|value| mask(value, site));
            // Conditions come in the order in which they were first true.
            if content.iter().all(|item| item["type"].is_string()) {
                content.sort_by_key(|item| item["type"].to_string());
            }
        }
        Value::String(text) if time::parse(text).is_ok() => *value = "a time".into(),
        Value::String(text) => {
            // The condition `Placed` names the cluster.
            let masked = text.replace(site.namespace, "namespace");
            *text = masked.replace(&format!("on {}", site.cluster), "on the cluster");
        }
        _ => {}
    }
}
