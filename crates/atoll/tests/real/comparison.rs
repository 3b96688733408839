//! Comparison of the same application on two clusters, without values that differ each time.

use atoll_meta::time;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::application::{Site, names};

/// Fields whose values a server assigns.
const ASSIGNED_FIELDS: [&str; 7] = [
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "atoll.dev/uid",
    // A hash of the applied object, including its namespace.
    "atoll.dev/applied",
];

/// Waits until both are equal, because controllers take some time.
pub async fn wait_until_equal(one: &Site<'_>, other: &Site<'_>) {
    let mut last = String::new();
    eventually("both clusters have equal objects", async || {
        let (one, other) = (comparable_objects(one).await, comparable_objects(other).await);
        let difference = one.iter().zip(&other).find(|(one, other)| one != other);
        let difference_text = difference.map(|(one, other)| format!("{one}\n{other}")).unwrap_or_default();
        if difference_text != last {
            println!("{difference_text}");
            last.clone_from(&difference_text);
        }
        difference_text.is_empty()
    })
    .await;
}

/// Returns each object below with its status above, in comparable form.
async fn comparable_objects(site: &Site<'_>) -> Vec<String> {
    let mut objects = Vec::new();
    for name in names() {
        let mut below = site.below.get(&site.path(&name)).await.expect(200);
        let mut status = site.get_above(&name).await["status"].take();
        let metadata = below["metadata"].take();
        // The generation below differs, and all other status fields are compared above.
        below["status"].take();
        below["metadata"] = json!({
            "labels": metadata["labels"], "annotations": metadata["annotations"],
            "finalizers": metadata["finalizers"], "ownerReferences": metadata["ownerReferences"],
        });
        for value in [&mut below, &mut status] {
            mask(value, site);
        }
        objects.push(format!("{name}: {below:#}\n{status:#}"));
    }
    objects
}

fn mask(value: &mut Value, site: &Site<'_>) {
    match value {
        Value::Object(content) => {
            for (key, value) in content {
                match ASSIGNED_FIELDS.contains(&key.as_str()) {
                    true => *value = "assigned".into(),
                    false => mask(value, site),
                }
            }
        }
        Value::Array(content) => {
            content.iter_mut().for_each(|value| mask(value, site));
            // Conditions are ordered by the time when they first became true.
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
