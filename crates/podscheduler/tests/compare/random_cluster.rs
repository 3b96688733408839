//! Random clusters and Pods that use all scheduler features.

use serde_json::{Value, json};

/// Random numbers, reproducible by seed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len() as u64) as usize]
    }
}

pub struct Cluster {
    /// Existing objects by kind.
    pub objects: Vec<(&'static str, Value)>,
    /// Pods to schedule, one after the other.
    pub pending: Vec<Value>,
    /// A Pod that fits nowhere: once both report that, both have observed the nodes.
    pub probe: Value,
}

impl Cluster {
    pub fn random(random: &mut Random, round: u64) -> Self {
        let mut objects = Vec::new();
        let nodes: Vec<String> =
            (0..2 + random.below(6)).map(|number| format!("r{round}-n{number}")).collect();
        for name in &nodes {
            objects.push(("nodes", node(random, name)));
        }
        for number in 0..random.below(3) {
            objects.push(("services", json!({
                "metadata": {"name": format!("r{round}-s{number}"), "namespace": random.pick(&["left", "right"])},
                "spec": {"selector": {"app": random.pick(&["a", "b"])}, "ports": [{"port": 80}]},
            })));
        }
        for number in 0..random.below(3) {
            let selector = json!({"matchLabels": {"app": random.pick(&["a", "b", "c"])}});
            let namespace = random.pick(&["left", "right"]);
            objects.push((
                "poddisruptionbudgets",
                json!({
                    "metadata": {"name": format!("r{round}-b{number}"), "namespace": namespace},
                    "spec": {"minAvailable": 1, "selector": selector},
                }),
            ));
        }
        let (mut claims, mut waiting) = (Vec::new(), Vec::new());
        for number in 0..random.below(3) {
            let name = format!("r{round}-c{number}");
            let namespace = random.pick(&["left", "right"]);
            for (kind, object) in volume(random, &name, namespace) {
                objects.push((kind, object));
            }
            claims.push((namespace.to_owned(), name));
        }
        for number in 0..random.below(3) {
            let name = format!("r{round}-w{number}");
            let namespace = random.pick(&["left", "right"]);
            objects.push(("persistentvolumeclaims", waiting_claim(random, &name, namespace)));
            waiting.push((namespace.to_owned(), name));
        }
        for number in 0..random.below(4) {
            objects.push(("persistentvolumes", free_volume(random, &format!("r{round}-v{number}"))));
        }
        for number in 0..random.below(2) {
            let selector = json!({"matchLabels": {"tier": random.pick(&["web", "data"])}});
            let labels = &selector["matchLabels"];
            let container = json!({"name": "main", "image": "i"});
            objects.push((
                "replicasets",
                json!({
                    "metadata": {"name": format!("r{round}-r{number}"), "namespace": "left"},
                    "spec": {
                        "replicas": 0, "selector": selector,
                        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                    },
                }),
            ));
        }
        for number in 0..random.below(9) {
            let mut pod = pod(random, &format!("r{round}-p{number}"), &nodes, &claims);
            pod["spec"]["nodeName"] =
                random.pick(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).into();
            objects.push(("pods", pod));
        }
        // Only pending Pods can wait for their volumes.
        claims.extend(waiting);
        let pending = (0..8).map(|number| {
            let mut pod = pod(random, &format!("r{round}-q{number}"), &nodes, &claims);
            if pod["metadata"]["namespace"] == "left" && random.chance(30) {
                let owner = format!("r{round}-r0");
                pod["metadata"]["ownerReferences"] = json!([
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "u", "controller": true},
                ]);
            }
            pod
        });
        let pending = pending.collect();
        let enormous = json!({"name": "main", "image": "i", "resources": {"requests": {"cpu": "1000"}}});
        let probe = json!({
            "metadata": {"name": format!("r{round}-probe"), "namespace": "left"},
            "spec": {"containers": [enormous], "priorityClassName": "low"},
        });
        Cluster { objects, pending, probe }
    }
}

fn node(random: &mut Random, name: &str) -> Value {
    let mut labels = json!({"disk": random.pick(&["ssd", "hdd"]), "size": random.below(5).to_string()});
    if random.chance(90) {
        labels["kubernetes.io/hostname"] = name.into();
    }
    if random.chance(80) {
        labels["topology.kubernetes.io/zone"] = random.pick(&["z1", "z2", "z3"]).into();
    }
    let mut taints = Vec::new();
    for key in ["red", "green"] {
        if random.chance(20) {
            let effect = random.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
            taints.push(json!({"key": key, "value": random.pick(&["1", "2"]), "effect": effect}));
        }
    }
    let mut allocatable = json!({
        "cpu": format!("{}m", 500 + 500 * random.below(6)),
        "memory": format!("{}Mi", 512 * (1 + random.below(6))),
        "pods": if random.chance(20) { "3" } else { "110" },
    });
    if random.chance(40) {
        allocatable["example.com/gpu"] = random.below(3).to_string().into();
    }
    if random.chance(40) {
        allocatable["ephemeral-storage"] = "10Gi".into();
    }
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": random.chance(8)},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    })
}

/// A volume that is bound to a claim and accessible from some nodes only.
fn volume(random: &mut Random, name: &str, namespace: &str) -> [(&'static str, Value); 2] {
    let expressions = json!([{"key": "disk", "operator": "In", "values": [random.pick(&["ssd", "hdd"])]}]);
    let modes = json!([random.pick(&["ReadWriteOnce", "ReadWriteOncePod"])]);
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": modes, "hostPath": {"path": "/tmp"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
    });
    if random.chance(30) {
        volume["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": random.pick(&["z1", "z2__z3"])});
    }
    let mut claim = json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": modes, "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "", "volumeName": name,
        },
    });
    if random.chance(85) {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    [("persistentvolumes", volume), ("persistentvolumeclaims", claim)]
}

/// A claim that is bound when its Pod is scheduled.
fn waiting_claim(random: &mut Random, name: &str, namespace: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": random.pick(&["1Gi", "3Gi"])}},
            "storageClassName": random.pick(&["made", "made-there", "found"]),
        },
    })
}

/// An available volume.
fn free_volume(random: &mut Random, name: &str) -> Value {
    let expressions = json!([{"key": "disk", "operator": "In", "values": [random.pick(&["ssd", "hdd"])]}]);
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": random.pick(&["2Gi", "5Gi"])},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp"},
            "storageClassName": random.pick(&["made", "found", "found"]),
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
    })
}

fn pod(random: &mut Random, name: &str, nodes: &[String], claims: &[(String, String)]) -> Value {
    let namespace = random.pick(&["left", "left", "right"]);
    let labels = json!({"app": random.pick(&["a", "b", "c"]), "tier": random.pick(&["web", "data"])});
    let mut spec = json!({"containers": [container(random)], "terminationGracePeriodSeconds": 30});
    if random.chance(15) {
        let mut first = container(random);
        first["name"] = "first".into();
        if random.chance(50) {
            first["restartPolicy"] = "Always".into();
        }
        spec["initContainers"] = json!([first]);
    }
    if random.chance(25) {
        spec["nodeSelector"] = json!({"disk": random.pick(&["ssd", "hdd"])});
    }
    if random.chance(50) {
        let keys = [
            json!({"operator": "Exists"}),
            json!({"key": "red", "operator": "Exists"}),
            json!({"key": "green", "value": "1"}),
            json!({"key": "red", "value": "2", "effect": "NoSchedule"}),
        ];
        spec["tolerations"] = json!([random.pick(&keys.iter().collect::<Vec<_>>())]);
    }
    if random.chance(18) {
        spec["priorityClassName"] = random.pick(&["low", "high", "high"]).into();
    }
    if random.chance(40) {
        spec["topologySpreadConstraints"] = constraints(random);
    }
    if random.chance(55) {
        spec["affinity"] = affinity(random, nodes);
    }
    let mine: Vec<&String> = claims.iter().filter(|(of, _)| of == namespace).map(|(_, name)| name).collect();
    if !mine.is_empty() && random.chance(35) {
        let claim = random.pick(&mine);
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    } else if random.chance(3) {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "nothing"}}]);
    }
    json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec})
}

fn container(random: &mut Random) -> Value {
    let mut requests = json!({});
    if random.chance(75) {
        requests["cpu"] = format!("{}m", 100 * random.below(12)).into();
    }
    if random.chance(60) {
        requests["memory"] = format!("{}Mi", 128 * random.below(10)).into();
    }
    if random.chance(8) {
        requests["example.com/gpu"] = "1".into();
    }
    if random.chance(8) {
        requests["ephemeral-storage"] = "6Gi".into();
    }
    let limits = match requests.get("example.com/gpu") {
        Some(count) => json!({"example.com/gpu": count}),
        None => json!({}),
    };
    let mut container =
        json!({"name": "main", "image": "i", "resources": {"requests": requests, "limits": limits}});
    if random.chance(12) {
        let mut port = json!({"containerPort": 80, "hostPort": 8000 + random.below(2)});
        if random.chance(40) {
            port["hostIP"] = random.pick(&["127.0.0.1", "10.0.0.1"]).into();
        }
        container["ports"] = json!([port]);
    }
    container
}

fn selector(random: &mut Random) -> Value {
    match random.below(5) {
        0 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
        1 => json!({"matchLabels": {"tier": "web"}}),
        2 => json!({}),
        _ => json!({"matchLabels": {"app": random.pick(&["a", "b", "c"])}}),
    }
}

const TOPOLOGIES: [&str; 3] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk"];

fn constraints(random: &mut Random) -> Value {
    let mut list = Vec::new();
    for topology in TOPOLOGIES {
        if !random.chance(45) {
            continue;
        }
        let mut rule = json!({
            "topologyKey": topology, "maxSkew": 1 + random.below(2),
            "whenUnsatisfiable": random.pick(&["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": selector(random),
        });
        if rule["whenUnsatisfiable"] == "DoNotSchedule" && random.chance(30) {
            rule["minDomains"] = (1 + random.below(4)).into();
        }
        for (field, percent) in [("nodeAffinityPolicy", 30), ("nodeTaintsPolicy", 30)] {
            if random.chance(percent) {
                rule[field] = random.pick(&["Honor", "Ignore"]).into();
            }
        }
        if random.chance(20) && rule["labelSelector"]["matchLabels"].get("tier").is_none() {
            rule["matchLabelKeys"] = json!(["tier"]);
        }
        list.push(rule);
    }
    list.into()
}

fn affinity(random: &mut Random, nodes: &[String]) -> Value {
    let mut affinity = json!({});
    if random.chance(35) {
        let mut node = json!({});
        if random.chance(60) {
            node["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": [node_term(random, nodes), node_term(random, nodes)]});
        }
        if random.chance(60) {
            node["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
                {"weight": 1 + random.below(100), "preference": node_term(random, nodes)},
                {"weight": 1 + random.below(100), "preference": node_term(random, nodes)},
            ]);
        }
        affinity["nodeAffinity"] = node;
    }
    for (kind, percent) in [("podAffinity", 25), ("podAntiAffinity", 50)] {
        if !random.chance(percent) {
            continue;
        }
        let mut pods = json!({});
        if random.chance(50) {
            pods["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term(random)]);
        }
        if random.chance(60) {
            pods["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
                {"weight": 1 + random.below(100), "podAffinityTerm": term(random)},
                {"weight": 1 + random.below(100), "podAffinityTerm": term(random)},
            ]);
        }
        affinity[kind] = pods;
    }
    affinity
}

fn node_term(random: &mut Random, nodes: &[String]) -> Value {
    let name = random.pick(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
    match random.below(6) {
        0 => {
            json!({"matchFields": [{"key": "metadata.name", "operator": random.pick(&["In", "NotIn"]), "values": [name]}]})
        }
        1 => {
            json!({"matchExpressions": [{"key": "size", "operator": random.pick(&["Gt", "Lt"]), "values": ["2"]}]})
        }
        2 => {
            json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": random.pick(&["Exists", "DoesNotExist"])}]})
        }
        3 => json!({
            "matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]}],
        }),
        _ => {
            json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [random.pick(&["z1", "z2"]), "z3"]}]})
        }
    }
}

fn term(random: &mut Random) -> Value {
    let mut term = json!({"topologyKey": random.pick(&TOPOLOGIES), "labelSelector": selector(random)});
    match random.below(6) {
        0 => term["namespaces"] = json!(["left", "right"]),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({"matchLabels": {"team": random.pick(&["x", "y"])}}),
        _ => {}
    }
    term
}
