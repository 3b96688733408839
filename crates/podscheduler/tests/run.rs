//! Runs the scheduler against Atoll, and against a real kube-apiserver if Go is available.

use std::sync::Arc;

use atoll_client::Client as Api;
use atoll_client::https::Https;
use atoll_informer::{ApiScope, Informers, SystemClock, Tree};
use atoll_podscheduler::{SchedulerOptions, run};
use atoll_testkit::wait::Waiting;
use atoll_testkit::{Atoll, Client, Upstream};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Starts Atoll without the controllers that would evict Pods from nodes without a kubelet, and without the one
/// that binds volumes: the tests act in its place.
fn atoll() -> Atoll {
    Atoll::start_with(&[
        "--controllers=*,-nodelifecycle,-taint-eviction-controller,-persistentvolume-binder-controller",
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_at_atoll() {
    let atoll = atoll();
    everything(atoll.admin()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_at_kube_apiserver() {
    let flags = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition";
    let Some(upstream) = Upstream::start(&["--", flags]) else { return };
    everything(upstream.admin()).await;
}

/// Nodes are used only by the Pods of their workspace.
#[tokio::test(flavor = "multi_thread")]
async fn workspaces_have_nodes_of_their_own() {
    let atoll = atoll();
    let client = atoll.admin();
    let tree = Arc::new(Tree::default());
    let clusters =
        ["left", "right"].map(|name| (name, Cluster { client: client.workspace(&format!("root:{name}")) }));
    let root = Cluster { client };
    for (name, _) in &clusters {
        let workspace =
            json!({"apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        let workspace = root.create("/apis/atoll.dev/v1alpha1/workspaces", workspace).await;
        tree.insert(workspace["status"]["id"].as_str().expect("an id"), "root", name);
    }
    let api = ApiScope::all_workspaces(api(&root.client), tree);
    let scheduler =
        tokio::spawn(run(Informers::new(api), Arc::new(SystemClock), SchedulerOptions::default()));
    for (name, cluster) in &clusters {
        cluster.pod("early", "1", json!({})).await;
        cluster.node(&format!("of-{name}"), "2").await;
        cluster.pod("late", "1", json!({})).await;
        cluster.pod("more", "1", json!({})).await;
    }
    for (name, cluster) in &clusters {
        let waiting = Waiting::until("two of three Pods have a node");
        loop {
            let pods = cluster.get("/api/v1/namespaces/default/pods").await;
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            let bound: Vec<&Value> = pods.iter().filter(|pod| is_bound(pod)).collect();
            assert!(bound.iter().all(|pod| pod["spec"]["nodeName"] == format!("of-{name}")), "{bound:?}");
            assert!(bound.len() < 3, "only two fit");
            let refused = |pod: &&Value| {
                scheduled(pod)["message"].to_string().contains("0/1 nodes are available: 1 Insufficient cpu.")
            };
            if bound.len() == 2 && pods.iter().any(|pod| !is_bound(pod) && refused(&pod)) {
                break;
            }
            waiting.again().await;
        }
    }
    scheduler.abort();
}

fn api(user: &Client) -> Api {
    Api::new(Arc::new(Https::new(user.endpoint()).expect("a transport")))
}

async fn everything(client: Client) {
    let informers = Informers::new(ApiScope::single(api(&client)));
    let scheduler: JoinHandle<()> =
        tokio::spawn(run(informers, Arc::new(SystemClock), SchedulerOptions::default()));
    let cluster = Cluster { client };
    many_pods(&cluster).await;
    waiting_for_a_node(&cluster).await;
    others(&cluster).await;
    sending_others_away(&cluster).await;
    volumes(&cluster).await;
    scheduler.abort();
}

/// A server, or a workspace of one.
struct Cluster {
    client: Client,
}

impl Cluster {
    async fn create(&self, path: &str, object: Value) -> Value {
        // The ServiceAccount of a namespace may not exist yet.
        let waiting = Waiting::until("it can be created");
        loop {
            let answer = self.client.post(path, &object).await;
            match answer.status {
                201 => return answer.json(),
                403 | 404 => waiting.again().await,
                _ => panic!("{path}: {}", answer.text()),
            }
        }
    }

    async fn node(&self, name: &str, cpu: &str) {
        let allocatable = json!({"cpu": cpu, "memory": "8Gi", "pods": "200"});
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        });
        let created = self.create("/api/v1/nodes", node).await;
        // A new node has a not-ready taint until it is removed.
        if !created["spec"]["taints"].is_null() {
            let patch = json!({"spec": {"taints": null}});
            self.client.merge(&format!("/api/v1/nodes/{name}"), patch).await.expect(200);
        }
    }

    async fn pod(&self, name: &str, cpu: &str, special: Value) {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        for (field, value) in special.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        self.create("/api/v1/namespaces/default/pods", pod).await;
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get(path).await.json()
    }

    /// Waits until a Pod satisfies a predicate.
    async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let waiting = Waiting::until(what);
        loop {
            let pod = self.get(&format!("/api/v1/namespaces/default/pods/{name}")).await;
            if wanted(&pod) {
                return pod;
            }
            waiting.again().await;
        }
    }

    async fn event(&self, name: &str, reason: &str) -> Value {
        let waiting = Waiting::until("there is an event");
        loop {
            let events = self.get("/api/v1/namespaces/default/events?limit=1000").await;
            let mut events = events["items"].as_array().cloned().unwrap_or_default().into_iter();
            let found =
                events.find(|event| event["involvedObject"]["name"] == name && event["reason"] == reason);
            if let Some(event) = found {
                return event;
            }
            waiting.again().await;
        }
    }

    async fn delete_pod(&self, name: &str) {
        let path = format!("/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0");
        self.client.delete(&path).await.expect(200);
    }
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

/// Returns the PodScheduled condition of a Pod.
fn scheduled(pod: &Value) -> Value {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == "PodScheduled").cloned().unwrap_or_default()
}

async fn many_pods(cluster: &Cluster) {
    for name in ["one", "two"] {
        cluster.node(name, "4").await;
    }
    for number in 0..40 {
        cluster.pod(&format!("p{number}"), "100m", json!({})).await;
    }
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..40 {
        let pod = cluster.until(&format!("p{number}"), "all Pods have nodes", is_bound).await;
        *counts.entry(pod["spec"]["nodeName"].to_string()).or_insert(0) += 1;
        assert_eq!(scheduled(&pod)["status"], "True");
    }
    assert_eq!(counts.values().copied().collect::<Vec<i32>>(), [20, 20], "evenly distributed");
    let event = cluster.event("p0", "Scheduled").await;
    let pod = cluster.get("/api/v1/namespaces/default/pods/p0").await;
    let node = pod["spec"]["nodeName"].as_str().expect("a node");
    assert_eq!(event["message"], format!("Successfully assigned default/p0 to {node}"));
    assert_eq!((&event["type"], &event["action"]), (&json!("Normal"), &json!("Binding")));
    assert_eq!(event["reportingComponent"], "default-scheduler");
    for number in 0..40 {
        cluster.delete_pod(&format!("p{number}")).await;
    }
}

async fn waiting_for_a_node(cluster: &Cluster) {
    cluster.pod("large", "6", json!({})).await;
    let pod =
        cluster.until("large", "the Pod is unschedulable", |pod| scheduled(pod)["status"] == "False").await;
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
                   0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(scheduled(&pod)["reason"], "Unschedulable");
    assert_eq!(scheduled(&pod)["message"], message);
    let event = cluster.event("large", "FailedScheduling").await;
    assert_eq!((&event["type"], &event["message"]), (&json!("Warning"), &json!(message)));
    cluster.node("three", "6").await;
    let pod = cluster.until("large", "there is room", is_bound).await;
    assert_eq!(pod["spec"]["nodeName"], "three");
    cluster.delete_pod("large").await;
}

async fn others(cluster: &Cluster) {
    cluster.pod("others", "100m", json!({"schedulerName": "another"})).await;
    cluster.pod("gated", "100m", json!({"schedulingGates": [{"name": "example.com/gate"}]})).await;
    cluster.pod("ours", "100m", json!({})).await;
    cluster.until("ours", "the Pod is bound", is_bound).await;
    for name in ["others", "gated"] {
        let pod = cluster.get(&format!("/api/v1/namespaces/default/pods/{name}")).await;
        assert!(!is_bound(&pod), "{name}");
    }
    let path = "/api/v1/namespaces/default/pods/gated";
    let patch = json!({"spec": {"schedulingGates": null}});
    cluster.client.merge(path, patch).await.expect(200);
    cluster.until("gated", "the gate is removed", is_bound).await;
    for name in ["others", "gated", "ours"] {
        cluster.delete_pod(name).await;
    }
}

async fn sending_others_away(cluster: &Cluster) {
    let class = json!({"metadata": {"name": "important"}, "value": 1000});
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    for (name, cpu) in [("low", "6"), ("mid", "4"), ("end", "4")] {
        cluster.pod(name, cpu, json!({})).await;
        cluster.until(name, "the Pod is bound", is_bound).await;
    }
    cluster.pod("high", "5", json!({"priorityClassName": "important"})).await;
    let pod = cluster
        .until("high", "a node is nominated", |pod| !pod["status"]["nominatedNodeName"].is_null())
        .await;
    assert_eq!(pod["status"]["nominatedNodeName"], "three");
    assert_eq!(scheduled(&pod)["message"], "0/3 nodes are available: 3 Insufficient cpu.");
    let victim = cluster
        .until("low", "the victim is deleted", |pod| !pod["metadata"]["deletionTimestamp"].is_null())
        .await;
    let mut conditions = victim["status"]["conditions"].as_array().into_iter().flatten();
    let target = conditions.find(|condition| condition["type"] == "DisruptionTarget").expect("a condition");
    assert_eq!(target["reason"], "PreemptionByScheduler");
    assert_eq!(target["message"], "default-scheduler: preempting to accommodate a higher priority pod");
    let event = cluster.event("low", "Preempted").await;
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    assert_eq!(event["message"], format!("Preempted by pod {uid} on node three"));
    // There is no kubelet that would finish the deletion.
    cluster.delete_pod("low").await;
    let pod = cluster.until("high", "the Pod is bound", is_bound).await;
    assert_eq!(pod["spec"]["nodeName"], "three");
    for name in ["mid", "end", "high"] {
        cluster.delete_pod(name).await;
    }
}

async fn volumes(cluster: &Cluster) {
    let class = json!({
        "metadata": {"name": "later"}, "provisioner": "example.com/made", "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    let user = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    cluster.pod("user", "5", user).await;
    let pod =
        cluster.until("user", "the Pod is unschedulable", |pod| scheduled(pod)["status"] == "False").await;
    let message = "0/3 nodes are available: persistentvolumeclaim \"data\" not found. not found";
    assert_eq!(scheduled(&pod)["message"], message);
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "later", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    cluster.create(claims, claim).await;
    let waiting = Waiting::until("a node is selected");
    let path = format!("{claims}/data");
    while cluster.get(&path).await["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] != "three"
    {
        waiting.again().await;
    }
    // Act as the provisioner and the volume controller.
    let claim = cluster.get(&path).await;
    let volume = json!({
        "metadata": {"name": "made"},
        "spec": {
            "storageClassName": "later", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/tmp"},
            "claimRef": {"namespace": "default", "name": "data", "uid": claim["metadata"]["uid"]},
        },
    });
    cluster.create("/api/v1/persistentvolumes", volume).await;
    let pod = cluster.get("/api/v1/namespaces/default/pods/user").await;
    assert!(!is_bound(&pod), "the Pod waits for its volume");
    let bound = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "made"},
    });
    cluster.client.merge(&path, bound).await.expect(200);
    let pod = cluster.until("user", "the volume is bound", is_bound).await;
    assert_eq!(pod["spec"]["nodeName"], "three");
}
