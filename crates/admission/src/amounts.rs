//! How much of each resource a Pod asks for, and how much it may use.

use std::collections::BTreeMap;

use atoll_meta::quantity::Quantity;
use serde_json::Value;

/// Resources by name.
pub type Amounts = BTreeMap<String, Quantity>;

/// A list of resources as it stands in an object.
pub fn read(list: &Value) -> Amounts {
    let read =
        |(name, amount): (&String, &Value)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?));
    list.as_object().into_iter().flatten().filter_map(read).collect()
}

/// What a Pod asks for (`requests`) or may use (`limits`) as a whole: its containers together, or, should that be more, what
/// those that run before them need. What the Pod itself says of processors and memory counts instead.
pub fn of_pod(pod: &Value, part: &str) -> Amounts {
    let spec = &pod["spec"];
    let mut all = Amounts::new();
    for container in containers(spec, "containers") {
        add(&mut all, &read(&container["resources"][part]));
    }
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
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

pub fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        match sum.get_mut(name) {
            Some(own) => own.add(amount),
            None => drop(sum.insert(name.clone(), amount.clone())),
        }
    }
}

fn raise(most: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        if most.get(name).is_none_or(|own| amount > own) {
            most.insert(name.clone(), amount.clone());
        }
    }
}
