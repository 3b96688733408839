//! `PartialObjectMetadata`.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go

use atoll_meta::{json, object};
use bytes::Bytes;

use crate::negotiate::Meta;

/// Returns the JSON before the metadata.
pub fn opening(version: Meta) -> &'static [u8] {
    match version {
        Meta::V1 => br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#,
        Meta::V1beta1 => br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":"#,
    }
}

/// Returns an object's `PartialObjectMetadata`.
pub fn of(stored: &[u8], version: Meta) -> Bytes {
    let mut out = Vec::with_capacity(512);
    write(stored, version, &mut out);
    Bytes::from(out)
}

/// Writes an object's `PartialObjectMetadata`.
pub fn write(stored: &[u8], version: Meta, out: &mut Vec<u8>) {
    out.extend_from_slice(opening(version));
    match json::metadata_of(stored) {
        Some(metadata) => out.extend_from_slice(metadata),
        // Objects that are not stored have their fields in another order.
        None => {
            let parsed = json::parse(stored).map(|parsed| parsed.value).unwrap_or_default();
            json::write(parsed.get("metadata").unwrap_or(&json::Value::Object(json::Map::new())), out);
        }
    }
    out.push(b'}');
}

/// Returns the name of an object's Go type upstream.
pub fn go_type(stored: &[u8]) -> String {
    let parsed = json::parse(stored).map(|parsed| parsed.value).unwrap_or_default();
    let (group, version) = object::split_api_version(object::api_version(&parsed)).unwrap_or_default();
    let typed = atoll_schema::Types::get().by_kind(group, version, object::kind(&parsed)).is_some();
    go_name(group, object::kind(&parsed), typed)
}

/// Returns the name of a kind's Go type upstream.
pub fn go_name(group: &str, kind: &str, typed: bool) -> String {
    if !typed {
        return format!("*unstructured.Unstructured{}", if kind.ends_with("List") { "List" } else { "" });
    }
    let package = match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metadata_is_rendered() {
        let stored = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}"#;
        let made = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
        let expected =
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        for given in [&stored[..], &made[..]] {
            assert_eq!(of(given, Meta::V1), expected);
        }
        assert_eq!(go_type(stored), "*core.Pod");
        assert_eq!(go_name("rbac.authorization.k8s.io", "RoleList", true), "*rbac.RoleList");
        assert_eq!(go_name("atoll.dev", "WorkspaceList", false), "*unstructured.UnstructuredList");
    }
}
