//! Requests and limits of Pods.

// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go

use std::collections::BTreeMap;

use atoll_meta::quantity::Quantity;
use serde_json::Value;

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Parses a resource list of an object.
pub fn read(list: &Value) -> ResourceList {
    let read =
        |(name, amount): (&String, &Value)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?));
    list.as_object().into_iter().flatten().filter_map(read).collect()
}

/// Returns the requests or limits of a Pod: the sum of its containers or, if that is more, of its init
/// containers. Pod-level values of CPU and memory override it.
pub fn of_pod(pod: &Value, part: &str) -> ResourceList {
    let spec = &pod["spec"];
    let mut all = ResourceList::new();
    for container in containers(spec, "containers") {
        add(&mut all, &read(&container["resources"][part]));
    }
    let (mut beside, mut most) = (ResourceList::new(), ResourceList::new());
    for container in containers(spec, "initContainers") {
        let mut own = read(&container["resources"][part]);
        if container["restartPolicy"] == "Always" {
            add(&mut all, &own);
            add(&mut beside, &own);
            raise(&mut most, &beside);
        } else {
            add(&mut own, &beside);
            raise(&mut most, &own);
        }
    }
    raise(&mut all, &most);
    for (name, amount) in read(&spec["resources"][part]) {
        if matches!(name.as_str(), "cpu" | "memory") {
            all.insert(name, amount);
        }
    }
    all
}

pub fn containers<'a>(spec: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    spec[list].as_array().into_iter().flatten()
}

pub fn add(sum: &mut ResourceList, amounts: &ResourceList) {
    for (name, amount) in amounts {
        match sum.get_mut(name) {
            Some(own) => own.add(amount),
            None => drop(sum.insert(name.clone(), amount.clone())),
        }
    }
}

fn raise(most: &mut ResourceList, amounts: &ResourceList) {
    for (name, amount) in amounts {
        if most.get(name).is_none_or(|own| amount > own) {
            most.insert(name.clone(), amount.clone());
        }
    }
}
