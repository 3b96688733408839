//! Annotations and labels that only the server and its controllers set.

use atoll_meta::object;
use serde_json::Value;

use super::Dialect;
use crate::row::Row;

impl dyn Dialect {
    /// Restores the dialect's protected annotations and labels of an object that a client writes.
    pub fn keep_protected(&self, row: &Row, new: &mut Value, old: Option<&Value>) {
        let protected = self.protected(&row.group, &row.resource);
        for (field, names) in [("annotations", protected.annotations), ("labels", protected.labels)] {
            for name in names {
                let kept = old.and_then(|old| old["metadata"][field].get(name));
                set(new, field, name, kept);
            }
        }
    }
}

fn set(object: &mut Value, field: &str, name: &str, kept: Option<&Value>) {
    if object["metadata"][field].get(name) == kept {
        return;
    }
    let metadata = object::metadata_mut(object);
    let entries = metadata.entry(field).or_insert_with(|| Value::Object(Default::default()));
    let Some(entries) = entries.as_object_mut() else { return };
    match kept {
        Some(kept) => drop(entries.insert(name.into(), kept.clone())),
        None => drop(entries.remove(name)),
    }
    if entries.is_empty() {
        metadata.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_of_the_server_is_kept() {
        let with = |labels: Value| json!({ "metadata": { "name": "a", "labels": labels } });
        let kept = json!("kept");
        for (new, old, expected) in [
            (with(json!({ "own": "1", "x": "forged" })), None, with(json!({ "own": "1" }))),
            (with(json!({ "x": "forged" })), None, json!({ "metadata": { "name": "a" } })),
            (with(json!({ "x": "forged" })), Some(&kept), with(json!({ "x": "kept" }))),
            (json!({ "metadata": { "name": "a" } }), Some(&kept), with(json!({ "x": "kept" }))),
        ] {
            let mut object = new.clone();
            set(&mut object, "labels", "x", old);
            assert_eq!(object, expected, "{new}");
        }
    }
}
