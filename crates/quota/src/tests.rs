use serde_json::{Value, json};

use crate::{
    Amounts, Evaluator, Quota, QuotaChange, QuotaLookup, QuotaOperation, QuotaRefusal, Recount, check,
    counted,
};

/// Noon of a day in 2026.
const NOW: i64 = 1_780_000_000;

#[derive(Default)]
struct Objects {
    classes: Vec<Value>,
    pods: Vec<Value>,
    claims: Vec<Value>,
}

impl QuotaLookup for Objects {
    fn now(&self) -> i64 {
        NOW
    }
    fn device_classes(&self) -> Vec<Value> {
        self.classes.clone()
    }
    fn pod(&self, _namespace: &str, name: &str) -> Option<Value> {
        self.pods.iter().find(|pod| pod["metadata"]["name"] == name).cloned()
    }
    fn device_claims(&self, _namespace: &str) -> Vec<Value> {
        self.claims.clone()
    }
}

fn evaluator(resource: &str) -> Evaluator {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    Evaluator::of(group, resource).expect("a counted resource")
}

fn usage(resource: &str, object: &Value) -> String {
    evaluator(resource).usage(object, &Objects::default()).print()
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
}

#[test]
fn count_names() {
    let cases = [
        ("configmaps", "configmaps=1,count/configmaps=1"),
        ("secrets", "count/secrets=1,secrets=1"),
        ("replicationcontrollers", "count/replicationcontrollers=1,replicationcontrollers=1"),
        ("resourcequotas", "count/resourcequotas=1,resourcequotas=1"),
        ("serviceaccounts", "count/serviceaccounts=1"),
        ("deployments.apps", "count/deployments.apps=1"),
        ("widgets.example.com", "count/widgets.example.com=1"),
    ];
    for (resource, expected) in cases {
        assert_eq!(usage(resource, &json!({})), expected, "{resource}");
    }
    for (group, resource) in [("", "events"), ("events.k8s.io", "events"), ("", "bindings")] {
        assert_eq!(Evaluator::of(group, resource), None, "{group}/{resource}");
    }
}

#[test]
fn services_count_ports() {
    let service = |spec: Value| usage("services", &json!({"spec": spec}));
    let shown = |ports: usize, balancers: usize| {
        format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}")
    };
    let ports = json!([{"port": 80}, {"port": 81, "nodePort": 30000}]);
    assert_eq!(service(json!({"type": "ClusterIP", "ports": ports})), shown(0, 0));
    assert_eq!(service(json!({"type": "ExternalName"})), shown(0, 0));
    assert_eq!(service(json!({"type": "NodePort", "ports": ports})), shown(2, 0));
    assert_eq!(service(json!({"type": "LoadBalancer", "ports": ports})), shown(2, 1));
    let without = json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false});
    assert_eq!(service(without), shown(1, 1));
}

#[test]
fn claims_count_by_class() {
    let claim = |value: Value| usage("persistentvolumeclaims", &value);
    let spec = json!({"storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}}});
    assert_eq!(
        claim(json!({"spec": spec})),
        "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,requests.storage=2"
    );
    let grown = json!({
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "3Gi"}},
    });
    assert_eq!(claim(grown), "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=3Gi");
    let annotated = json!({
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        "spec": {"storageClassName": "gold"},
    });
    assert!(claim(annotated).contains("old.storageclass.storage.k8s.io/persistentvolumeclaims=1"));
}

#[test]
fn pod_usage_is_the_sum_of_containers() {
    let cpu = |amount: &str| json!({"cpu": amount});
    let sum = |spec: Value| usage("pods", &pod(spec));
    let two = json!({"containers": [
        container("a", json!({"cpu": "1", "memory": "50M", "example.com/dongle": "2"}), json!({"cpu": "2", "example.com/dongle": "2"})),
        container("b", json!({"cpu": "500m", "hugepages-2Mi": "4Mi"}), json!({"memory": "1Gi"})),
    ]});
    assert_eq!(
        sum(two),
        "count/pods=1,cpu=1500m,hugepages-2Mi=4Mi,limits.cpu=2,limits.memory=1Gi,memory=50M,pods=1,\
         requests.cpu=1500m,requests.example.com/dongle=2,requests.hugepages-2Mi=4Mi,requests.memory=50M"
    );
    // The higher of init containers and containers, with sidecars in both.
    let mut sidecar = container("s", cpu("2"), json!({}));
    sidecar["restartPolicy"] = json!("Always");
    let init = |containers: Value| {
        sum(json!({"initContainers": containers, "containers": [container("c", cpu("1"), json!({}))]}))
    };
    let shown = |cpu: &str| format!("count/pods=1,cpu={cpu},pods=1,requests.cpu={cpu}");
    assert_eq!(init(json!([container("i", cpu("5"), json!({}))])), shown("5"));
    assert_eq!(init(json!([sidecar])), shown("3"));
    assert_eq!(init(json!([sidecar, container("i", cpu("2"), json!({}))])), shown("4"));
    assert_eq!(init(json!([container("i", cpu("2"), json!({})), sidecar])), shown("3"));
    // Overhead is added, to limits only if there are any.
    let overhead = json!({
        "overhead": {"cpu": "1", "memory": "1Gi"},
        "containers": [container("c", cpu("1"), cpu("1"))],
    });
    assert_eq!(
        sum(overhead),
        "count/pods=1,cpu=2,limits.cpu=2,memory=1Gi,pods=1,requests.cpu=2,requests.memory=1Gi"
    );
    // Pod-level resources replace the sum.
    let whole = json!({
        "resources": {"requests": {"cpu": "7"}, "limits": {"memory": "2Gi"}},
        "containers": [container("c", cpu("1"), json!({"memory": "1Gi"}))],
    });
    assert_eq!(sum(whole), "count/pods=1,cpu=7,limits.memory=2Gi,pods=1,requests.cpu=7");
}

#[test]
fn a_resize_counts_as_the_higher_amount() {
    let resized = |wanted: &str, actual: &str, allocated: &str, reason: &str| {
        let mut pod =
            pod(json!({"containers": [container("c", json!({"cpu": wanted}), json!({"cpu": wanted}))]}));
        pod["status"] = json!({
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            "containerStatuses": [{
                "name": "c", "allocatedResources": {"cpu": allocated},
                "resources": {"requests": {"cpu": actual}, "limits": {"cpu": actual}},
            }],
        });
        usage("pods", &pod)
    };
    let shown = |request: &str, limit: &str| {
        format!("count/pods=1,cpu={request},limits.cpu={limit},pods=1,requests.cpu={request}")
    };
    assert_eq!(resized("3", "1", "2", "Deferred"), shown("3", "3"));
    assert_eq!(resized("3", "1", "2", "Infeasible"), shown("2", "1"));
    assert_eq!(resized("1", "3", "2", "Deferred"), shown("3", "3"));
}

#[test]
fn finished_pods_count_only_as_objects() {
    let alive = "count/pods=1,pods=1";
    let phase = |phase: &str| usage("pods", &json!({"spec": {}, "status": {"phase": phase}}));
    assert_eq!(phase("Running"), alive);
    assert_eq!(phase("Failed"), "count/pods=1");
    assert_eq!(phase("Succeeded"), "count/pods=1");
    let terminating = |seconds: i64| {
        let time = atoll_meta::time::format(NOW + seconds);
        usage("pods", &json!({"metadata": {"deletionTimestamp": time, "deletionGracePeriodSeconds": 30}}))
    };
    assert_eq!(terminating(-30), alive);
    assert_eq!(terminating(-31), "count/pods=1");
}

#[test]
fn devices_are_counted_once_by_class() {
    let claim = |requests: Value| {
        json!({
            "metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {"requests": requests}}
        })
    };
    let exact = |class: &str, count: i64| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    let objects = Objects {
        classes: vec![
            json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}),
        ],
        ..Objects::default()
    };
    let evaluator = evaluator("resourceclaims.resource.k8s.io");
    let usage = |claim: &Value, objects: &Objects| evaluator.usage(claim, objects).print();
    let two = claim(json!([{"name": "a", "exactly": exact("gpu", 2)}]));
    assert_eq!(
        usage(&two, &objects),
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=2,\
         requests.deviceclass.resource.kubernetes.io/gpu=2,requests.example.com/gpu=2"
    );
    let all = json!({"deviceClassName": "nic", "allocationMode": "All"});
    let first = json!([exact("gpu", 3), exact("gpu", 1), all]);
    assert_eq!(
        usage(&claim(json!([{"name": "a", "firstAvailable": first}])), &Objects::default()),
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=3,\
         nic.deviceclass.resource.k8s.io/devices=32,requests.deviceclass.resource.kubernetes.io/gpu=3,\
         requests.deviceclass.resource.kubernetes.io/nic=32"
    );
    // A claim for extended resources is counted only as far as its pod is not.
    let mut made = two;
    made["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    made["metadata"]["ownerReferences"] = json!([owner]);
    let asks = json!({"example.com/gpu": "1"});
    let mut requesting = pod(json!({"containers": [container("c", asks.clone(), asks)]}));
    requesting["metadata"]["uid"] = json!("u");
    let objects = Objects { pods: vec![requesting], ..objects };
    assert_eq!(
        usage(&made, &objects),
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=2,\
         requests.deviceclass.resource.kubernetes.io/gpu=2,requests.example.com/gpu=1"
    );
    let names = ["requests.example.com/gpu", "requests.example.com/other", "pods"];
    assert_eq!(evaluator.matching(names.into_iter(), &objects), ["requests.example.com/gpu"]);
}

fn quota(spec: Value, used: Value) -> Quota {
    let mut quota = json!({"metadata": {"name": "q"}, "spec": spec});
    quota["status"] = json!({"hard": quota["spec"]["hard"], "used": used});
    Quota::read(&quota)
}

fn create(resource: &str, quotas: &[Quota], object: &Value) -> Result<Vec<String>, QuotaRefusal> {
    let change = QuotaChange { operation: QuotaOperation::Create, subresource: "", new: object, old: None };
    check(&evaluator(resource), quotas, &change, &Objects::default())
        .map(|added| added.iter().map(Amounts::print).collect())
}

fn refused(message: &str) -> Result<Vec<String>, QuotaRefusal> {
    Err(QuotaRefusal::Forbidden(message.into()))
}

fn adds(added: &[&str]) -> Result<Vec<String>, QuotaRefusal> {
    Ok(added.iter().map(ToString::to_string).collect())
}

#[test]
fn limits_are_enforced() {
    let hard = json!({"hard": {"pods": "2", "requests.cpu": "1", "configmaps": "1"}});
    let requesting = |cpu: &str| pod(json!({"containers": [container("c", json!({"cpu": cpu}), json!({}))]}));
    let of = |used: Value| vec![quota(hard.clone(), used)];
    let free = of(json!({"pods": "1", "requests.cpu": "500m"}));
    assert_eq!(create("pods", &free, &requesting("500m")), adds(&["pods=1,requests.cpu=500m"]));
    assert_eq!(
        create("pods", &free, &requesting("501m")),
        refused(
            "exceeded quota: q, requested: requests.cpu=501m, used: requests.cpu=500m, limited: requests.cpu=1"
        )
    );
    let full = of(json!({"pods": "2", "requests.cpu": "1"}));
    assert_eq!(
        create("pods", &full, &requesting("1")),
        refused(
            "exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=2,requests.cpu=1, \
             limited: pods=2,requests.cpu=1"
        )
    );
    assert_eq!(
        create("pods", &of(json!({"pods": "2"})), &requesting("1")),
        refused("status unknown for quota: q, resources: pods,requests.cpu")
    );
    assert_eq!(create("configmaps", &of(json!({"configmaps": "0"})), &json!({})), adds(&["configmaps=1"]));
    assert_eq!(create("secrets", &full, &json!({})), adds(&[""]), "no quota counts these");
}

#[test]
fn containers_must_specify_counted_resources() {
    let quotas = [quota(
        json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "9", "requests.ephemeral-storage": "1"}}),
        json!({"requests.cpu": "0", "limits.memory": "0", "pods": "0", "requests.ephemeral-storage": "0"}),
    )];
    let silent = pod(json!({
        "containers": [container("b", json!({"cpu": "1m"}), json!({})), container("a", json!({}), json!({}))],
        "initContainers": [container("i", json!({}), json!({"memory": "1"}))],
    }));
    assert_eq!(
        create("pods", &quotas, &silent),
        refused("failed quota: q: must specify limits.memory for: a,b; requests.cpu for: a,i")
    );
    let mut whole = silent;
    whole["spec"]["resources"] = json!({"limits": {"memory": "1Mi"}});
    assert!(create("pods", &quotas, &whole).is_ok(), "a Pod may speak for its containers");
}

#[test]
fn scopes_select_pods() {
    let scoped = |scope: Value| {
        let spec = match scope.is_string() {
            true => json!({"hard": {"pods": "5"}, "scopes": [scope]}),
            false => json!({"hard": {"pods": "5"}, "scopeSelector": {"matchExpressions": [scope]}}),
        };
        [quota(spec, json!({"pods": "0"}))]
    };
    let plain = pod(json!({"containers": [container("c", json!({}), json!({}))]}));
    let requesting = pod(json!({"containers": [container("c", json!({"cpu": "1"}), json!({}))]}));
    let limited = pod(json!({"activeDeadlineSeconds": 5}));
    let urgent = pod(json!({"priorityClassName": "high"}));
    let affinity = |term: Value| {
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        pod(json!({"affinity": {"podAntiAffinity": terms}}))
    };
    let crossing = affinity(json!({"namespaceSelector": {}}));
    let staying = affinity(json!({"topologyKey": "k"}));
    let priority = |operator: &str, values: Value| json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
    let cases: [(Value, &Value, bool); 18] = [
        (json!("Terminating"), &limited, true),
        (json!("Terminating"), &plain, false),
        (json!("NotTerminating"), &limited, false),
        (json!("NotTerminating"), &plain, true),
        (json!("BestEffort"), &plain, true),
        (json!("BestEffort"), &requesting, false),
        (json!("NotBestEffort"), &requesting, true),
        (json!("NotBestEffort"), &plain, false),
        (json!("PriorityClass"), &urgent, true),
        (json!("PriorityClass"), &plain, false),
        (priority("In", json!(["high", "low"])), &urgent, true),
        (priority("In", json!(["low"])), &urgent, false),
        (priority("NotIn", json!(["high"])), &urgent, false),
        (priority("NotIn", json!(["high"])), &plain, true),
        (priority("DoesNotExist", json!([])), &plain, true),
        (priority("DoesNotExist", json!([])), &urgent, false),
        (json!("CrossNamespacePodAffinity"), &crossing, true),
        (json!("CrossNamespacePodAffinity"), &staying, false),
    ];
    for (scope, pod, counted) in cases {
        let expected = if counted { "pods=1" } else { "" };
        assert_eq!(create("pods", &scoped(scope.clone()), pod), adds(&[expected]), "{scope} {pod}");
    }
    assert_eq!(
        create("pods", &scoped(priority("In", json!(["a b"]))), &urgent),
        Err(QuotaRefusal::Internal(
            "error matching scopes of quota q, err: error on matching scope {PriorityClass In [a b]}: failed to \
             parse and convert selector: values[0][PriorityClass]: Invalid value: \"a b\": a valid label must be an \
             empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .into()
        ))
    );
}

#[test]
fn scopes_select_volumes_by_attributes_class() {
    let quotas = |operator: &str, values: Value| {
        let scope = json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": values});
        let spec =
            json!({"hard": {"persistentvolumeclaims": "5"}, "scopeSelector": {"matchExpressions": [scope]}});
        [quota(spec, json!({"persistentvolumeclaims": "0"}))]
    };
    let plain = json!({"spec": {}});
    let fast = json!({"spec": {"volumeAttributesClassName": "fast"}});
    let changing = json!({"spec": {"volumeAttributesClassName": "slow"}, "status": {"currentVolumeAttributesClassName": "fast"}});
    for (operator, values, claim, counted) in [
        ("Exists", json!([]), &plain, false),
        ("Exists", json!([]), &fast, true),
        ("In", json!(["fast"]), &fast, true),
        ("In", json!(["fast"]), &changing, true),
        ("In", json!(["other"]), &changing, false),
        ("DoesNotExist", json!([]), &plain, true),
    ] {
        let expected = if counted { "persistentvolumeclaims=1" } else { "" };
        let created = create("persistentvolumeclaims", &quotas(operator, values), claim);
        assert_eq!(created, adds(&[expected]), "{operator} {claim}");
    }
}

#[test]
fn updates_add_the_increase() {
    let quotas = [quota(
        json!({"hard": {"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"}}),
        json!({"services": "1", "services.nodeports": "1", "services.loadbalancers": "0"}),
    )];
    let service =
        |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({"port": 1}); ports]}});
    let update = |old: &Value, new: &Value| {
        let change = QuotaChange { operation: QuotaOperation::Update, subresource: "", new, old: Some(old) };
        check(&evaluator("services"), &quotas, &change, &Objects::default())
            .map(|added| added.iter().map(Amounts::print).collect::<Vec<_>>())
    };
    assert_eq!(update(&service("NodePort", 1), &service("NodePort", 1)), adds(&[""]));
    assert_eq!(update(&service("NodePort", 1), &service("NodePort", 2)), adds(&["services.nodeports=1"]));
    assert_eq!(update(&service("NodePort", 3), &service("ClusterIP", 3)), adds(&[""]));
    assert_eq!(
        update(&service("NodePort", 1), &service("LoadBalancer", 3)),
        refused(
            "exceeded quota: q, requested: services.loadbalancers=1,services.nodeports=2, used: \
             services.loadbalancers=0,services.nodeports=1, limited: services.loadbalancers=0,services.nodeports=2"
        )
    );
}

#[test]
fn an_update_into_a_scope_adds_the_whole_usage() {
    let spec = json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]});
    let quotas = [quota(spec, json!({"pods": "1"}))];
    let (old, new) = (pod(json!({})), pod(json!({"activeDeadlineSeconds": 5})));
    let evaluator = evaluator("pods");
    assert!(evaluator.handles(QuotaOperation::Update, "", &new, Some(&old)));
    assert!(!evaluator.handles(QuotaOperation::Update, "", &new, Some(&new)));
    let change =
        QuotaChange { operation: QuotaOperation::Update, subresource: "", new: &new, old: Some(&old) };
    assert_eq!(
        check(&evaluator, &quotas, &change, &Objects::default()),
        Err(QuotaRefusal::Forbidden(
            "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1".into()
        ))
    );
}

#[test]
fn recounts_sum_all_objects() {
    let quota = Quota::read(&json!({
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "5", "requests.cpu": "4", "configmaps": "9", "count/gone.example.com": "1"}},
        "status": {"hard": {"pods": "1", "secrets": "1"}, "used": {"pods": "7", "secrets": "1", "count/gone.example.com": "1"}},
    }));
    let objects = Objects::default();
    let resources =
        [("", "pods"), ("", "configmaps"), ("", "secrets"), ("apps", "deployments"), ("", "events")];
    let found = counted(&quota, resources.into_iter(), &objects);
    assert_eq!(found.iter().map(Evaluator::resource).collect::<Vec<_>>(), [("", "pods"), ("", "configmaps")]);
    let running = pod(json!({"containers": [container("c", json!({"cpu": "250m"}), json!({}))]}));
    let mut finished = running.clone();
    finished["status"] = json!({"phase": "Succeeded"});
    let mut count = Recount::new(&quota, &objects);
    count.add(&evaluator("pods"), [&running, &finished].into_iter());
    count.add(&evaluator("pods"), [&running].into_iter());
    count.add(&evaluator("configmaps"), std::iter::empty());
    let used = count.finish();
    assert_eq!(used.print(), "configmaps=0,count/gone.example.com=1,pods=2,requests.cpu=500m");
}
