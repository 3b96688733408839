//! Generates writes by several managers to several objects from a seed.

use serde_json::{Map, Value, json};

/// A request, and the path of its object.
#[derive(Clone, Debug)]
pub struct Operation {
    pub verb: &'static str,
    pub method: &'static str,
    pub path: String,
    pub object: String,
    pub media: &'static str,
    pub agent: &'static str,
    pub body: Value,
}

/// A pseudorandom generator (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Returns at least one of the values, in random order.
    pub fn some<T: Clone>(&mut self, from: &[T]) -> Vec<T> {
        let mut left = from.to_vec();
        let count = 1 + self.below(from.len());
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }

    /// Returns a map with a random value for each name that is chosen with the given probability.
    pub fn map(&mut self, names: &[&str], values: &[&str], percent: usize) -> Value {
        let mut map = Map::new();
        for name in names {
            if self.chance(percent) {
                map.insert((*name).into(), self.pick(values).into());
            }
        }
        Value::Object(map)
    }
}

pub const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

const KINDS: [(&str, &str, &str); 4] = [
    ("ConfigMap", "v1", "/api/v1/namespaces/{}/configmaps"),
    ("Service", "v1", "/api/v1/namespaces/{}/services"),
    ("Deployment", "apps/v1", "/apis/apps/v1/namespaces/{}/deployments"),
    ("Pod", "v1", "/api/v1/namespaces/{}/pods"),
];

pub fn operation(random: &mut Random, namespace: &str, previous: Option<&Operation>) -> Operation {
    let (kind, version, collection) = random.pick(&KINDS);
    let collection = collection.replace("{}", namespace);
    let name = format!("{}-{}", kind.to_lowercase(), random.below(2));
    let object = format!("{collection}/{name}");
    let manager = random.pick(&["m1", "m2", "m3", "kubectl"]);
    let named = format!("?fieldManager={manager}");
    let perhaps_named = if random.chance(50) { named.clone() } else { String::new() };
    let write = |verb, method, path: String, media, body| Operation {
        verb,
        method,
        path,
        object: object.clone(),
        media,
        agent: "",
        body,
    };
    let mut made = match random.below(100) {
        0..8 => {
            let body = whole(random, kind, version, &name, false);
            write("create", "POST", format!("{collection}{perhaps_named}"), "", body)
        }
        8..16 => {
            let body = whole(random, kind, version, &name, false);
            write("update", "PUT", format!("{object}{perhaps_named}"), "", body)
        }
        16..30 => write("merge", "PATCH", format!("{object}{perhaps_named}"), MERGE, change(random, kind)),
        30..38 => {
            let body = change(random, kind);
            write("strategic", "PATCH", format!("{object}{perhaps_named}"), STRATEGIC, body)
        }
        38..44 => {
            let labels = random.map(&["a", "b"], &["1", "2"], 60);
            let body = random.pick(&[
                json!([{ "op": "add", "path": "/metadata/labels", "value": labels }]),
                json!([{ "op": "remove", "path": "/metadata/labels" }]),
                json!([{ "op": "remove", "path": "/metadata/managedFields/0" }]),
            ]);
            write("JSON patch", "PATCH", format!("{object}{perhaps_named}"), JSON_PATCH, body)
        }
        44..80 => {
            let force = if random.chance(45) { "&force=true" } else { "" };
            let partly = random.chance(90);
            let body = whole(random, kind, version, &name, partly);
            write("apply", "PATCH", format!("{object}{named}{force}"), APPLY, body)
        }
        80..86 => return previous.cloned().unwrap_or_else(|| operation(random, namespace, None)),
        86..90 if kind == "Deployment" => scale(random, &object, &named, &name),
        86..94 if kind != "ConfigMap" => status(random, kind, version, &object, &named, &name),
        86..95 => {
            let body = json!({ "metadata": { "managedFields": random.pick(&[json!([]), json!([{}])]) } });
            write("forget", "PATCH", format!("{object}{named}"), MERGE, body)
        }
        _ => write("delete", "DELETE", format!("{object}?gracePeriodSeconds=0"), "", Value::Null),
    };
    made.agent = random.pick(&["agent-a/1.0", "agent-b", "agent c (x/y)"]);
    made
}

/// Generates the body of a patch.
fn change(random: &mut Random, kind: &str) -> Value {
    let value = random.pick(&[json!("1"), json!("2"), Value::Null]);
    let name = random.pick(&["a", "b", "c"]);
    let mut changes = vec![
        json!({ "metadata": { "labels": { name: value } } }),
        json!({ "metadata": { "annotations": { name: value } } }),
    ];
    match kind {
        "ConfigMap" => changes.push(json!({ "data": { name: value } })),
        "Service" => changes.push(json!({ "spec": { "selector": { name: value } } })),
        "Deployment" => {
            changes.push(json!({ "spec": { "replicas": random.below(4) } }));
            changes.push(json!({ "spec": { "paused": random.pick(&[json!(true), Value::Null]) } }));
        }
        _ => changes.push(json!({ "spec": { "activeDeadlineSeconds": 100 - random.below(3) } })),
    }
    random.pick(&changes)
}

fn scale(random: &mut Random, object: &str, named: &str, name: &str) -> Operation {
    let replicas = random.below(4);
    let (method, media, force) = random.pick(&[
        ("PATCH", MERGE, ""),
        ("PUT", "", ""),
        ("PATCH", APPLY, ""),
        ("PATCH", APPLY, "&force=true"),
    ]);
    let body = json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": { "name": name },
        "spec": { "replicas": replicas } });
    Operation {
        verb: "scale",
        method,
        path: format!("{object}/scale{named}{force}"),
        object: object.into(),
        media,
        agent: "",
        body,
    }
}

fn status(
    random: &mut Random,
    kind: &str,
    version: &str,
    object: &str,
    named: &str,
    name: &str,
) -> Operation {
    let condition = json!({ "type": "A", "status": random.pick(&["True", "False"]),
        "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "r", "message": "" });
    let status = match kind {
        "Deployment" => json!({ "observedGeneration": 1 + random.below(3), "replicas": random.below(3) }),
        "Service" => json!({ "conditions": [condition] }),
        _ => json!({ "phase": random.pick(&["Pending", "Running"]) }),
    };
    let labels = json!({ "s": random.pick(&["1", "2"]) });
    let media = random.pick(&[MERGE, APPLY]);
    let body = json!({ "kind": kind, "apiVersion": version,
        "metadata": { "name": name, "labels": labels }, "status": status });
    let path = format!("{object}/status{named}");
    Operation { verb: "status", method: "PATCH", path, object: object.into(), media, agent: "", body }
}

/// Generates an object. `partly` leaves out fields that another manager or defaults may set.
fn whole(random: &mut Random, kind: &str, version: &str, name: &str, partly: bool) -> Value {
    let mut metadata = json!({ "name": name });
    let labels = random.map(&["a", "b", "c"], &["1", "2", "3"], 40);
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        metadata["labels"] = labels;
    }
    if random.chance(25) {
        metadata["annotations"] = random.map(&["x", "y"], &["1", "2"], 60);
    }
    if random.chance(10) {
        metadata["finalizers"] = random.some(&["a.io/x", "a.io/y"]).into();
    }
    let mut object = json!({ "kind": kind, "apiVersion": version, "metadata": metadata });
    match kind {
        "ConfigMap" => {
            object["data"] = random.map(&["a", "b", "c", "d"], &["1", "2"], 50);
            if partly && random.chance(5) {
                object["data"] = Value::Null;
            }
        }
        "Service" => object["spec"] = service(random, partly),
        "Deployment" => {
            let mut labels = random.map(&["a", "b"], &["1", "2"], 40);
            labels["app"] = json!("a");
            let template = json!({ "metadata": { "labels": labels }, "spec": pod(random, partly) });
            let mut spec = json!({ "selector": { "matchLabels": { "app": "a" } }, "template": template });
            if !partly || random.chance(50) {
                spec["replicas"] = random.below(4).into();
            }
            if random.chance(30) {
                spec["strategy"] = json!({ "type": "Recreate" });
            }
            object["spec"] = spec;
        }
        _ => object["spec"] = pod(random, partly),
    }
    object
}

fn service(random: &mut Random, partly: bool) -> Value {
    let ports = random.some(&[(80, "TCP"), (443, "TCP"), (53, "UDP"), (8080, "TCP")]);
    let ports: Vec<Value> = ports
        .into_iter()
        .map(|(port, protocol)| {
            let mut value = json!({ "name": format!("p{port}"), "port": port });
            if !(partly && protocol == "TCP" && random.chance(50)) {
                value["protocol"] = protocol.into();
            }
            if random.chance(60) {
                value["targetPort"] = random.pick(&[json!(port), json!("web"), json!(8000)]);
            }
            value
        })
        .collect();
    let mut spec = json!({ "clusterIP": "None", "ports": ports });
    if random.chance(80) {
        spec["selector"] = random.map(&["a", "b"], &["1", "2"], 70);
    }
    if random.chance(20) {
        spec["publishNotReadyAddresses"] = json!(true);
    }
    spec
}

fn pod(random: &mut Random, partly: bool) -> Value {
    let containers: Vec<Value> =
        random.some(&["c1", "c2"]).into_iter().map(|name| container(random, name, partly)).collect();
    let mut spec = json!({ "containers": containers });
    if random.chance(30) {
        spec["nodeSelector"] = random.map(&["a", "b"], &["1", "2"], 70);
    }
    if random.chance(20) {
        spec["imagePullSecrets"] = json!([{ "name": random.pick(&["s1", "s2"]) }]);
    }
    if random.chance(20) {
        spec["hostAliases"] = json!([{ "ip": "1.2.3.4", "hostnames": ["h"] }]);
    }
    if random.chance(20) {
        spec["terminationGracePeriodSeconds"] = json!(30);
    }
    spec
}

fn container(random: &mut Random, name: &str, partly: bool) -> Value {
    let mut container = json!({ "name": name, "image": random.pick(&["i1", "i2"]) });
    if random.chance(50) {
        let ports = random.some(&[(80, "TCP"), (443, "TCP"), (53, "UDP"), (53, "TCP")]);
        let ports = ports.into_iter().map(|(port, protocol)| {
            let mut value = json!({ "containerPort": port });
            if !(partly && protocol == "TCP" && random.chance(50)) {
                value["protocol"] = protocol.into();
            }
            value
        });
        container["ports"] = ports.collect();
    }
    if random.chance(50) {
        let names = random.some(&["E1", "E2", "E3"]);
        let env = names.into_iter().map(|name| json!({ "name": name, "value": random.pick(&["1", "2"]) }));
        container["env"] = env.collect();
    }
    if random.chance(40) {
        container["args"] = random.some(&["x", "y", "z"]).into();
    }
    if random.chance(30) {
        let cpu = random.pick(&["1", "500m", "0.5"]);
        container["resources"] = json!({ "limits": { "cpu": cpu, "memory": "1Gi" } });
    }
    container
}
