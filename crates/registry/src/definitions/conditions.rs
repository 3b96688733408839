//! The conditions in the status of a definition.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go

use serde_json::{Value, json};

pub fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition. The transition time is kept if the status is unchanged.
pub fn set(definition: &mut Value, [kind, status, reason, message]: [&str; 4], now: &str) {
    let mut condition = json!({ "type": kind, "status": status, "reason": reason, "message": message });
    // Omit empty fields, as Go does.
    if let Some(fields) = condition.as_object_mut() {
        fields.retain(|_, value| *value != "");
    }
    crate::modify::set_condition(definition, condition, now);
}

/// Whether the condition exists with these values.
pub fn has(definition: &Value, [kind, status, reason, message]: [&str; 4]) -> bool {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_string();
    find(definition, kind).is_some_and(|own| {
        text(own, "status") == status && text(own, "reason") == reason && text(own, "message") == message
    })
}
