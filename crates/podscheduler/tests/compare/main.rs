//! The same random clusters and Pods to the real kube-scheduler and to ours: each Pod must go where ours might have sent
//! it, with the most points; or nowhere, for the same reasons in the same words; or others must go for it, the same ones.
//!
//! `SCHEDULER_ROUNDS` is how many clusters are tried, `ATOLL_SEED` what they are made from.

mod random_cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atoll_podscheduler::{Compiler, Fleet, Node};
use atoll_testkit::wait::Waiting;
use atoll_testkit::{Client, Upstream};
use random_cluster::{Cluster, Random};
use serde_json::{Value, json};

/// How often something is tried before the two disagree for good: the scheduler may not have seen all of a cluster yet.
const ATTEMPTS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_where_kube_scheduler_sends_them() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (seed, rounds) = (number("ATOLL_SEED", 7), number("SCHEDULER_ROUNDS", 25));
    let flags = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition";
    let Some(upstream) = Upstream::start(&["--scheduler", "--", flags]) else { return };
    let client = upstream.client();
    prepare(&client).await;
    println!("ATOLL_SEED={seed} SCHEDULER_ROUNDS={rounds}");
    let mut random = Random::new(seed);
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..rounds {
        let cluster = Cluster::random(&mut random, round);
        let mut both = Both::begin(&client, &cluster).await;
        for pod in &cluster.pending {
            let outcome = both.compare(pod).await;
            *outcomes.entry(outcome).or_default() += 1;
            if outcome == "preempting" {
                break;
            }
        }
        both.end().await;
    }
    println!("{outcomes:?}");
}

async fn prepare(client: &Client) {
    for (namespace, team) in [("left", "x"), ("right", "y")] {
        let object = json!({"metadata": {"name": namespace, "labels": {"team": team}}});
        create(client, "/api/v1/namespaces", &object).await;
    }
    for (name, value) in [("low", -10), ("high", 1000)] {
        let object = json!({"metadata": {"name": name}, "value": value});
        create(client, "/apis/scheduling.k8s.io/v1/priorityclasses", &object).await;
    }
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    let answer = client.post(path, object).await.expect("an answer");
    assert_eq!(answer.status, 201, "{path}: {}\n{object:#}", answer.text());
    answer.json()
}

fn path_of(kind: &str, object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/{kind}/{name}"),
        None => format!("/api/v1/{kind}/{name}"),
    }
}

fn collection_of(kind: &str, object: &Value) -> String {
    let path = path_of(kind, object);
    path.rsplit_once('/').map(|(collection, _)| collection.to_owned()).unwrap_or_default()
}

/// One cluster, there and here.
struct Both<'a> {
    client: &'a Client,
    fleet: Fleet,
    compiler: Compiler,
    /// What is there, by kind.
    created: Vec<(&'static str, Value)>,
}

/// What came of a Pod at kube-scheduler.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    node: Option<String>,
    message: Option<String>,
    nominated: Option<String>,
}

impl<'a> Both<'a> {
    async fn begin(client: &'a Client, cluster: &Cluster) -> Self {
        let mut both =
            Both { client, fleet: Fleet::default(), compiler: Compiler::default(), created: Vec::new() };
        let namespaces = client.get("/api/v1/namespaces").await.expect("namespaces").json();
        for namespace in namespaces["items"].as_array().into_iter().flatten() {
            both.fleet.set_namespace(namespace);
        }
        for (kind, object) in &cluster.objects {
            let mut object = create(client, &collection_of(kind, object), object).await;
            if *kind == "pods" {
                object = both.started(&object).await;
            }
            match *kind {
                "nodes" => both.fleet.set_node(Node::of(&object)),
                "pods" => both.fleet.set_pod(Arc::new(both.compiler.compile(&object))),
                "services" => both.fleet.workloads.set_service(&object),
                "persistentvolumes" => both.fleet.storage.set_volume(&object),
                "persistentvolumeclaims" => both.fleet.storage.set_claim(&object),
                other => panic!("{other}"),
            }
            both.created.push((kind, object));
        }
        both
    }

    /// Asks both what becomes of a Pod until they agree.
    async fn compare(&mut self, pod: &Value) -> &'static str {
        let mut disagreement = String::new();
        for _ in 0..ATTEMPTS {
            let object = create(self.client, &collection_of("pods", pod), pod).await;
            let verdict = self.verdict(&object).await;
            match self.check(&object, &verdict).await {
                Ok(outcome) => {
                    self.keep(object, &verdict).await;
                    return outcome;
                }
                Err(message) => disagreement = message,
            }
            self.delete("pods", &object).await;
            // Whatever kube-scheduler had not seen yet, it will have soon.
            Waiting::until("kube-scheduler has caught up").again().await;
        }
        for (kind, object) in &self.created {
            println!(
                "{kind} {} {} {}",
                object["metadata"]["name"], object["metadata"]["labels"], object["spec"]
            );
        }
        panic!("{disagreement}\npod: {pod}");
    }

    /// Waits for what kube-scheduler decides.
    async fn verdict(&self, pod: &Value) -> Verdict {
        let waiting = Waiting::until("kube-scheduler has decided");
        loop {
            let now = self.client.get(&path_of("pods", pod)).await.expect("the Pod").json();
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let mut conditions = now["status"]["conditions"].as_array().into_iter().flatten();
            let refused = conditions
                .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
            let verdict = Verdict {
                node: text(&now["spec"]["nodeName"]),
                message: refused.and_then(|condition| text(&condition["message"])),
                nominated: text(&now["status"]["nominatedNodeName"]),
            };
            if verdict.node.is_some() || verdict.message.is_some() {
                return verdict;
            }
            waiting.again().await;
        }
    }

    async fn check(&mut self, object: &Value, verdict: &Verdict) -> Result<&'static str, String> {
        let pod = self.compiler.compile(object);
        let mut random = Random::new(1);
        let ours = self.fleet.choose(&pod, &mut || random.next());
        match ours {
            Ok(_) => {
                let ranking = self.fleet.rank(&pod);
                let most = ranking.iter().map(|(_, points)| *points).max();
                let theirs = ranking.iter().find(|(node, _)| Some(&**node) == verdict.node.as_deref());
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
                    let refusal = self.fleet.choose(&pod, &mut || random.next());
                    let preemption = refusal.err().and_then(|refusal| refusal.preemption);
                    let preemption = preemption.expect("chance decides only which node it is");
                    let victims = preemption.victims.iter().map(|pod| pod.name.to_string()).collect();
                    possible.insert(preemption.node.to_string(), victims);
                }
                let waiting = Waiting::until("the victims are going");
                for _ in 0..ATTEMPTS {
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

    /// A Pod with a time at which it was started. Without one, it is chance which of two is the more important.
    async fn started(&self, pod: &Value) -> Value {
        let count = self.created.len();
        let status = json!({"status": {"startTime": format!("2026-01-01T00:00:{count:02}Z")}});
        let path = format!("{}/status", path_of("pods", pod));
        let answer = self.client.patch(&path, "merge", &status).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The Pods that are on their way out.
    async fn leaving(&self) -> BTreeSet<String> {
        let pods = self.client.get("/api/v1/pods").await.expect("the Pods").json();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let leaving = pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        leaving.filter_map(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned).collect()
    }

    /// What kube-scheduler has decided holds here, too. A Pod that got no node goes, lest it gets one later.
    async fn keep(&mut self, mut object: Value, verdict: &Verdict) {
        if let Some(node) = &verdict.node {
            object = self.started(&object).await;
            assert_eq!(object["spec"]["nodeName"], node.as_str());
            self.fleet.set_pod(Arc::new(self.compiler.compile(&object)));
            self.created.push(("pods", object));
        } else {
            self.delete("pods", &object).await;
        }
    }

    async fn delete(&self, kind: &str, object: &Value) {
        let path = format!("{}?gracePeriodSeconds=0", path_of(kind, object));
        let answer = self.client.delete(&path).await.expect("an answer");
        assert!(matches!(answer.status, 200 | 404), "{path}: {}", answer.text());
    }

    async fn end(self) {
        for (kind, object) in self.created.iter().rev() {
            self.delete(kind, object).await;
        }
    }
}
