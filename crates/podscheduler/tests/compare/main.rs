//! Compares decisions with the real kube-scheduler on random clusters: each Pod must get one of the nodes
//! with the highest score, or no node with the same message, or the same victims must be preempted.
//!
//! `SCHEDULER_ROUNDS` is the number of clusters, `ATOLL_SEED` their seed.

mod random_cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_podscheduler::{Compiler, Node, NodeIndex};
use atoll_testkit::wait::Waiting;
use atoll_testkit::{Client, Upstream};
use random_cluster::{Cluster, Random};
use serde_json::{Value, json};

/// How long the two may disagree about a Pod: kube-scheduler may not have observed all of a cluster yet.
const PATIENCE: Duration = Duration::from_secs(20);
/// Attempts per cluster after a disagreement.
const TRIES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_where_kube_scheduler_sends_them() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (seed, rounds) = (number("ATOLL_SEED", 7), number("SCHEDULER_ROUNDS", 25));
    // No controllers run that would set up ServiceAccounts, remove taints, or remove finalizers of claims.
    let flags =
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection";
    let Some(upstream) = Upstream::start(&["--scheduler", "--", flags]) else { return };
    let client = upstream.admin().keep_alive();
    prepare(&client).await;
    println!("ATOLL_SEED={seed} SCHEDULER_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..rounds {
        let mut disagreements = Vec::new();
        let agreed = loop {
            // Retry the same cluster with other names, so that chance failures do not repeat.
            let mut again = random.clone();
            let cluster = Cluster::random(&mut again, round + 1_000_000 * disagreements.len() as u64);
            match play(&client, &cluster).await {
                Ok(agreed) => {
                    random = again;
                    break agreed;
                }
                Err(disagreement) => disagreements.push(disagreement),
            }
            assert!(disagreements.len() < TRIES, "round {round}:\n{}", disagreements.join("\n\n"));
        };
        for outcome in agreed {
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    println!("{outcomes:?}");
}

/// Returns the outcomes of the Pods of one cluster, if both agree.
async fn play(client: &Client, cluster: &Cluster) -> Result<Vec<&'static str>, String> {
    let mut both = Both::begin(client, cluster).await;
    let mut outcomes = Vec::new();
    let mut result = both.compare(&cluster.probe).await.map(drop);
    for pod in &cluster.pending {
        if result.is_err() {
            break;
        }
        match both.compare(pod).await {
            Ok(outcome) => {
                outcomes.push(outcome);
                // Further Pods would depend on the pending preemption.
                if matches!(
                    outcome,
                    "preempting" | "with a volume that is made" | "with a volume that was there"
                ) {
                    break;
                }
            }
            Err(disagreement) => result = Err(disagreement),
        }
    }
    both.end().await;
    result.map(|()| outcomes)
}

async fn prepare(client: &Client) {
    for (namespace, team) in [("left", "x"), ("right", "y")] {
        let object = json!({"metadata": {"name": namespace, "labels": {"team": team}}});
        create(client, "/api/v1/namespaces", &object).await;
    }
    for class in classes() {
        create(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
    }
    for (name, value) in [("low", -10), ("high", 1000)] {
        let object = json!({"metadata": {"name": name}, "value": value});
        create(client, "/apis/scheduling.k8s.io/v1/priorityclasses", &object).await;
    }
}

fn classes() -> [Value; 3] {
    let class = |name: &str, provisioner: &str, places: Value| {
        json!({
            "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": places,
        })
    };
    let there =
        json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z1", "z2"]}]}]);
    [
        class("made", "example.com/made", json!([])),
        class("made-there", "example.com/made", there),
        class("found", "kubernetes.io/no-provisioner", json!([])),
    ]
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    let answer = client.post(path, object).await;
    assert_eq!(answer.status, 201, "{path}: {}\n{object:#}", answer.text());
    answer.json()
}

fn path_of(kind: &str, object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let base = match kind {
        "replicasets" => "/apis/apps/v1",
        "poddisruptionbudgets" => "/apis/policy/v1",
        _ => "/api/v1",
    };
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{kind}/{name}"),
        None => format!("{base}/{kind}/{name}"),
    }
}

fn collection_of(kind: &str, object: &Value) -> String {
    let path = path_of(kind, object);
    path.rsplit_once('/').map(|(collection, _)| collection.to_owned()).unwrap_or_default()
}

/// One cluster in kube-apiserver and in this scheduler.
struct Both<'a> {
    client: &'a Client,
    node_index: NodeIndex,
    compiler: Compiler,
    /// Existing objects by kind.
    created: Vec<(&'static str, Value)>,
}

/// Decision of kube-scheduler about a Pod.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    node: Option<String>,
    message: Option<String>,
    nominated: Option<String>,
    /// Node selected for the provisioning of a volume.
    selected: Option<String>,
    /// Volume that the Pod's claim is bound to.
    given: Option<String>,
}

impl<'a> Both<'a> {
    async fn begin(client: &'a Client, cluster: &Cluster) -> Self {
        let mut both = Both {
            client,
            node_index: NodeIndex::default(),
            compiler: Compiler::default(),
            created: Vec::new(),
        };
        for class in classes() {
            both.node_index.storage.set_class(&class);
        }
        let namespaces = client.get("/api/v1/namespaces").await.json();
        for namespace in namespaces["items"].as_array().into_iter().flatten() {
            both.node_index.set_namespace(namespace);
        }
        for (kind, object) in &cluster.objects {
            let mut object = create(client, &collection_of(kind, object), object).await;
            match *kind {
                "pods" => object = both.started(&object).await,
                // No controller sets the phase.
                "persistentvolumes" => {
                    let phase = if object["spec"]["claimRef"].is_null() { "Available" } else { "Bound" };
                    object = both.say(kind, &object, &json!({"phase": phase})).await;
                }
                "poddisruptionbudgets" => {
                    let allowed = both.created.len() % 2;
                    let status = json!({"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
                        "expectedPods": 1, "observedGeneration": 1});
                    object = both.say(kind, &object, &status).await;
                }
                _ => {}
            }
            match *kind {
                "nodes" => both.node_index.set_node(Node::of(&object)),
                "pods" => both.node_index.set_pod(Arc::new(both.compiler.compile(&object))),
                "poddisruptionbudgets" => both.node_index.budgets.set(&object),
                "replicasets" => both.node_index.workloads.set_workload("ReplicaSet", &object),
                "services" => both.node_index.workloads.set_service(&object),
                "persistentvolumes" => both.node_index.storage.set_volume(&object),
                "persistentvolumeclaims" => both.node_index.storage.set_claim(&object),
                other => panic!("{other}"),
            }
            both.created.push((kind, object));
        }
        both
    }

    /// Compares the decisions about a Pod until they agree.
    async fn compare(&mut self, pod: &Value) -> Result<&'static str, String> {
        let mut disagreement = String::new();
        let begin = Instant::now();
        while disagreement.is_empty() || begin.elapsed() < PATIENCE {
            let object = create(self.client, &collection_of("pods", pod), pod).await;
            let verdict = self.verdict(&object).await;
            match self.check(&object, &verdict).await {
                Ok(outcome) => {
                    self.keep(object, &verdict).await;
                    return Ok(outcome);
                }
                Err(message) => disagreement = message,
            }
            self.delete("pods", &object).await;
            self.take_back(&object, &verdict).await;
            // Wait until kube-scheduler has observed everything.
            Waiting::until("kube-scheduler has caught up").again().await;
        }
        let objects = self.created.iter().map(|(kind, object)| {
            format!(
                "{kind} {} {} {}",
                object["metadata"]["name"], object["metadata"]["labels"], object["spec"]
            )
        });
        Err(format!("{disagreement}\npod: {pod}\n{}", objects.collect::<Vec<_>>().join("\n")))
    }

    /// Waits for the decision of kube-scheduler.
    async fn verdict(&self, pod: &Value) -> Verdict {
        let waiting = Waiting::until("kube-scheduler has decided");
        loop {
            let now = self.client.get(&path_of("pods", pod)).await.json();
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let mut conditions = now["status"]["conditions"].as_array().into_iter().flatten();
            let refused = conditions
                .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
            let verdict = Verdict {
                node: text(&now["spec"]["nodeName"]),
                message: refused.and_then(|condition| text(&condition["message"])),
                nominated: text(&now["status"]["nominatedNodeName"]),
                ..Verdict::default()
            };
            if verdict.node.is_some() || verdict.message.is_some() {
                return verdict;
            }
            if let Some(verdict) = self.waits_for_volume(pod).await {
                return verdict;
            }
            waiting.again().await;
        }
    }

    /// Reverts a claim that was being bound.
    async fn take_back(&self, pod: &Value, verdict: &Verdict) {
        let none = json!({"metadata": {"annotations": null}, "spec": {"claimRef": null}});
        if let Some(volume) = &verdict.given {
            let path = format!("/api/v1/persistentvolumes/{volume}");
            self.client.merge(&path, &none).await;
        }
        if verdict.selected.is_some() {
            let claim =
                pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default();
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}");
            let none = json!({"metadata": {"annotations": null}});
            self.client.merge(&path, &none).await;
        }
    }

    /// Returns the node that a Pod gets when its volume is provisioned, or the volume that its claim is bound
    /// to.
    async fn waits_for_volume(&self, pod: &Value) -> Option<Verdict> {
        let claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str()?;
        let namespace = pod["metadata"]["namespace"].as_str()?;
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}");
        let claim = self.client.get(&path).await.json();
        let node = claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str();
        if let Some(node) = node {
            return Some(Verdict { selected: Some(node.to_owned()), ..Verdict::default() });
        }
        let volumes = self.client.get("/api/v1/persistentvolumes").await.json();
        let given = volumes["items"].as_array()?.iter().find(|volume| {
            let uid = &volume["spec"]["claimRef"]["uid"];
            !uid.is_null() && *uid == claim["metadata"]["uid"]
        });
        let given = given?["metadata"]["name"].as_str()?.to_owned();
        Some(Verdict { given: Some(given), ..Verdict::default() })
    }

    async fn check(&mut self, object: &Value, verdict: &Verdict) -> Result<&'static str, String> {
        let pod = self.compiler.compile(object);
        let mut random = Random::new(1);
        let ours = self.node_index.choose(&pod, &mut || random.next());
        match ours {
            Ok(_) => {
                let ranking = self.node_index.rank(&pod);
                let most = ranking.iter().map(|(_, points)| *points).max();
                if let Some(given) = &verdict.given {
                    let mut best = ranking.iter().filter(|(_, points)| Some(*points) == most);
                    let is_given = |node: &str| {
                        let bindings = self.node_index.bindings_at(&pod, node);
                        bindings.static_bindings.iter().any(|(_, volume)| **volume == **given)
                    };
                    return match best.any(|(node, _)| is_given(node)) {
                        true => Ok("with a volume that was there"),
                        false => Err(format!("theirs: {verdict:?}\nours: {ranking:?}")),
                    };
                }
                let node = verdict.node.as_deref().or(verdict.selected.as_deref());
                let theirs = ranking.iter().find(|(own, _)| Some(&**own) == node);
                if verdict.selected.is_some() && theirs.map(|(_, points)| *points) == most {
                    return Ok("with a volume that is made");
                }
                if theirs.map(|(_, points)| *points) == most {
                    return Ok(if ranking.len() == 1 { "the only node" } else { "one of the best nodes" });
                }
                Err(format!("theirs: {verdict:?}\nours: {ranking:?}"))
            }
            Err(refusal) => {
                if verdict.message.as_ref() != Some(&refusal.message) {
                    return Err(format!("theirs: {verdict:?}\nours: {refusal:?}"));
                }
                if refusal.preemption.is_none() && verdict.nominated.is_none() {
                    return Ok("nowhere");
                }
                let mut possible: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
                for seed in 0..100 {
                    let mut random = Random::new(seed);
                    let refusal = self.node_index.choose(&pod, &mut || random.next());
                    let preemption = refusal.err().and_then(|refusal| refusal.preemption);
                    let preemption = preemption.expect("only the node depends on chance");
                    let victims = preemption.victims.iter().map(|pod| pod.name.to_string()).collect();
                    possible.insert(preemption.node.to_string(), victims);
                }
                let waiting = Waiting::until("the victims are going");
                let begin = Instant::now();
                while begin.elapsed() < PATIENCE {
                    let leaving = self.leaving().await;
                    if verdict.nominated.as_ref().and_then(|node| possible.get(node)) == Some(&leaving) {
                        return Ok("preempting");
                    }
                    waiting.again().await;
                }
                Err(format!("theirs: {verdict:?} {:?}\nours: {possible:?}", self.leaving().await))
            }
        }
    }

    /// Sets a start time, without which the importance of two Pods is random.
    async fn started(&self, pod: &Value) -> Value {
        let count = self.created.len();
        self.say("pods", pod, &json!({"startTime": format!("2026-01-01T00:00:{count:02}Z")})).await
    }

    /// Updates the status of an object.
    async fn say(&self, kind: &str, object: &Value, status: &Value) -> Value {
        let path = format!("{}/status", path_of(kind, object));
        let answer = self.client.merge(&path, &json!({"status": status})).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Returns the Pods that are being deleted.
    async fn leaving(&self) -> BTreeSet<String> {
        let pods = self.client.get("/api/v1/pods").await.json();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let leaving = pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        leaving.filter_map(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned).collect()
    }

    /// Applies kube-scheduler's decision here too. An unschedulable Pod is deleted, so that it is not
    /// scheduled later.
    async fn keep(&mut self, mut object: Value, verdict: &Verdict) {
        if let Some(node) = &verdict.node {
            object = self.started(&object).await;
            assert_eq!(object["spec"]["nodeName"], node.as_str());
            self.node_index.set_pod(Arc::new(self.compiler.compile(&object)));
            self.created.push(("pods", object));
        } else {
            self.delete("pods", &object).await;
        }
    }

    async fn delete(&self, kind: &str, object: &Value) {
        let path = format!("{}?gracePeriodSeconds=0", path_of(kind, object));
        let answer = self.client.delete(&path).await;
        assert!(matches!(answer.status, 200 | 404), "{path}: {}", answer.text());
    }

    async fn end(self) {
        for (kind, object) in self.created.iter().rev() {
            self.delete(kind, object).await;
        }
    }
}
