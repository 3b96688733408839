//! Visits images, environment variables and volume claims in objects.

use serde_json::{Value, json};

use crate::references::POD_SPECS;

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

/// Sets environment variables of all containers, replacing those with the same names.
pub(super) fn set_variables<'a>(
    object: &mut Value,
    variables: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) {
    for_each_pod(object, &mut |spec| {
        for list in ["initContainers", "containers"] {
            for container in items(spec, list).filter_map(Value::as_object_mut) {
                let environment = container.entry("env").or_insert_with(|| json!([]));
                if environment.is_null() {
                    *environment = json!([]);
                }
                let Some(environment) = environment.as_array_mut() else { continue };
                for (name, value) in variables.clone() {
                    let variable = json!({ "name": name, "value": value });
                    match environment.iter_mut().find(|one| one["name"] == name) {
                        Some(one) => *one = variable,
                        None => environment.push(variable),
                    }
                }
            }
        }
    });
}
