//! Default storage and ingress classes: the newest one that is marked as default.

// upstream: plugin/pkg/admission/storage/storageclass/setdefault/admission.go
// upstream: plugin/pkg/admission/network/defaultingressclass/admission.go

use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Plugin, Request};

pub struct DefaultStorageClass;
pub struct DefaultIngressClass;

impl Plugin for DefaultStorageClass {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.creates("", "persistentvolumeclaims")
    }

    fn mutate(&self, request: &Request<'_>, claim: &mut Value) -> Result<(), Status> {
        let named = claim["spec"].get("storageClassName").is_some_and(Value::is_string)
            || object::annotation(claim, "volume.beta.kubernetes.io/storage-class").is_some();
        if named {
            return Ok(());
        }
        let marks = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        if let Some(class) = newest(request, ("storage.k8s.io", "storageclasses"), &marks)? {
            claim["spec"]["storageClassName"] = class.into();
        }
        Ok(())
    }
}

impl Plugin for DefaultIngressClass {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.creates("networking.k8s.io", "ingresses")
    }

    fn mutate(&self, request: &Request<'_>, ingress: &mut Value) -> Result<(), Status> {
        let named = ingress["spec"].get("ingressClassName").is_some_and(Value::is_string)
            || object::annotation(ingress, "kubernetes.io/ingress.class").is_some();
        if named {
            return Ok(());
        }
        let marks = ["ingressclass.kubernetes.io/is-default-class"];
        if let Some(class) = newest(request, ("networking.k8s.io", "ingressclasses"), &marks)? {
            ingress["spec"]["ingressClassName"] = class.into();
        }
        Ok(())
    }
}

/// Returns the name of the newest class with one of the annotations; the first of them if several are equally
/// new.
fn newest(
    request: &Request<'_>,
    (group, resource): (&str, &str),
    marks: &[&str],
) -> Result<Option<String>, Status> {
    let mut newest: Option<(String, String)> = None;
    for class in request.list(group, resource, "") {
        if !marks.iter().any(|mark| class.contains_text(mark)) {
            continue;
        }
        let class = class.parse()?;
        let marked = marks.iter().any(|mark| object::annotation(&class, mark) == Some("true"));
        let created = object::creation_timestamp(&class).unwrap_or_default();
        if marked && newest.as_ref().is_none_or(|(time, _)| **time < *created) {
            newest = Some((created.to_string(), object::name(&class).to_string()));
        }
    }
    Ok(newest.map(|(_, name)| name))
}
