//! Webhook configurations and CustomResourceDefinitions.

// upstream: pkg/apis/admissionregistration/v1/defaults.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go

use serde_json::{Value, json};

use crate::object::{
    ObjectMap, child, child_mut, entry, flag, is_absent, items, set, set_absent, set_empty, text,
};

pub fn mutating_webhook(webhook: &mut ObjectMap) {
    set_absent(webhook, "reinvocationPolicy", "Never");
}

pub fn definition(definition: &mut ObjectMap) {
    let Some(spec) = child_mut(definition, "spec") else { return };
    if let Some(names) = entry(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            set_empty(names, "singular", &kind.to_lowercase());
            set_empty(names, "listKind", &format!("{kind}List"));
        }
    }
    if is_absent(spec, "conversion") {
        set(spec, "conversion", json!({"strategy": "None"}));
    }
    if let Some(conversion) = child_mut(spec, "conversion")
        && child(conversion, "webhook").is_some_and(|webhook| {
            is_absent(webhook, "clientConfig") && is_absent(webhook, "conversionReviewVersions")
        })
    {
        conversion.remove("webhook");
    }
    let stored = items(spec, "versions").find(|version| flag(version, "storage"));
    let stored = stored.map(|version| text(version, "name").to_owned());
    if let (Some(stored), Some(status)) = (stored, child_mut(definition, "status"))
        && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        set(status, "storedVersions", vec![stored]);
    }
}
