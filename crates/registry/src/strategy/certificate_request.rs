//! CertificateSigningRequests: the requesting user and the times of decisions are set by the server.

// upstream: pkg/registry/certificates/certificates/strategy.go

use atoll_meta::names;
use serde_json::{Map, Value, json};

use super::{Context, Part, REVALIDATED, Requester, Strategy, field};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    fields: &[field("spec.signerName")],
    set_requester,
    prepare_update: |new, old, _| new["spec"] = old["spec"].clone(),
    prepare_subresource,
    parts: &[("approval", Part::Status)],
    ..REVALIDATED
};

/// Sets the requesting user, which clients cannot choose.
fn set_requester(request: &mut Value, requester: &Requester<'_>) {
    if !request["spec"].is_object() {
        request["spec"] = json!({});
    }
    let Some(spec) = request["spec"].as_object_mut() else { return };
    for name in ["username", "uid", "groups", "extra"] {
        spec.remove(name);
    }
    let mut set = |name: &str, value: Value| drop(spec.insert(name.into(), value));
    if !requester.name.is_empty() {
        set("username", requester.name.into());
    }
    if !requester.uid.is_empty() {
        set("uid", requester.uid.into());
    }
    if !requester.groups.is_empty() {
        set("groups", requester.groups.into());
    }
    if !requester.extra.is_empty() {
        set("extra", json!(requester.extra));
    }
}

fn prepare_subresource(subresource: &str, new: &mut Value, old: &Value, context: &Context<'_>) {
    let before = old["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    if subresource == "status" {
        ["Approved", "Denied"].iter().for_each(|kind| keep_decisions(&mut new["status"], before, kind));
    }
    for condition in new["status"].get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let is_unset = |value: Option<&Value>| value.is_none_or(Value::is_null);
        if is_unset(condition.get("lastUpdateTime")) {
            condition["lastUpdateTime"] = context.now.into();
        }
        if is_unset(condition.get("lastTransitionTime")) {
            let same = before
                .iter()
                .find(|own| own["type"] == condition["type"] && own["status"] == condition["status"]);
            let since = same.and_then(|own| own.get("lastTransitionTime")).filter(|time| !time.is_null());
            condition["lastTransitionTime"] = since.cloned().unwrap_or_else(|| context.now.into());
        }
    }
    if subresource == "approval" {
        // Approval changes only the conditions.
        let conditions = new["status"].get("conditions").cloned();
        let mut status = old["status"].as_object().cloned().unwrap_or_else(Map::new);
        match conditions {
            Some(conditions) => status.insert("conditions".into(), conditions),
            None => status.remove("conditions"),
        };
        new["status"] = Value::Object(status);
    }
}

/// Keeps decisions in a status update if their number is unchanged.
fn keep_decisions(status: &mut Value, before: &[Value], kind: &str) {
    let decisions = before.iter().filter(|condition| condition["type"] == kind);
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    let own = || conditions.iter().filter(|condition| condition["type"] == kind).count();
    if own() != decisions.clone().count() {
        return;
    }
    let own = conditions.iter_mut().filter(|condition| condition["type"] == kind);
    own.zip(decisions).for_each(|(condition, decision)| *condition = decision.clone());
}
