//! The subresources ephemeralcontainers and resize, which change one part of the spec.

// upstream: pkg/registry/core/pod/strategy.go

use atoll_meta::object;
use serde_json::Value;

use super::super::ONLY_STATUS;

const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

pub fn ephemeral_containers(new: &mut Value, old: &Value) {
    let wanted = new["spec"].get_mut("ephemeralContainers").map(Value::take);
    put_back(new, old);
    put(&mut new["spec"], "ephemeralContainers", wanted);
}

/// Restores everything in containers but their resources. Validation refuses a changed list of containers.
pub fn resize(new: &mut Value, old: &Value) {
    let count = |pod: &Value, list: &str| pod["spec"].get(list).and_then(Value::as_array).map_or(0, Vec::len);
    if CONTAINER_LISTS.iter().any(|list| count(new, list) != count(old, list)) {
        return;
    }
    let spec = &mut new["spec"];
    let lists = CONTAINER_LISTS.map(|list| spec.get_mut(list).map(|list| list.take()));
    let resources = spec.get_mut("resources").map(Value::take);
    put_back(new, old);
    put(&mut new["spec"], "resources", resources);
    for (list, wanted) in CONTAINER_LISTS.into_iter().zip(lists) {
        put(&mut new["spec"], list, wanted.map(|wanted| resized(wanted, &old["spec"][list])));
    }
}

fn resized(mut wanted: Value, old: &Value) -> Value {
    let (Some(containers), Some(before)) = (wanted.as_array_mut(), old.as_array()) else { return wanted };
    if containers.iter().zip(before).any(|(container, own)| container["name"] != own["name"]) {
        return wanted;
    }
    for (container, own) in containers.iter_mut().zip(before) {
        let mut merged = own.clone();
        for part in ["resources", "resizePolicy"] {
            put(&mut merged, part, container.get_mut(part).map(Value::take));
        }
        *container = merged;
    }
    wanted
}

fn put(holder: &mut Value, name: &str, value: Option<Value>) {
    let Some(fields) = holder.as_object_mut() else { return };
    match value {
        Some(value) => drop(fields.insert(name.into(), value)),
        None => drop(fields.remove(name)),
    }
}

fn put_back(new: &mut Value, old: &Value) {
    for part in ["spec", "status"] {
        new[part] = old[part].clone();
    }
    let fields = object::metadata_mut(new);
    for name in ONLY_STATUS {
        match old["metadata"].get(*name) {
            Some(value) => drop(fields.insert((*name).into(), value.clone())),
            None => drop(fields.remove(*name)),
        }
    }
}
