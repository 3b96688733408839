//! The kinds that these tests place: their objects, and changes by users above and below.

use atoll_meta::object;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::random::Random;

pub const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestKind {
    pub resource: &'static str,
    api_version: &'static str,
    kind: &'static str,
    /// The field that other managers change below, as a path of managed fields.
    pub field: &'static str,
}

pub const KINDS: [TestKind; 9] = [
    TestKind { resource: "configmaps", api_version: "v1", kind: "ConfigMap", field: ".data.key" },
    TestKind { resource: "deployments", api_version: "apps/v1", kind: "Deployment", field: ".spec.replicas" },
    TestKind {
        resource: "ingresses",
        api_version: "networking.k8s.io/v1",
        kind: "Ingress",
        field: ".spec.ingressClassName",
    },
    TestKind { resource: "jobs", api_version: "batch/v1", kind: "Job", field: ".spec.parallelism" },
    TestKind {
        resource: "persistentvolumeclaims",
        api_version: "v1",
        kind: "PersistentVolumeClaim",
        field: ".metadata.labels.n",
    },
    TestKind { resource: "secrets", api_version: "v1", kind: "Secret", field: ".data.key" },
    TestKind {
        resource: "serviceaccounts",
        api_version: "v1",
        kind: "ServiceAccount",
        field: ".automountServiceAccountToken",
    },
    TestKind { resource: "services", api_version: "v1", kind: "Service", field: ".spec.selector" },
    TestKind {
        resource: "statefulsets",
        api_version: "apps/v1",
        kind: "StatefulSet",
        field: ".spec.replicas",
    },
];

impl TestKind {
    pub fn by_resource(resource: &str) -> &'static TestKind {
        KINDS.iter().find(|kind| kind.resource == resource).expect("one of the test kinds")
    }

    /// Returns the path of the list across namespaces.
    pub fn list(&self) -> String {
        let base = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{base}/{}/{}", self.api_version, self.resource)
    }

    pub fn collection(&self, namespace: &str) -> String {
        let base = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{base}/{}/namespaces/{namespace}/{}", self.api_version, self.resource)
    }

    /// Returns whether it must not be in two clusters at once.
    pub fn runs_once(&self) -> bool {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        atoll_fleet::placement::runs_once(group, self.resource)
    }

    /// Adds apiVersion and kind, which items of lists do not have.
    pub fn typed(&self, item: &Value) -> Value {
        let mut typed = item.clone();
        object::set_type(&mut typed, self.api_version, self.kind);
        typed
    }

    /// Returns whether it can be a dependent.
    pub fn is_dependent_kind(&self) -> bool {
        atoll_fleet::references::RESOURCES.contains(&self.resource)
    }

    /// Returns whether it has replicas that can be divided between clusters.
    pub fn is_divided(&self) -> bool {
        matches!(self.resource, "deployments" | "statefulsets" | "jobs")
    }

    /// Returns an object. Its content and references depend on `number`.
    pub fn content(&self, name: &str, number: u64) -> Value {
        let mut content = match self.resource {
            "deployments" => json!({ "spec": workload(name, number) }),
            "statefulsets" => {
                let mut spec = workload(name, number);
                spec["serviceName"] = name.into();
                if number.is_multiple_of(4) {
                    spec["volumeClaimTemplates"] =
                        json!([{ "metadata": { "name": "disk" }, "spec": claim() }]);
                }
                json!({ "spec": spec })
            }
            "jobs" => {
                let mut template = template(name, number);
                template["spec"]["restartPolicy"] = "Never".into();
                json!({ "spec": { "parallelism": number % 5, "completions": 5, "template": template } })
            }
            "services" => json!({ "spec": {
                "selector": { "app": name }, "ports": ports(number),
                "type": if number.is_multiple_of(3) { "NodePort" } else { "ClusterIP" },
            } }),
            "ingresses" => json!({ "spec": {
                "ingressClassName": "ours", "rules": rules(number), "tls": tls(number),
            } }),
            "persistentvolumeclaims" => json!({ "spec": claim() }),
            "serviceaccounts" => {
                json!({ "automountServiceAccountToken": false, "imagePullSecrets": pulls(number) })
            }
            "secrets" => json!({ "data": { "key": encoded(number) } }),
            _ => json!({ "data": { "key": number.to_string() } }),
        };
        content["metadata"] = json!({ "name": name, "labels": { "n": number.to_string() } });
        content
    }

    /// Returns a merge patch that changes only mutable fields.
    pub fn change(&self, number: u64, random: &mut Random) -> Value {
        if random.chance(15) {
            return json!({ "metadata": { "labels": { "n": number.to_string() } } });
        }
        match self.resource {
            "deployments" | "statefulsets" => match random.below(3) {
                0 => json!({ "spec": { "replicas": number % 9 } }),
                1 => {
                    json!({ "spec": { "template": { "metadata": { "labels": { "n": number.to_string() } } } } })
                }
                _ => {
                    let mut spec = references(number);
                    for field in ["volumes", "imagePullSecrets", "serviceAccountName"] {
                        spec.entry(field).or_insert(Value::Null);
                    }
                    // The deprecated field must be removed as well.
                    if spec["serviceAccountName"].is_null() {
                        spec.insert("serviceAccount".into(), Value::Null);
                    }
                    json!({ "spec": { "template": { "spec": spec } } })
                }
            },
            "jobs" => json!({ "spec": { "parallelism": number % 6 } }),
            "services" if random.chance(50) => {
                json!({ "spec": { "type": if number.is_multiple_of(2) { "NodePort" } else { "ClusterIP" } } })
            }
            "services" => json!({ "spec": { "ports": ports(number) } }),
            "ingresses" => json!({ "spec": { "rules": rules(number), "tls": tls(number) } }),
            "persistentvolumeclaims" => json!({ "metadata": { "labels": { "n": number.to_string() } } }),
            "serviceaccounts" => json!({ "imagePullSecrets": pulls(number) }),
            _ => {
                let value = if self.resource == "secrets" { encoded(number) } else { number.to_string() };
                match random.chance(30) {
                    true => json!({ "data": { "key": null, "more": value } }),
                    false => json!({ "data": { "key": value } }),
                }
            }
        }
    }

    /// Returns a merge patch by another manager below.
    pub fn change_below(&self) -> Value {
        match self.resource {
            "deployments" | "statefulsets" => json!({ "spec": { "replicas": 1 } }),
            "jobs" => json!({ "spec": { "parallelism": 1 } }),
            "services" => json!({ "spec": { "selector": { "app": "mine" } } }),
            "ingresses" => json!({ "spec": { "ingressClassName": "mine" } }),
            "persistentvolumeclaims" => json!({ "metadata": { "labels": { "n": "mine" } } }),
            "serviceaccounts" => json!({ "automountServiceAccountToken": true }),
            "secrets" => json!({ "data": { "key": "bWluZQ==" } }),
            _ => json!({ "data": { "key": "mine" } }),
        }
    }
}

fn workload(name: &str, number: u64) -> Value {
    let selector = json!({ "matchLabels": { "app": name } });
    json!({ "replicas": number % 5, "selector": selector, "template": template(name, number) })
}

fn template(name: &str, number: u64) -> Value {
    let mut spec = references(number);
    spec.insert("containers".into(), json!([{ "name": "web", "image": format!("web:{number}") }]));
    json!({ "metadata": { "labels": { "app": name } }, "spec": spec })
}

/// Returns fields of a pod spec with references. Which ones depends on `number`.
fn references(number: u64) -> Map<String, Value> {
    let name = |divisor: u64| NAMES[((number / divisor) % 3) as usize];
    let volumes = [
        (number.is_multiple_of(2), json!({ "name": "map", "configMap": { "name": name(2) } })),
        (number.is_multiple_of(3), json!({ "name": "secret", "secret": { "secretName": name(3) } })),
        (
            number.is_multiple_of(5),
            json!({ "name": "claim", "persistentVolumeClaim": { "claimName": name(5) } }),
        ),
    ];
    let volumes: Vec<Value> = volumes.into_iter().filter_map(|(has, volume)| has.then_some(volume)).collect();
    let mut spec = Map::new();
    if !volumes.is_empty() {
        spec.insert("volumes".into(), volumes.into());
    }
    if number % 4 == 1 {
        spec.insert("imagePullSecrets".into(), json!([{ "name": name(4) }]));
    }
    if number % 7 < 2 {
        spec.insert("serviceAccountName".into(), name(7).into());
    }
    spec
}

fn pulls(number: u64) -> Value {
    match number % 3 {
        0 => json!([]),
        other => json!([{ "name": NAMES[other as usize] }]),
    }
}

fn ports(number: u64) -> Value {
    let port = 80 + number % 7;
    match number.is_multiple_of(2) {
        true => json!([{ "name": "web", "port": port }]),
        false => {
            json!([{ "name": "web", "port": port }, { "name": "more", "port": 8080, "protocol": "UDP" }])
        }
    }
}

fn rules(number: u64) -> Value {
    let service = json!({ "name": NAMES[(number % 3) as usize], "port": { "number": 80 } });
    let path =
        json!({ "path": format!("/{number}"), "pathType": "Prefix", "backend": { "service": service } });
    json!([{ "host": "shop.example", "http": { "paths": [path] } }])
}

fn tls(number: u64) -> Value {
    match number.is_multiple_of(2) {
        true => json!([{ "hosts": ["shop.example"], "secretName": NAMES[(number / 2 % 3) as usize] }]),
        false => json!([]),
    }
}

fn claim() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
        "resources": { "requests": { "storage": "1Gi" } },
    })
}

fn encoded(number: u64) -> String {
    STANDARD.encode(number.to_string())
}
