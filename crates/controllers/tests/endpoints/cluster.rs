//! The cluster that both controllers see: nodes in zones, pods in all states, Services of all kinds, and
//! changes.

use serde_json::{Value, json};

/// An object to create, in this order: path of the collection, the object, and its status, if any.
pub struct Made {
    pub path: String,
    pub object: Value,
    pub status: Option<Value>,
}

/// A change and its reversal: path, and a merge patch for each direction.
pub struct Change {
    pub path: String,
    pub there: Value,
    pub back: Value,
}

fn of(resource: &str, object: Value) -> Made {
    let path = match resource {
        "nodes" | "namespaces" => format!("/api/v1/{resource}"),
        _ => in_namespace(resource),
    };
    Made { path, object, status: None }
}

fn in_namespace(resource: &str) -> String {
    format!("/api/v1/namespaces/test/{resource}")
}

fn node(name: &str, zone: &str, ready: &str) -> Made {
    let labels = if zone.is_empty() { json!({}) } else { json!({"topology.kubernetes.io/zone": zone}) };
    let status = json!({
        "allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": ready, "reason": "Test",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    Made { status: Some(status), ..of("nodes", json!({"metadata": {"name": name, "labels": labels}})) }
}

/// A running pod, which cases modify.
struct Pod {
    object: Value,
    status: Value,
}

fn pod(name: &str, app: &str, node: &str, addresses: &[&str]) -> Pod {
    let ports = json!([
        {"name": "http", "containerPort": 8080},
        {"name": "dns", "containerPort": 5353, "protocol": "UDP"},
        {"name": "diameter", "containerPort": 3868, "protocol": "SCTP"},
    ]);
    let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
    Pod {
        object: json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 3600,
                "containers": [{"name": "main", "image": "image:1", "ports": ports}],
            },
        }),
        status: json!({
            "phase": "Running", "podIP": addresses.first(), "podIPs": ips,
            "conditions": [ready("True", "2026-01-01T00:00:00Z")],
        }),
    }
}

pub fn ready(status: &str, since: &str) -> Value {
    json!({"type": "Ready", "status": status, "lastTransitionTime": since})
}

impl Pod {
    /// Sets the value at a JSON pointer.
    fn with(mut self, pointer: &str, value: Value) -> Pod {
        let (root, path) = match pointer.strip_prefix("/status") {
            Some(path) => (&mut self.status, path),
            None => (&mut self.object, pointer),
        };
        let (parent, field) = path.rsplit_once('/').expect("a pointer");
        root.pointer_mut(parent).expect("the parent is there")[field] = value;
        self
    }

    fn made(self) -> Made {
        Made { status: Some(self.status), ..of("pods", self.object) }
    }
}

fn service(name: &str, spec: Value) -> Made {
    of("services", json!({"metadata": {"name": name, "labels": {"of": name}}, "spec": spec}))
}

/// Returns all objects. `further` is the number of additional pods of one Service.
pub fn made(further: usize) -> Vec<Made> {
    let mut made = vec![of("namespaces", json!({"metadata": {"name": "test"}}))];
    made.extend([
        node("in-a", "a", "True"),
        node("in-b", "b", "True"),
        node("nowhere", "", "False"),
        node("silent", "a", "Unknown"),
    ]);
    made.extend(pods().into_iter().map(Pod::made));
    made.extend((0..further).map(|count| {
        let address = format!("10.9.{}.{}", count / 200, count % 200 + 1);
        let node = ["in-a", "in-b"][count % 2];
        let many = pod(&format!("many-{count}"), "many", node, &[&address]);
        let is_ready = if count % 10 == 9 { "False" } else { "True" };
        many.with("/status/conditions", json!([ready(is_ready, "2026-01-01T00:00:00Z")])).made()
    }));
    made.extend(services());
    made.extend(by_hand());
    made
}

fn pods() -> Vec<Pod> {
    let not_ready = || json!([ready("False", "2026-01-01T00:01:00Z")]);
    let mut pods = vec![
        pod("web-1", "web", "in-a", &["10.1.0.1"]),
        pod("web-2", "web", "in-b", &["10.1.0.2"])
            .with("/spec/containers/0/ports/0/containerPort", json!(9090)),
        pod("web-3", "web", "in-b", &["10.1.0.3"]).with("/status/conditions", not_ready()),
        pod("web-4", "web", "nowhere", &["10.1.0.4"]),
        pod("web-5", "web", "silent", &["10.1.0.5"]).with("/spec/containers/0/ports", json!([])),
        pod("succeeded", "web", "in-a", &["10.1.0.6"]).with("/status/phase", json!("Succeeded")),
        pod("failed", "web", "in-a", &["10.1.0.7"]).with("/status/phase", json!("Failed")),
        pod("pending", "web", "in-a", &[])
            .with("/status/phase", json!("Pending"))
            .with("/status/conditions", json!([])),
        pod("unheard", "web", "in-a", &["10.1.0.8"]).with("/status/conditions", json!([])),
        pod("beside", "web", "in-a", &["10.1.0.9"]).with("/spec/containers/0/ports", json!([])).with(
            "/spec/initContainers",
            json!([
                {"name": "first", "image": "image:1", "ports": [{"name": "http", "containerPort": 1}]},
                {"name": "beside", "image": "image:1", "restartPolicy": "Always",
                    "ports": [{"name": "http", "containerPort": 7070}]},
            ]),
        ),
        pod("going", "web", "in-b", &["10.1.0.10"]),
        pod("going-unready", "web", "in-b", &["10.1.0.11"]).with("/status/conditions", not_ready()),
        pod("homeless", "lost", "gone", &["10.1.0.12"]),
        pod("not-homeless", "lost", "in-a", &["10.1.0.13"]),
        pod("both-1", "both", "in-a", &["10.2.0.1", "fd00:2::1"]),
        pod("both-2", "both", "in-b", &["fd00:2::2", "10.2.0.2"]),
        pod("both-3", "both", "in-b", &["10.2.0.3"]),
        pod("shared-1", "shared", "in-a", &["10.3.0.1"]),
        pod("shared-2", "shared", "in-a", &["10.3.0.1"]),
        pod("shared-3", "shared", "in-b", &["10.3.0.1"]).with("/status/conditions", not_ready()),
        pod("named-1", "named", "in-a", &["10.4.0.1"])
            .with("/spec/hostname", json!("first"))
            .with("/spec/subdomain", json!("names")),
        pod("named-2", "named", "in-b", &["10.4.0.2"])
            .with("/spec/hostname", json!("second"))
            .with("/spec/subdomain", json!("others")),
        pod("named-3", "named", "in-b", &["10.4.0.3"]).with("/spec/subdomain", json!("names")),
    ];
    // Six in one zone and two in the other: too few for nodes of equal size.
    for count in 0..8 {
        let node = if count < 6 { "in-a" } else { "in-b" };
        pods.push(pod(&format!("zoned-{count}"), "zoned", node, &[&format!("10.5.0.{}", count + 1)]));
    }
    for count in 0..6 {
        let node = ["in-a", "in-b"][count % 2];
        pods.push(pod(&format!("even-{count}"), "even", node, &[&format!("10.6.0.{}", count + 1)]));
    }
    pods
}

/// Pods that are being deleted.
pub const TERMINATING_PODS: [&str; 2] = ["going", "going-unready"];

fn services() -> Vec<Made> {
    let web = json!({"app": "web"});
    let http = json!([{"port": 80, "targetPort": 8080}]);
    let named = json!([{"name": "web", "port": 80, "targetPort": "http"}]);
    let several = json!([
        {"name": "http", "port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"},
        {"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"},
        {"name": "diameter", "port": 3868, "targetPort": "diameter", "protocol": "SCTP"},
        {"name": "fixed", "port": 81, "targetPort": 8080},
        {"name": "none", "port": 82, "targetPort": "nobody"},
        {"name": "other-protocol", "port": 83, "targetPort": "http", "protocol": "UDP"},
    ]);
    let mut labelled = service("labelled", json!({"selector": web, "ports": http}));
    labelled.object["metadata"]["labels"] = json!({
        "own": "label", "service.kubernetes.io/headless": "x", "endpoints.kubernetes.io/managed-by": "somebody",
        "kubernetes.io/service-name": "another", "endpointslice.kubernetes.io/managed-by": "somebody",
    });
    let mut without_labels = service("without-labels", json!({"selector": web, "ports": http}));
    without_labels.object["metadata"]["labels"] = Value::Null;
    let mut made = vec![
        labelled,
        without_labels,
        service("plain", json!({"selector": web, "ports": http})),
        service("named", json!({"selector": web, "ports": named})),
        service("several", json!({"selector": web, "ports": several})),
        service(
            "same-target",
            json!({"selector": web, "ports": [
            {"name": "one", "port": 80, "targetPort": 8080}, {"name": "two", "port": 81, "targetPort": 8080}]}),
        ),
        service("headless", json!({"clusterIP": "None", "selector": web, "ports": named})),
        service("headless-without-ports", json!({"clusterIP": "None", "selector": web})),
        service("eager", json!({"publishNotReadyAddresses": true, "selector": web, "ports": named})),
        service(
            "eager-headless",
            json!({"publishNotReadyAddresses": true, "clusterIP": "None", "selector": web}),
        ),
        service(
            "eager-homeless",
            json!({"publishNotReadyAddresses": true, "selector": {"app": "lost"}, "ports": http}),
        ),
        service("homeless", json!({"selector": {"app": "lost"}, "ports": http})),
        service("nobody", json!({"selector": {"app": "nobody"}, "ports": http})),
        service("nobody-headless", json!({"clusterIP": "None", "selector": {"app": "nobody"}})),
        service("shared", json!({"selector": {"app": "shared"}, "ports": http})),
        service("names", json!({"clusterIP": "None", "selector": {"app": "named"}, "ports": http})),
        service("of-node-ports", json!({"type": "NodePort", "selector": web, "ports": http})),
        service(
            "balanced",
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": web, "ports": http}),
        ),
        service("elsewhere", json!({"type": "ExternalName", "externalName": "example.com", "selector": web})),
        service(
            "many",
            json!({"selector": {"app": "many"}, "ports": [
            {"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"}]}),
        ),
        service(&"l".repeat(63), json!({"selector": web, "ports": http})),
    ];
    for (name, families, policy) in [
        ("four", &["IPv4"][..], "SingleStack"),
        ("six", &["IPv6"], "SingleStack"),
        ("four-and-six", &["IPv4", "IPv6"], "RequireDualStack"),
        ("six-and-four", &["IPv6", "IPv4"], "RequireDualStack"),
    ] {
        let spec = json!({"ipFamilies": families, "ipFamilyPolicy": policy, "selector": {"app": "both"}, "ports": http});
        made.push(service(name, spec));
        let mut spec = json!({"ipFamilies": families, "ipFamilyPolicy": policy, "selector": {"app": "both"}});
        spec["clusterIP"] = "None".into();
        made.push(service(&format!("headless-{name}"), spec));
    }
    for preference in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        let spec = json!({"trafficDistribution": preference, "selector": web, "ports": http});
        made.push(service(&preference.to_lowercase(), spec));
    }
    // Late in the alphabet, because kube-controller-manager needs a moment to list the nodes.
    for (name, app, annotation, value) in [
        ("topology-even", "even", "service.kubernetes.io/topology-mode", "Auto"),
        ("topology-zoned", "zoned", "service.kubernetes.io/topology-mode", "Auto"),
        ("topology-older", "even", "service.kubernetes.io/topology-aware-hints", "auto"),
        ("topology-few", "shared", "service.kubernetes.io/topology-mode", "Auto"),
        ("topology-many", "many", "service.kubernetes.io/topology-mode", "Auto"),
        ("topology-without-zone", "web", "service.kubernetes.io/topology-mode", "Auto"),
        ("topology-off", "even", "service.kubernetes.io/topology-mode", "Disabled"),
        ("topology-changing", "even", "service.kubernetes.io/topology-mode", "Auto"),
        ("topology-changed", "zoned", "service.kubernetes.io/topology-mode", "Disabled"),
    ] {
        let mut auto = service(name, json!({"selector": {"app": app}, "ports": http}));
        auto.object["metadata"]["annotations"] = json!({ annotation: value });
        made.push(auto);
    }
    let mut both = service(
        "topology-and-close",
        json!({"selector": {"app": "even"}, "ports": http, "trafficDistribution": "PreferSameNode"}),
    );
    both.object["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    made.push(both);
    made
}

/// Returns Endpoints without a controller, and Services for most of them.
fn by_hand() -> Vec<Made> {
    let http = json!([{"port": 80}]);
    let mut made = Vec::new();
    for (name, labels, annotations, subsets) in [
        (
            "hand",
            json!({"own": "label"}),
            json!({"own": "annotation", "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
                "kubectl.kubernetes.io/last-applied-configuration": "{}"}),
            json!([
                {
                    "addresses": [
                        {"ip": "10.8.0.1", "hostname": "first", "nodeName": "in-a"},
                        {"ip": "10.8.0.2", "targetRef": {"kind": "Pod", "namespace": "test", "name": "web-1"}},
                        {"ip": "fd00:8::1"},
                    ],
                    "notReadyAddresses": [{"ip": "10.8.0.3"}],
                    "ports": [{"name": "a", "port": 8080, "appProtocol": "http"}, {"name": "b", "port": 53, "protocol": "UDP"}],
                },
                {"addresses": [{"ip": "10.8.0.1"}], "ports": [{"name": "c", "port": 8080}]},
                {"addresses": [{"ip": "10.8.0.4"}]},
            ]),
        ),
        (
            "hand-repeated",
            json!({}),
            json!({}),
            json!([
                {"addresses": [{"ip": "10.8.1.1"}], "ports": [{"port": 80}]},
                {"notReadyAddresses": [{"ip": "10.8.1.1"}, {"ip": "10.8.1.2"}], "ports": [{"port": 80}]},
            ]),
        ),
        ("hand-empty", json!({}), json!({}), json!([])),
        (
            "hand-skipped",
            json!({"endpointslice.kubernetes.io/skip-mirror": "true"}),
            json!({}),
            json!([{"addresses": [{"ip": "10.8.2.1"}], "ports": [{"port": 80}]}]),
        ),
        (
            "hand-lock",
            json!({}),
            json!({"control-plane.alpha.kubernetes.io/leader": "{}"}),
            json!([{"addresses": [{"ip": "10.8.3.1"}], "ports": [{"port": 80}]}]),
        ),
        (
            "hand-changing",
            json!({}),
            json!({"now": "10.8.4.1"}),
            json!([{"addresses": [{"ip": "10.8.4.1"}], "ports": [{"port": 80}]}]),
        ),
    ] {
        made.push(service(name, json!({"ports": http})));
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        made.push(of("endpoints", json!({"metadata": metadata, "subsets": subsets})));
    }
    made.push(service("hand-headless", json!({"clusterIP": "None"})));
    let subsets = json!([{"addresses": [{"ip": "10.8.5.1"}]}]);
    made.push(of("endpoints", json!({"metadata": {"name": "hand-headless"}, "subsets": subsets})));
    made
}

fn change(resource: &str, there: Value, back: Value) -> Change {
    Change { path: in_namespace(resource), there, back }
}

/// Returns the changes that are made and later reverted.
pub fn changes() -> Vec<Change> {
    let conditions = |status: &str, since: &str| json!({"status": {"conditions": [ready(status, since)]}});
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let prefers = |what: Value| json!({"spec": {"trafficDistribution": what}});
    let mode =
        |what: &str| json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": what}}});
    let subset = |ip: &str| {
        json!({"metadata": {"annotations": {"now": ip}}, "subsets": [
        {"addresses": [{"ip": ip}], "ports": [{"port": 80, "protocol": "TCP"}]}]})
    };
    vec![
        change(
            "pods/web-1/status",
            conditions("False", "2026-01-01T01:00:00Z"),
            conditions("True", "2026-01-01T00:00:00Z"),
        ),
        change(
            "pods/web-3/status",
            conditions("True", "2026-01-01T01:00:00Z"),
            conditions("False", "2026-01-01T00:01:00Z"),
        ),
        change("pods/web-4", label("elsewhere"), label("web")),
        change("pods/even-0", label("nobody"), label("even")),
        change(
            "pods/both-3/status",
            json!({"status": {"podIP": "10.2.0.33", "podIPs": [{"ip": "10.2.0.33"}]}}),
            json!({"status": {"podIP": "10.2.0.3", "podIPs": [{"ip": "10.2.0.3"}]}}),
        ),
        change(
            "services/plain",
            json!({"metadata": {"labels": {"of": "change"}}}),
            json!({"metadata": {"labels": {"of": "plain"}}}),
        ),
        change(
            "services/named",
            json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": "dns", "protocol": "UDP"}]}}),
            json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}]}}),
        ),
        change(
            "services/headless",
            json!({"spec": {"selector": {"app": "shared"}}}),
            json!({"spec": {"selector": {"app": "web"}}}),
        ),
        change(
            "services/shared",
            json!({"spec": {"publishNotReadyAddresses": true}}),
            json!({"spec": {"publishNotReadyAddresses": false}}),
        ),
        change("services/prefersamenode", prefers(json!("PreferSameZone")), prefers(json!("PreferSameNode"))),
        change("services/preferclose", prefers(Value::Null), prefers(json!("PreferClose"))),
        change("services/topology-changing", mode("Disabled"), mode("Auto")),
        change("services/topology-changed", mode("Auto"), mode("Disabled")),
        change("endpoints/hand-changing", subset("10.8.4.2"), subset("10.8.4.1")),
    ]
}
