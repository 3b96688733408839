//! Cases for both autoscalers: targets, pods with known usage, and expected results.

use serde_json::{Value, json};

pub const NAMESPACE: &str = "test";
/// Collection of HorizontalPodAutoscalers.
pub const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/test/horizontalpodautoscalers";
/// Collection of Widgets, which have a scale; their pods do not depend on it.
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/test/widgets";
/// Longer than any test takes, in seconds.
const LONG: i64 = 1800;

/// One autoscaler with its target.
pub struct Case {
    pub name: &'static str,
    /// Initial replicas of the target; `None` if it does not exist.
    pub replicas: Option<i64>,
    pub pods: Vec<Value>,
    /// Spec of the autoscaler, without a target if that is the Widget with the same name.
    pub spec: Value,
    /// Expected replicas in the end.
    pub settles: i64,
    /// Expected status of `ScalingActive`; `None` if it is missing.
    pub active: Option<bool>,
}

impl Case {
    /// Creates a case without a target of its own.
    fn at(name: &'static str, target: Value, settles: i64, active: Option<bool>) -> Case {
        let spec = json!({"maxReplicas": 10, "scaleTargetRef": target, "metrics": [cpu(50)]});
        Case { name, replicas: None, pods: Vec::new(), spec, settles, active }
    }

    fn within(mut self, least: i64, most: i64) -> Case {
        self.spec["minReplicas"] = least.into();
        self.spec["maxReplicas"] = most.into();
        self
    }

    fn inactive(mut self) -> Case {
        self.active = Some(false);
        self
    }
}

fn case(name: &'static str, replicas: i64, pods: Vec<Value>, spec: Value, settles: i64) -> Case {
    let pods = pods.into_iter().enumerate().map(|(place, mut pod)| {
        pod["metadata"]["name"] = format!("{name}-{place}").into();
        pod["metadata"]["labels"] = json!({"app": name});
        pod
    });
    Case { name, replicas: Some(replicas), pods: pods.collect(), spec, settles, active: Some(true) }
}

/// Returns a pod that requests a tenth of a CPU and 100 MiB, with this usage.
fn pod(usage: &str) -> Value {
    json!({
        "metadata": {"annotations": {"sim.atoll.dev/usage": usage}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container("main")]},
    })
}

fn container(name: &str) -> Value {
    let requests = json!({"cpu": "100m", "memory": "100Mi"});
    json!({"name": name, "image": "web:1", "resources": {"requests": requests}})
}

fn pods(count: usize, usage: &str) -> Vec<Value> {
    vec![pod(usage); count]
}

/// Sets the value at a JSON pointer.
pub fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    pod.pointer_mut(parent).expect("the parent is there")[field] = value;
    pod
}

/// Returns a pod that runs, but was never ready.
fn unready(usage: &str) -> Value {
    let mut pod = pod(usage);
    pod["metadata"]["annotations"]["sim.atoll.dev/readiness-probe"] = "fail".into();
    with(pod, "/spec/containers/0/readinessProbe", json!({"exec": {"command": ["true"]}}))
}

/// Returns a pod that cannot be scheduled.
fn pending() -> Value {
    with(pod("cpu=1%"), "/spec/nodeSelector", json!({"kind": "none"}))
}

/// A node without metrics.
pub const UNMEASURED: &str = "elsewhere";
fn unmeasured() -> Value {
    with(pod("cpu=1%"), "/spec/nodeName", UNMEASURED.into())
}

fn ended(code: &str) -> Value {
    let mut pod = with(pod("cpu=1%"), "/spec/restartPolicy", "Never".into());
    pod["metadata"]["annotations"] =
        json!({"sim.atoll.dev/exit-after": "0s", "sim.atoll.dev/exit-code": code});
    pod
}

/// Finalizer that keeps a pod terminating.
pub const KEPT: &str = "example.com/kept";
fn terminating() -> Value {
    with(pod("cpu=900%"), "/metadata/finalizers", json!([KEPT]))
}

fn resource(name: &str, target: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": name, "target": target}})
}

fn part(percent: i64) -> Value {
    json!({"type": "Utilization", "averageUtilization": percent})
}

fn average(value: &str) -> Value {
    json!({"type": "AverageValue", "averageValue": value})
}

pub fn cpu(percent: i64) -> Value {
    resource("cpu", part(percent))
}

fn of_container(name: &str, container: &str, target: Value) -> Value {
    json!({"type": "ContainerResource", "containerResource": {"name": name, "container": container, "target": target}})
}

fn of_pods(name: &str) -> Value {
    let selector = json!({"matchLabels": {"queue": "a"}});
    json!({"type": "Pods", "pods": {"metric": {"name": name, "selector": selector}, "target": average("5")}})
}

fn external(target: Value) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "depth"}, "target": target}})
}

fn of_object(kind: &str, version: &str, target: Value) -> Value {
    let about = json!({"kind": kind, "name": "one", "apiVersion": version});
    json!({"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": about, "target": target}})
}

pub fn by(metrics: Value) -> Value {
    json!({"minReplicas": 1, "maxReplicas": 20, "metrics": metrics})
}

/// Returns a spec without a downscale stabilization.
fn lively(metrics: Value) -> Value {
    behaving(metrics, json!({"scaleDown": {"stabilizationWindowSeconds": 0}}))
}

fn behaving(metrics: Value, behavior: Value) -> Value {
    with(by(metrics), "/behavior", behavior)
}

fn policy(kind: &str, value: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": LONG})
}

/// Returns all cases.
pub fn all() -> Vec<Case> {
    let mut all = by_resources();
    all.extend(bounded());
    all.extend(behaved());
    all.extend(states());
    all.extend(failing());
    all.extend(targets());
    all
}

fn by_resources() -> Vec<Case> {
    let two =
        |usage: &str| with(pod(usage), "/spec/containers", json!([container("main"), container("proxy")]));
    let beside = |usage: &str| {
        let mut beside = container("beside");
        beside["restartPolicy"] = "Always".into();
        let mut before = container("before");
        before["command"] = json!(["true"]);
        with(pod(usage), "/spec/initContainers", json!([before, beside]))
    };
    let whole =
        |usage: &str, requests: Value| with(pod(usage), "/spec/resources", json!({"requests": requests}));
    let unasked = |usage: &str| with(pod(usage), "/spec/containers/0/resources", json!({}));
    vec![
        case("part-up", 2, pods(2, "cpu=90%"), by(json!([cpu(50)])), 4),
        case("part-down", 4, pods(4, "cpu=10%"), lively(json!([cpu(50)])), 1),
        case("part-same", 3, pods(3, "cpu=54%"), by(json!([cpu(50)])), 3),
        case("part-default", 1, pods(1, "cpu=200%"), json!({"maxReplicas": 9}), 3),
        case(
            "part-uneven",
            3,
            vec![pod("cpu=33m"), pod("cpu=34m"), pod("cpu=100m")],
            by(json!([cpu(30)])),
            6,
        ),
        case("value-up", 2, pods(2, "cpu=125m"), by(json!([resource("cpu", average("50m"))])), 5),
        case(
            "value-down",
            5,
            vec![pod("cpu=33m"), pod("cpu=34m")],
            lively(json!([resource("cpu", average("100m"))])),
            1,
        ),
        case("value-whole", 1, pods(1, "cpu=2500m"), by(json!([resource("cpu", average("1"))])), 3),
        case("memory-part", 2, pods(2, "memory=150Mi"), by(json!([resource("memory", part(60))])), 5),
        case(
            "memory-value",
            2,
            pods(2, "memory=1500000001"),
            by(json!([resource("memory", average("1Gi"))])),
            3,
        ),
        case(
            "memory-odd",
            2,
            vec![pod("memory=10Mi"), pod("memory=1025")],
            by(json!([resource("memory", average("4M"))])),
            3,
        ),
        case(
            "nothing-used",
            3,
            pods(3, "cpu=0,memory=0"),
            lively(json!([cpu(50), resource("memory", average("1Mi"))])),
            1,
        ),
        case("two-containers", 1, vec![two("main/cpu=100m,proxy/cpu=20m")], by(json!([cpu(20)])), 3),
        case(
            "one-container",
            1,
            vec![two("main/cpu=100m,proxy/cpu=20m")],
            by(json!([of_container("cpu", "proxy", part(10))])),
            2,
        ),
        case(
            "one-container-value",
            1,
            vec![two("memory=3Mi,proxy/memory=9Mi")],
            by(json!([of_container("memory", "proxy", average("2Mi"))])),
            5,
        ),
        case(
            "no-such-container",
            2,
            pods(1, "cpu=90%"),
            by(json!([of_container("cpu", "nobody", part(10))])),
            2,
        )
        .inactive(),
        case("containers-beside", 1, vec![beside("cpu=90m")], by(json!([cpu(30)])), 3),
        case(
            "container-beside",
            1,
            vec![beside("cpu=90m,beside/cpu=50m")],
            by(json!([of_container("cpu", "beside", part(25))])),
            2,
        ),
        case(
            "whole-pods",
            1,
            vec![whole("cpu=200m", json!({"cpu": "400m", "memory": "1Gi"}))],
            by(json!([cpu(20)])),
            3,
        ),
        case(
            "whole-pods-of-memory",
            1,
            vec![whole("cpu=200m", json!({"memory": "1Gi"}))],
            by(json!([cpu(50)])),
            4,
        ),
        case(
            "nothing-whole",
            2,
            vec![with(
                whole("cpu=200m", json!({"memory": "1Gi"})),
                "/spec/containers/0/resources",
                json!({}),
            )],
            by(json!([cpu(50)])),
            2,
        )
        .inactive(),
        case(
            "several",
            2,
            pods(2, "cpu=60%,memory=90Mi"),
            by(json!([cpu(50), resource("memory", average("20Mi")), of_container("cpu", "main", part(30)),])),
            9,
        ),
        case(
            "several-down",
            6,
            pods(6, "cpu=20%,memory=10Mi"),
            lively(json!([cpu(50), resource("memory", average("20Mi"))])),
            3,
        ),
        case("unasked", 2, vec![unasked("cpu=90m")], by(json!([cpu(50)])), 2).inactive(),
        case("unasked-value", 2, vec![unasked("cpu=90m")], by(json!([resource("cpu", average("30m"))])), 3),
        case(
            "unasked-container",
            2,
            vec![unasked("cpu=90m")],
            by(json!([of_container("cpu", "main", part(50))])),
            2,
        )
        .inactive(),
        case(
            "unknown-resource",
            2,
            pods(1, "cpu=90m"),
            by(json!([resource("ephemeral-storage", average("1Gi"))])),
            2,
        )
        .inactive(),
    ]
}

fn bounded() -> Vec<Case> {
    let most = |most: i64| with(by(json!([cpu(50)])), "/maxReplicas", most.into());
    let least = |least: i64| with(lively(json!([cpu(50)])), "/minReplicas", least.into());
    vec![
        case("too-many", 2, pods(2, "cpu=300%"), most(3), 3),
        case("too-many-at-first", 9, pods(2, "cpu=300%"), most(4), 4),
        case("too-few", 5, pods(5, "cpu=1%"), least(3), 3),
        case(
            "too-few-at-first",
            1,
            pods(1, "cpu=50%"),
            with(by(json!([cpu(50)])), "/minReplicas", 4.into()),
            4,
        ),
        case("step-by-step", 1, pods(4, "cpu=250%"), by(json!([cpu(50)])), 20),
        case("zero", 0, pods(1, "cpu=90%"), by(json!([cpu(50)])), 0).inactive(),
    ]
}

fn behaved() -> Vec<Case> {
    let up = |rules: Value| behaving(json!([cpu(50)]), json!({ "scaleUp": rules }));
    let down = |rules: Value| {
        let spec = behaving(json!([cpu(50)]), json!({ "scaleDown": rules }));
        with(spec, "/behavior/scaleDown/stabilizationWindowSeconds", 0.into())
    };
    let hot = |count: usize| pods(count, "cpu=200%");
    let cold = |count: usize| pods(count, "cpu=5%");
    vec![
        case("stabilized", 4, cold(4), by(json!([cpu(50)])), 4),
        case(
            "stabilized-down",
            4,
            cold(4),
            behaving(json!([cpu(50)]), json!({"scaleUp": {"selectPolicy": "Max"}})),
            4,
        ),
        case("stabilized-up", 2, hot(2), up(json!({"stabilizationWindowSeconds": 3600})), 2),
        case("up-by-pods", 2, hot(2), up(json!({"policies": [policy("Pods", 3)]})), 5),
        case("up-by-part", 3, hot(3), up(json!({"policies": [policy("Percent", 50)]})), 5),
        case("up-by-tenth", 10, hot(10), up(json!({"policies": [policy("Percent", 10)]})), 11),
        case("up-most", 2, hot(2), up(json!({"policies": [policy("Pods", 1), policy("Percent", 150)]})), 5),
        case(
            "up-least",
            2,
            hot(2),
            up(json!({"selectPolicy": "Min", "policies": [policy("Pods", 1), policy("Percent", 150)]})),
            3,
        ),
        case("up-never", 2, hot(2), up(json!({"selectPolicy": "Disabled"})), 2),
        case("up-by-default", 1, pods(4, "cpu=250%"), up(json!({"stabilizationWindowSeconds": 0})), 20),
        case("down-by-pods", 6, cold(6), down(json!({"policies": [policy("Pods", 2)]})), 4),
        case("down-by-part", 7, cold(7), down(json!({"policies": [policy("Percent", 30)]})), 4),
        // Of ten, slightly less than two are left.
        case("down-to-tenths", 10, cold(4), down(json!({"policies": [policy("Percent", 80)]})), 1),
        case("down-to-tenth", 20, cold(4), down(json!({"policies": [policy("Percent", 90)]})), 1),
        case(
            "down-most",
            6,
            cold(6),
            down(json!({"policies": [policy("Pods", 1), policy("Percent", 50)]})),
            3,
        ),
        case(
            "down-least",
            6,
            cold(6),
            down(json!({"selectPolicy": "Min", "policies": [policy("Pods", 1), policy("Percent", 50)]})),
            5,
        ),
        case("down-never", 6, cold(6), down(json!({"selectPolicy": "Disabled"})), 6),
        case("tolerant", 2, pods(2, "cpu=70%"), up(json!({"tolerance": "0.5"})), 2),
        case("intolerant", 2, pods(2, "cpu=51%"), up(json!({"tolerance": "0.0015"})), 3),
        case(
            "hardly-tolerant",
            2,
            pods(2, "cpu=1001m"),
            with(up(json!({"tolerance": "0.0005"})), "/metrics", json!([resource("cpu", average("1"))])),
            3,
        ),
        case("tolerant-down", 4, pods(4, "cpu=30%"), down(json!({"tolerance": "500m"})), 4),
        case(
            "tolerant-of-nothing",
            50,
            pods(4, "cpu=49%"),
            with(down(json!({"tolerance": "0"})), "/maxReplicas", 60.into()),
            4,
        ),
    ]
}

/// Cases with pods that are not simply running.
fn states() -> Vec<Case> {
    let mixed = |first: Vec<Value>, more: Vec<Value>| [first, more].concat();
    vec![
        case("unready-up", 3, mixed(pods(2, "cpu=100%"), vec![unready("cpu=100%")]), by(json!([cpu(50)])), 4),
        case(
            "unready-same",
            4,
            mixed(pods(2, "cpu=80%"), vec![unready("cpu=1%"), unready("cpu=1%")]),
            by(json!([cpu(50)])),
            4,
        ),
        case(
            "unready-down",
            4,
            mixed(pods(2, "cpu=10%"), vec![unready("cpu=90%")]),
            lively(json!([cpu(50)])),
            1,
        ),
        case(
            "unready-of-memory",
            3,
            mixed(pods(1, "memory=50Mi"), vec![unready("memory=150Mi")]),
            by(json!([resource("memory", part(50))])),
            4,
        ),
        case("only-unready", 2, vec![unready("cpu=100%")], by(json!([cpu(50)])), 2).inactive(),
        case("pending", 3, mixed(pods(2, "cpu=200%"), vec![pending()]), by(json!([cpu(50)])), 8),
        case("missing-up", 3, mixed(pods(2, "cpu=200%"), vec![unmeasured()]), by(json!([cpu(50)])), 8),
        case("missing-down", 5, mixed(pods(3, "cpu=10%"), vec![unmeasured()]), lively(json!([cpu(50)])), 3),
        case(
            "missing-of-much",
            9,
            mixed(pods(3, "cpu=10%"), vec![unmeasured()]),
            lively(json!([cpu(200)])),
            2,
        ),
        case(
            "missing-value",
            5,
            mixed(pods(3, "cpu=10m"), vec![unmeasured()]),
            lively(json!([resource("cpu", average("50m"))])),
            2,
        ),
        case("missing-turns", 2, mixed(pods(2, "cpu=60%"), vec![unmeasured()]), by(json!([cpu(50)])), 2),
        case("failed", 2, mixed(pods(2, "cpu=100%"), vec![ended("1")]), by(json!([cpu(50)])), 4),
        case("succeeded", 2, mixed(pods(2, "cpu=200%"), vec![ended("0")]), by(json!([cpu(50)])), 8),
        case("going", 2, mixed(pods(2, "cpu=100%"), vec![terminating()]), by(json!([cpu(50)])), 4),
        case("nobody", 2, Vec::new(), by(json!([cpu(50)])), 2).inactive(),
        case("only-missing", 2, vec![unmeasured()], by(json!([cpu(50)])), 2).inactive(),
    ]
}

fn failing() -> Vec<Case> {
    let hot = |metrics: Value| (pods(2, "cpu=100%"), by(metrics));
    let cold = |metrics: Value| (pods(2, "cpu=10%"), lively(metrics));
    [
        ("some-fail-up", hot(json!([of_pods("packets"), cpu(50)])), 4, true),
        ("some-fail-down", cold(json!([cpu(50), of_pods("packets"), external(average("1"))])), 2, false),
        ("pods-fail", hot(json!([of_pods("packets")])), 2, false),
        ("external-fails", hot(json!([external(json!({"type": "Value", "value": "5"}))])), 2, false),
        ("external-average-fails", hot(json!([external(average("5"))])), 2, false),
        (
            "object-fails",
            hot(json!([of_object("Service", "v1", json!({"type": "Value", "value": "5"}))])),
            2,
            false,
        ),
        (
            "object-average-fails",
            hot(json!([of_object("Ingress", "networking.k8s.io/v1", average("5"))])),
            2,
            false,
        ),
        ("object-unknown", hot(json!([of_object("Gadget", "example.org/v1", average("5"))])), 2, false),
        (
            "all-fail",
            hot(json!([
                of_object("Service", "v1", average("5")),
                external(average("1")),
                of_pods("packets")
            ])),
            2,
            false,
        ),
    ]
    .map(|(name, (pods, spec), settles, active)| Case {
        active: Some(active),
        ..case(name, 2, pods, spec, settles)
    })
    .into()
}

/// Cases with targets that are no Widgets.
fn targets() -> Vec<Case> {
    let target =
        |kind: &str, version: &str, name: &str| json!({"kind": kind, "apiVersion": version, "name": name});
    vec![
        Case::at("no-deployment", target("Deployment", "apps/v1", "none"), 0, None),
        Case::at("no-kind", target("Gadget", "apps/v1", "none"), 0, None),
        Case::at("no-group", target("Deployment", "extensions/v1beta1", "workload"), 0, None),
        Case::at("no-version", target("Deployment", "apps/v1beta9", "none"), 0, None),
        Case::at("no-scale", target("Role", "rbac.authorization.k8s.io/v1", "none"), 0, None),
        Case::at("no-scale-of-daemons", target("DaemonSet", "apps/v1", "none"), 0, None),
        Case::at("no-widget", target("Widget", "example.com/v1", "none"), 0, None),
        Case::at(
            "replication-controller",
            target("ReplicationController", "v1", "controller"),
            10,
            Some(true),
        ),
        Case::at("replica-set", target("ReplicaSet", "apps/v1", "set"), 10, Some(true)),
        Case::at("stateful-set", target("StatefulSet", "apps/v1", "stateful"), 10, Some(true)),
        Case::at("deployment", target("Deployment", "apps/v1", "workload"), 4, Some(true)).within(1, 4),
        Case::at("other-version", target("Deployment", "apps/v1beta9", "other"), 3, Some(true)).within(3, 3),
        case("refused", 40, pods(10, "cpu=400%"), with(by(json!([cpu(50)])), "/maxReplicas", 100.into()), 40),
    ]
}

/// Returns real workloads whose pods use twice the target: path and object.
pub fn workloads() -> Vec<(String, Value)> {
    let labels = |name: &str| json!({"matchLabels": {"app": name}});
    [
        ("/api/v1", "replicationcontrollers", "controller", json!({"app": "controller"}), 10),
        ("/apis/apps/v1", "replicasets", "set", labels("set"), 10),
        ("/apis/apps/v1", "statefulsets", "stateful", labels("stateful"), 10),
        ("/apis/apps/v1", "deployments", "workload", labels("workload"), 10),
        ("/apis/apps/v1", "deployments", "other", labels("other"), 1),
    ]
    .map(|(version, resource, name, selector, replicas)| {
        let template = with(pod("cpu=100%"), "/metadata/labels", json!({"app": name}));
        let spec = json!({"replicas": replicas, "selector": selector, "template": template});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        (format!("{version}/namespaces/{NAMESPACE}/{resource}"), object)
    })
    .into()
}

/// Returns a definition of a kind with a scale of at most 60.
pub fn definition() -> Value {
    let replicas = json!({"type": "integer", "maximum": 60});
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": replicas}}, "status": status,
    }});
    let scale = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
    });
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": scale},
            }],
        },
    })
}
