//! References: the objects that an object needs in a cluster.

use std::collections::BTreeSet;

use atoll_meta::object;
use serde_json::Value;

/// A referenced object in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// One of [`RESOURCES`].
    pub resource: &'static str,
    pub name: String,
}

/// Resources that can be dependents; all are in the core group.
pub const RESOURCES: &[&str] = &[CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS];

const CONFIG_MAPS: &str = "configmaps";
const PERSISTENT_VOLUME_CLAIMS: &str = "persistentvolumeclaims";
const SECRETS: &str = "secrets";
const SERVICE_ACCOUNTS: &str = "serviceaccounts";

/// Annotation with objects that an object needs and does not refer to, such as `configmap/a,secret/b`.
pub const NEEDS: &str = "atoll.dev/needs";
/// Most objects in that annotation.
pub const MAX_NEEDS: usize = 64;
/// Words for resources in that annotation.
const WORDS: &[(&str, &str)] = &[
    ("configmap", CONFIG_MAPS),
    ("persistentvolumeclaim", PERSISTENT_VOLUME_CLAIMS),
    ("secret", SECRETS),
    ("serviceaccount", SERVICE_ACCOUNTS),
];

/// Objects that every namespace has in any cluster.
pub(crate) const EVERYWHERE: &[(&str, &str)] =
    &[(SERVICE_ACCOUNTS, "default"), (CONFIG_MAPS, "kube-root-ca.crt")];

/// Paths of Pod specifications in objects.
pub(crate) const POD_SPECS: &[&str] =
    &["/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"];

/// Paths of references in volumes.
const OF_VOLUMES: &[(&str, &str)] = &[
    (CONFIG_MAPS, "/configMap/name"),
    (SECRETS, "/secret/secretName"),
    (PERSISTENT_VOLUME_CLAIMS, "/persistentVolumeClaim/claimName"),
    (SECRETS, "/csi/nodePublishSecretRef/name"),
    (SECRETS, "/azureFile/secretName"),
    (SECRETS, "/cephfs/secretRef/name"),
    (SECRETS, "/flexVolume/secretRef/name"),
    (SECRETS, "/iscsi/secretRef/name"),
    (SECRETS, "/rbd/secretRef/name"),
    (SECRETS, "/scaleIO/secretRef/name"),
    (SECRETS, "/storageos/secretRef/name"),
];
/// Paths of references in sources of projected volumes.
const OF_PROJECTIONS: &[(&str, &str)] = &[(CONFIG_MAPS, "/configMap/name"), (SECRETS, "/secret/name")];
/// Paths of references in environment variables.
const OF_VARIABLES: &[(&str, &str)] =
    &[(CONFIG_MAPS, "/valueFrom/configMapKeyRef/name"), (SECRETS, "/valueFrom/secretKeyRef/name")];
/// Paths of references in `envFrom`.
const OF_ENVIRONMENTS: &[(&str, &str)] = &[(CONFIG_MAPS, "/configMapRef/name"), (SECRETS, "/secretRef/name")];

/// Reads the annotation [`NEEDS`]: resource and name of each entry, or the entry if it names no such object.
pub fn needs(declared: &str) -> impl Iterator<Item = Result<(&'static str, &str), &str>> {
    declared.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
        let (word, name) = entry.split_once('/').ok_or(entry)?;
        let is_meant = |known: &&(&str, &'static str)| word == known.0 || word == known.1;
        let (_, resource) = WORDS.iter().find(is_meant).ok_or(entry)?;
        if name.is_empty() || name.contains('/') { Err(entry) } else { Ok((*resource, name)) }
    })
}

/// Returns the references of an object in its namespace, sorted and unique.
pub fn references(object: &Value) -> Vec<Reference> {
    let mut found = ReferenceSet::default();
    match object::kind(object) {
        "Pod" => found.pod(&object["spec"]),
        "Ingress" => found.items(&object["spec"]["tls"], &[(SECRETS, "/secretName")]),
        "ServiceAccount" => found.service_account(object),
        _ => POD_SPECS.iter().filter_map(|path| object.pointer(path)).for_each(|spec| found.pod(spec)),
    }
    found.declared(object);
    let owned = |(resource, name): (&'static str, &str)| Reference { resource, name: name.to_owned() };
    found.names.into_iter().filter(|name| !EVERYWHERE.contains(name)).map(owned).collect()
}

#[derive(Default)]
struct ReferenceSet<'a> {
    names: BTreeSet<(&'static str, &'a str)>,
}

impl<'a> ReferenceSet<'a> {
    fn note(&mut self, resource: &'static str, name: Option<&'a Value>) {
        if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) {
            self.names.insert((resource, name));
        }
    }

    /// Adds the references in each item of a list.
    fn items(&mut self, list: &'a Value, places: &[(&'static str, &str)]) {
        for item in items(list) {
            places.iter().for_each(|(resource, place)| self.note(resource, item.pointer(place)));
        }
    }

    fn pod(&mut self, spec: &'a Value) {
        self.items(&spec["volumes"], OF_VOLUMES);
        for volume in items(&spec["volumes"]) {
            self.items(&volume["projected"]["sources"], OF_PROJECTIONS);
        }
        for containers in ["initContainers", "containers", "ephemeralContainers"] {
            for container in items(&spec[containers]) {
                self.items(&container["env"], OF_VARIABLES);
                self.items(&container["envFrom"], OF_ENVIRONMENTS);
            }
        }
        self.items(&spec["imagePullSecrets"], &[(SECRETS, "/name")]);
        // `serviceAccount` is the deprecated name of the field.
        self.note(SERVICE_ACCOUNTS, spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")));
    }

    /// Adds the objects that an annotation names. Entries that admission refuses mean nothing.
    fn declared(&mut self, object: &'a Value) {
        let declared = object::annotation(object, NEEDS).unwrap_or_default();
        self.names.extend(needs(declared).take(MAX_NEEDS).flatten());
    }

    /// Adds the Secrets of a ServiceAccount except its tokens, which every cluster generates. Only their
    /// names distinguish them.
    fn service_account(&mut self, account: &'a Value) {
        self.items(&account["imagePullSecrets"], &[(SECRETS, "/name")]);
        for secret in items(&account["secrets"]) {
            let rest = secret["name"].as_str().and_then(|name| name.strip_prefix(object::name(account)));
            if !rest.is_some_and(|rest| rest.starts_with("-token-")) {
                self.note(SECRETS, secret.get("name"));
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(object: &Value) -> String {
        let shown = references(object);
        let shown: Vec<String> = shown.iter().map(|one| format!("{}/{}", one.resource, one.name)).collect();
        shown.join(" ")
    }

    #[test]
    fn references_of_pods() {
        let cases = [
            (json!({ "volumes": [{ "configMap": { "name": "a" } }] }), "configmaps/a"),
            (json!({ "volumes": [{ "secret": { "secretName": "a", "optional": true } }] }), "secrets/a"),
            (
                json!({ "volumes": [{ "persistentVolumeClaim": { "claimName": "a" } }] }),
                "persistentvolumeclaims/a",
            ),
            (
                json!({ "volumes": [{ "projected": { "sources": [
                    { "secret": { "name": "s" } }, { "configMap": { "name": "c" } },
                    { "configMap": { "name": "kube-root-ca.crt" } }, { "serviceAccountToken": { "path": "t" } },
                    { "downwardAPI": {} },
                ] } }] }),
                "configmaps/c secrets/s",
            ),
            (json!({ "volumes": [{ "csi": { "nodePublishSecretRef": { "name": "a" } } }] }), "secrets/a"),
            (json!({ "volumes": [{ "azureFile": { "secretName": "a" } }] }), "secrets/a"),
            (
                json!({ "volumes": [
                    { "cephfs": { "secretRef": { "name": "a" } } }, { "flexVolume": { "secretRef": { "name": "b" } } },
                    { "iscsi": { "secretRef": { "name": "c" } } }, { "rbd": { "secretRef": { "name": "d" } } },
                    { "scaleIO": { "secretRef": { "name": "e" } } }, { "storageos": { "secretRef": { "name": "f" } } },
                ] }),
                "secrets/a secrets/b secrets/c secrets/d secrets/e secrets/f",
            ),
            (json!({ "volumes": [{ "emptyDir": {} }, { "hostPath": { "path": "/" } }] }), ""),
            (
                json!({
                    "containers": [{ "env": [
                        { "name": "A", "value": "x" },
                        { "name": "B", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } },
                        { "name": "C", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                        { "name": "D", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                    ] }],
                    "initContainers": [{ "envFrom": [{ "configMapRef": { "name": "i" } }] }],
                    "ephemeralContainers": [{ "envFrom": [{ "secretRef": { "name": "e" } }] }],
                }),
                "configmaps/c configmaps/i secrets/e secrets/s",
            ),
            (
                json!({ "imagePullSecrets": [{ "name": "b" }, { "name": "a" }, { "name": "b" }, { "name": "" }, {}] }),
                "secrets/a secrets/b",
            ),
            (json!({ "serviceAccountName": "a", "serviceAccount": "a" }), "serviceaccounts/a"),
            (json!({ "serviceAccount": "a" }), "serviceaccounts/a"),
            (json!({ "serviceAccountName": "default" }), ""),
            (json!({ "volumes": "nonsense", "containers": [null, 1] }), ""),
            (json!(null), ""),
        ];
        for (spec, expected) in cases {
            for object in [
                json!({ "kind": "Pod", "spec": spec }),
                json!({ "kind": "Deployment", "spec": { "template": { "spec": spec } } }),
                json!({ "kind": "Unheard", "spec": { "template": { "spec": spec } } }),
                json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": { "template": { "spec": spec } } } } }),
                json!({ "kind": "PodTemplate", "template": { "spec": spec } }),
            ] {
                assert_eq!(found(&object), expected, "{object}");
            }
        }
    }

    #[test]
    fn references_of_other_kinds() {
        let cases = [
            (
                json!({ "kind": "Ingress", "spec": { "tls": [{ "secretName": "b" }, { "hosts": [] }, { "secretName": "a" }] } }),
                "secrets/a secrets/b",
            ),
            (
                json!({ "kind": "ServiceAccount", "metadata": { "name": "robot" },
                    "imagePullSecrets": [{ "name": "pull" }],
                    "secrets": [{ "name": "robot-token-x7h2k" }, { "name": "other-token-x" }, { "name": "robot" }] }),
                "secrets/other-token-x secrets/pull secrets/robot",
            ),
            (json!({ "kind": "ConfigMap", "data": { "a": "b" } }), ""),
            (
                json!({ "kind": "Deployment", "metadata": { "annotations": {
                    NEEDS: "configmap/a, secrets/b,pod/c,secret,secret/,configmap/kube-root-ca.crt",
                } } }),
                "configmaps/a secrets/b",
            ),
            (json!({ "kind": "Ingress", "metadata": { "annotations": { NEEDS: "secret/s" } } }), "secrets/s"),
            (json!({ "kind": "Widget", "metadata": { "annotations": { NEEDS: "secret/s" } } }), "secrets/s"),
            (json!(7), ""),
        ];
        for (object, expected) in cases {
            assert_eq!(found(&object), expected, "{object}");
        }
        assert!(RESOURCES.is_sorted());
    }
}
