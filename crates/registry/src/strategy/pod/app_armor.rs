//! AppArmor profiles in annotations are copied to the fields of a new Pod.

// upstream: pkg/registry/core/pod/strategy.go

use atoll_validation::warnings::app_armor_profile;
use serde_json::{Value, json};

const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

pub fn fields_from_annotations(pod: &mut Value) {
    let Some(annotations) = pod["metadata"].get("annotations").and_then(Value::as_object) else { return };
    let profiles: Vec<(String, Value)> = annotations
        .iter()
        .filter_map(|(name, value)| {
            Some((name.strip_prefix(PREFIX)?.to_owned(), app_armor_profile(value.as_str()?)?))
        })
        .collect();
    if profiles.is_empty() || pod["spec"]["os"]["name"] == "windows" {
        return;
    }
    let own = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let wanted = profiles.iter().find(|(name, _)| container["name"] == **name);
            let has_one = container["securityContext"].get("appArmorProfile").is_some_and(Value::is_object);
            if let Some((_, profile)) = wanted.filter(|(_, profile)| !has_one && *profile != own) {
                if !container["securityContext"].is_object() {
                    container["securityContext"] = json!({});
                }
                container["securityContext"]["appArmorProfile"] = profile.clone();
            }
        }
    }
}
