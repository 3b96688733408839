//! An application with everything that it needs, divided between clusters by a policy.

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_testkit::Client;
use atoll_testkit::wait::{Waiting, eventually};
use serde_json::{Value, json};

pub const REPLICAS: i64 = 10;
const CORE: &str = "/api/v1/namespaces/default";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
pub const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";

/// Waits until a cluster is ready, or is not.
pub async fn wait_until_cluster(admin: &Client, name: &str, is_ready: bool) {
    let path = format!("/apis/atoll.dev/v1alpha1/clusters/{name}");
    eventually(&format!("{name} is ready: {is_ready}"), async || {
        let cluster = admin.get(&path).await.expect(200);
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
        ready.is_some_and(|ready| (ready["status"] == "True") == is_ready)
    })
    .await;
}

/// Limits the CPU that the workloads of the control plane may request on a cluster, or removes the limit.
pub async fn limit_cpu(admin: &Client, name: &str, cpu: Option<&str>) {
    let limits = cpu.map(|cpu| json!({ "cpu": cpu }));
    let patch = json!({ "spec": { "limits": limits } });
    admin.merge(&format!("/apis/atoll.dev/v1alpha1/clusters/{name}"), patch).await.expect(200);
}

/// Waits for something that takes long on a busy machine: the timeout begins anew with every step.
struct Steps {
    what: String,
    waiting: Waiting<'static>,
    last: String,
}

impl Steps {
    fn until(what: String) -> Steps {
        eprintln!("waiting until {what}");
        Steps { what, waiting: Waiting::until("the next step is made"), last: String::new() }
    }

    async fn again(&mut self, now: String) {
        if now != self.last {
            eprintln!("{}: {now}", self.what);
            (self.waiting, self.last) = (Waiting::until("the next step is made"), now);
        }
        self.waiting.again().await;
    }
}

/// The Deployment `web` of the workspace.
pub struct Application {
    admin: Client,
}

impl Application {
    pub async fn create(admin: &Client) -> Application {
        let named = |more: Value| {
            let mut object = json!({ "metadata": { "name": "web" } });
            for (field, value) in more.as_object().unwrap() {
                object[field] = value.clone();
            }
            object
        };
        let policy = named(json!({ "spec": {
            "objects": [{ "kind": "Deployment", "name": "web" }],
            "replicas": { "division": "Even" },
            "failover": { "after": "2s" },
            "failback": { "after": "2s" },
        } }));
        admin.post(POLICIES, policy).await.expect(201);
        admin.post(&format!("{CORE}/configmaps"), named(json!({ "data": { "a": "b" } }))).await.expect(201);
        admin
            .post(&format!("{CORE}/secrets"), named(json!({ "stringData": { "c": "d" } })))
            .await
            .expect(201);
        let ports = json!([{ "name": "http", "port": 80, "targetPort": "http" }]);
        let service = named(json!({ "spec": { "selector": { "app": "web" }, "ports": ports } }));
        admin.post(&format!("{CORE}/services"), service).await.expect(201);
        let container = json!({
            "name": "main",
            "image": "localhost/web:1",
            "imagePullPolicy": "Never",
            "ports": [{ "name": "http", "containerPort": 8080 }],
            "envFrom": [{ "configMapRef": { "name": "web" } }, { "secretRef": { "name": "web" } }],
            "resources": { "requests": { "cpu": "10m", "memory": "8Mi" } },
            "readinessProbe": {
                "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 1, "timeoutSeconds": 5,
            },
            // Clients learn meanwhile that the Pod ends.
            "lifecycle": { "preStop": { "sleep": { "seconds": 5 } } },
        });
        let labels = json!({ "app": "web" });
        let pod = json!({ "containers": [container], "automountServiceAccountToken": false });
        let deployment = named(json!({ "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        } }));
        admin.post("/apis/apps/v1/namespaces/default/deployments", deployment).await.expect(201);
        Application { admin: admin.clone() }
    }

    pub fn path(&self) -> &'static str {
        DEPLOYMENT
    }

    /// Writes the annotation for clusters.
    pub async fn annotate(&self, clusters: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { "atoll.dev/clusters": clusters } } });
        self.admin.merge(DEPLOYMENT, patch).await.expect(200);
    }

    pub async fn scale(&self, replicas: i64) {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.admin.merge(&format!("{DEPLOYMENT}/scale"), patch).await.expect(200);
    }

    pub async fn set_image(&self, image: &str) {
        let path = "/spec/template/spec/containers/0/image";
        let patch = json!([{ "op": "replace", "path": path, "value": image }]);
        let body =
            atoll_testkit::RequestContent::Raw("application/json-patch+json", patch.to_string().into());
        self.admin.request(http::Method::PATCH, DEPLOYMENT, body).await.expect(200);
    }

    /// Waits until all replicas have the latest template and are available.
    pub async fn expect_updated(&self) {
        let mut steps = Steps::until("all replicas have the new image".to_string());
        loop {
            let web = self.admin.get(DEPLOYMENT).await.expect(200);
            let (status, replicas) = (&web["status"], &web["spec"]["replicas"]);
            let counts = ["updatedReplicas", "availableReplicas", "replicas"].map(|field| &status[field]);
            if counts.iter().all(|count| *count == replicas)
                && status["observedGeneration"] == web["metadata"]["generation"]
            {
                return;
            }
            steps.again(format!("{counts:?}")).await;
        }
    }

    /// Waits until the condition of the Deployment says that it cannot leave a cluster.
    pub async fn expect_blocked(&self) {
        eventually("the move is blocked", async || {
            let web = self.admin.get(DEPLOYMENT).await.expect(200);
            let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| {
                one["type"] == "Placed" && one["status"] == "False" && one["reason"] == "MoveBlocked"
            })
        })
        .await;
    }

    /// Waits until replicas are divided evenly between clusters, run there only, and can be reached.
    pub async fn expect_even(&self, clusters: &[&str], replicas: i64) {
        let count = i64::try_from(clusters.len()).unwrap();
        let even = replicas / count..=(replicas + count - 1) / count;
        let mut steps = Steps::until(format!("{replicas} replicas are divided between {clusters:?}"));
        loop {
            let web = self.admin.get(DEPLOYMENT).await.expect(200);
            let (placement, reached) = (Placement::of(&web), self.ready_endpoints().await);
            let shares: BTreeMap<&str, i64> = placement
                .clusters
                .iter()
                .map(|share| (share.name.as_str(), share.replicas.unwrap_or(-1)))
                .collect();
            let is_even = shares.keys().eq(clusters)
                && shares.values().all(|share| even.contains(share))
                && shares.values().sum::<i64>() == replicas;
            let placed: Vec<String> = shares.iter().map(|(name, share)| format!("{name}={share}")).collect();
            let is_settled = placement.phase.is_empty() && placement.leaving.is_empty();
            if is_even && is_settled && reached == placed.join(" ") {
                return;
            }
            steps.again(format!("{} {:?}, ready {reached}", placed.join(" "), placement.phase)).await;
        }
    }

    /// Waits until the replicas are placed like this, run there only, and can be reached.
    pub async fn expect_on(&self, expected: &str) {
        self.expect_placed(expected, false).await;
    }

    /// Waits until the replicas are placed like this and can be reached, although a cluster that is lost has not let
    /// go yet.
    pub async fn expect_replaced(&self, expected: &str) {
        self.expect_placed(expected, true).await;
    }

    async fn expect_placed(&self, expected: &str, may_be_leaving: bool) {
        let what = format!("it runs on {expected}");
        let waiting = Waiting::until(&what);
        let mut last = String::new();
        loop {
            let web = self.admin.get(DEPLOYMENT).await.expect(200);
            let placement = Placement::of(&web);
            let mut shares: Vec<String> = placement
                .clusters
                .iter()
                .map(|share| format!("{}={}", share.name, share.replicas.unwrap_or(-1)))
                .collect();
            shares.sort();
            let (placed, reached) = (shares.join(" "), self.ready_endpoints().await);
            let is_settled = placement.phase.is_empty() && (may_be_leaving || placement.leaving.is_empty());
            if is_settled && placed == expected && reached == expected {
                return;
            }
            let leaving: Vec<&str> = placement.leaving.iter().map(|one| one.name.as_str()).collect();
            let now = format!("{placed} {:?}, leaving {leaving:?}, ready {reached}", placement.phase);
            if now != last {
                eprintln!("{now}");
                last = now;
            }
            waiting.again().await;
        }
    }

    /// The number of ready endpoints on each cluster.
    async fn ready_endpoints(&self) -> String {
        let slices = self.admin.get(SLICES).await.expect(200);
        let mut ready: BTreeMap<String, usize> = BTreeMap::new();
        for slice in slices["items"].as_array().unwrap() {
            let cluster = slice["metadata"]["labels"]["atoll.dev/cluster"].as_str().unwrap();
            let endpoints = slice["endpoints"].as_array().unwrap().iter();
            let count = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
            *ready.entry(cluster.to_string()).or_default() += count;
        }
        let ready = ready.into_iter().filter(|(_, count)| *count > 0);
        ready.map(|(cluster, count)| format!("{cluster}={count}")).collect::<Vec<_>>().join(" ")
    }

    pub async fn expect_no_ready_endpoints(&self, cluster: &str) {
        eventually(&format!("no endpoint on {cluster} is ready"), async || {
            !self.ready_endpoints().await.contains(cluster)
        })
        .await;
    }
}
