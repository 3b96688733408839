//! Visits images, environment variables and volume claims in objects.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::references::POD_SPECS;

/// Size of an environment variable without its name and value.
const VARIABLE_SIZE: usize = 64;

fn for_each_pod(object: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    if object["kind"] == "Pod" {
        object.get_mut("spec").into_iter().for_each(visit);
        return;
    }
    for path in POD_SPECS {
        object.pointer_mut(path).into_iter().for_each(&mut *visit);
    }
}

fn items<'a>(value: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Visits the image names of containers and image volumes.
pub(super) fn for_each_image(object: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let mut visit = |name: Option<&mut Value>| {
        if let Some(Value::String(name)) = name {
            visit(name);
        }
    };
    for_each_pod(object, &mut |spec| {
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            items(spec, list).for_each(|container| visit(container.get_mut("image")));
        }
        items(spec, "volumes").for_each(|volume| visit(volume.pointer_mut("/image/reference")));
    });
}

/// Visits volume claims: an object that is one, and claim templates.
pub(super) fn for_each_claim(object: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    if object["kind"] == "PersistentVolumeClaim" {
        visit(object);
        return;
    }
    if let Some(spec) = object.get_mut("spec") {
        items(spec, "volumeClaimTemplates").for_each(&mut *visit);
    }
    for_each_pod(object, &mut |spec| {
        let templates =
            items(spec, "volumes").filter_map(|volume| volume.pointer_mut("/ephemeral/volumeClaimTemplate"));
        templates.for_each(&mut *visit);
    });
}

/// Sets environment variables of all containers, replacing those with the same names, as long as `allows` returns
/// true for the size of each.
pub(super) fn set_variables<'a>(
    object: &mut Value,
    variables: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    allows: &mut dyn FnMut(usize) -> bool,
) {
    for_each_pod(object, &mut |spec| {
        for list in ["initContainers", "containers"] {
            for container in items(spec, list).filter_map(Value::as_object_mut) {
                let environment = container.entry("env").or_insert_with(|| json!([]));
                if environment.is_null() {
                    *environment = json!([]);
                }
                let Some(environment) = environment.as_array_mut() else { continue };
                let name_of = |variable: &Value| variable["name"].as_str().unwrap_or_default().to_owned();
                // Of two variables with the same name, the first one is replaced.
                let mut indexes = HashMap::new();
                for (index, variable) in environment.iter().enumerate() {
                    indexes.entry(name_of(variable)).or_insert(index);
                }
                for (name, value) in variables.clone() {
                    if !allows(VARIABLE_SIZE + name.len() + value.len()) {
                        return;
                    }
                    let variable = json!({ "name": name, "value": value });
                    match indexes.get(name).and_then(|index| environment.get_mut(*index)) {
                        Some(one) => *one = variable,
                        None => environment.push(variable),
                    }
                }
            }
        }
    });
}
