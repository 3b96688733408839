//! Concurrent requests that exceed a ResourceQuota.

use atoll_testkit::wait::eventually;
use atoll_testkit::{ApiResponse, Atoll, Client};
use futures_util::future::join_all;
use serde_json::{Value, json};

const CLIENTS: usize = 64;

/// A namespace with its default objects and with quotas whose usage is counted.
struct Namespace {
    admin: Client,
    path: String,
}

impl Namespace {
    async fn with(admin: &Client, name: &str, quotas: &[(&str, Value)]) -> Namespace {
        admin.post("/api/v1/namespaces", json!({ "metadata": { "name": name } })).await.expect(201);
        let namespace = Namespace { admin: admin.clone(), path: format!("/api/v1/namespaces/{name}") };
        for belonging in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let path = namespace.at(belonging);
            eventually("the namespace is complete", async || admin.get(&path).await.status == 200).await;
        }
        for (quota, hard) in quotas {
            let object = json!({ "metadata": { "name": quota }, "spec": { "hard": hard } });
            admin.post(&namespace.at("resourcequotas"), object).await.expect(201);
            eventually("the quota is counted", async || namespace.quota(quota).await["hard"] == *hard).await;
        }
        namespace
    }

    fn at(&self, rest: &str) -> String {
        format!("{}/{rest}", self.path)
    }

    async fn create(&self, resource: &str, object: Value) -> ApiResponse {
        self.admin.post(&self.at(resource), object).await
    }

    async fn quota(&self, name: &str) -> Value {
        self.admin.get(&self.at(&format!("resourcequotas/{name}"))).await.expect(200)["status"].take()
    }

    async fn items(&self, resource: &str) -> Vec<Value> {
        let list = self.admin.get(&self.at(resource)).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }
}

fn map(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// Returns the number of admitted requests. The others must have a quota error.
fn admitted(answers: &[ApiResponse]) -> usize {
    for refused in answers.iter().filter(|answer| !(200..300).contains(&answer.status)) {
        let message = refused.expect_status(403, "Forbidden");
        assert!(message.contains("is forbidden: exceeded quota: "), "{message}");
    }
    answers.iter().filter(|answer| (200..300).contains(&answer.status)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_fill_a_quota_exactly() {
    let atoll = Atoll::start();
    let namespace = Namespace::with(&atoll.admin(), "crowded", &[("q", json!({ "configmaps": "51" }))]).await;
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("m{number}")).collect();
    let answers = join_all(names.iter().map(|name| namespace.create("configmaps", map(name)))).await;
    assert_eq!(admitted(&answers), 50, "50 and the default ConfigMap");
    assert_eq!(namespace.items("configmaps").await.len(), 51);
    assert_eq!(namespace.quota("q").await["used"]["configmaps"], "51");
    let message = namespace.create("configmaps", map("late")).await.expect_status(403, "Forbidden");
    assert_eq!(
        message,
        "configmaps \"late\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=51, limited: \
         configmaps=51"
    );
    // Deletions make room.
    let deleted: Vec<String> = namespace.items("configmaps").await.iter().take(10).map(name_of).collect();
    for name in deleted.iter().filter(|name| *name != "kube-root-ca.crt") {
        namespace.admin.delete(&namespace.at(&format!("configmaps/{name}"))).await.expect(200);
    }
    let mut number = 0;
    eventually("the quota is used up again", async || {
        number += 1;
        namespace.create("configmaps", map(&format!("again{number}"))).await;
        namespace.items("configmaps").await.len() == 51
    })
    .await;
    // A larger quota is effective once it is counted.
    let spec = json!({ "spec": { "hard": { "configmaps": "52" } } });
    namespace.admin.merge(&namespace.at("resourcequotas/q"), spec).await.expect(200);
    eventually("the quota allows one more object", async || {
        namespace.create("configmaps", map("one-more")).await.status == 201
    })
    .await;
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_requests_use_no_quota() {
    let atoll = Atoll::start();
    let hard = json!({ "count/secrets": "5" });
    let namespace = Namespace::with(&atoll.admin(), "vain", &[("q", hard)]).await;
    let answers = join_all((0..CLIENTS).map(|_| namespace.create("secrets", map("same")))).await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(created, 1);
    // Some got AlreadyExists, some a conflict on the quota. Their usage is released again.
    assert_eq!(namespace.quota("q").await["used"]["count/secrets"], "1");
    for name in ["b", "c", "d", "e"] {
        namespace.admin.post(&namespace.at("secrets?dryRun=All"), map(name)).await.expect(201);
        namespace.create("secrets", map(name)).await.expect(201);
    }
    namespace.create("secrets", map("f")).await.expect_status(403, "Forbidden");
}

fn millis(pod: &Value) -> u64 {
    let cpu = &pod["spec"]["containers"][0]["resources"]["requests"]["cpu"];
    let text = cpu.as_str().expect("the pod must have a CPU request");
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().expect("a number"),
        None => text.parse::<u64>().expect("a number") * 1000,
    }
}

fn pod(name: &str, millis: u64) -> Value {
    let resources = json!({ "requests": { "cpu": format!("{millis}m") } });
    let container = json!({ "name": "c", "image": "x:1", "resources": resources });
    json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_stay_within_two_quotas() {
    let atoll = Atoll::start();
    let quotas = [("amount", json!({ "requests.cpu": "10" })), ("number", json!({ "pods": "40" }))];
    let namespace = Namespace::with(&atoll.admin(), "sums", &quotas).await;
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("p{number}")).collect();
    let wanted = (0..CLIENTS as u64).map(|number| 101 + number * 37 % 500);
    let answers =
        join_all(names.iter().zip(wanted).map(|(name, cpu)| namespace.create("pods", pod(name, cpu)))).await;
    let created = admitted(&answers);
    let pods = namespace.items("pods").await;
    assert_eq!(pods.len(), created);
    let sum: u64 = pods.iter().map(millis).sum();
    assert!(sum <= 10_000, "{sum}");
    let used = namespace.quota("number").await["used"]["pods"].clone();
    assert_eq!(used, created.to_string());
    // The remaining quota can be used completely, and not exceeded.
    let rest = 10_000 - sum;
    namespace.create("pods", pod("over", rest + 1)).await.expect_status(403, "Forbidden");
    namespace.create("pods", pod("rest", rest)).await.expect(201);
    assert_eq!(namespace.quota("amount").await["used"]["requests.cpu"], "10");
    assert_eq!(namespace.quota("number").await["used"]["pods"], (created + 1).to_string());
    // Finished pods use no quota.
    let done = json!({ "status": { "phase": "Succeeded" } });
    namespace.admin.merge(&namespace.at("pods/rest/status"), done).await.expect(200);
    eventually("finished pods use no quota", async || {
        namespace.create("pods", pod("next", rest)).await.status == 201
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_services_are_counted() {
    let atoll = Atoll::start();
    let hard = json!({ "services.nodeports": "7" });
    let namespace = Namespace::with(&atoll.admin(), "services", &[("q", hard)]).await;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    for name in &names {
        let spec = json!({ "ports": [{ "port": 80 }] });
        let service = json!({ "metadata": { "name": name }, "spec": spec });
        namespace.create("services", service).await.expect(201);
    }
    let change = |name: &str, kind: &str| {
        let path = namespace.at(&format!("services/{name}"));
        let patch = json!({ "spec": { "type": kind } });
        let admin = namespace.admin.clone();
        async move { admin.merge(&path, patch).await }
    };
    let answers = join_all(names.iter().map(|name| change(name, "NodePort"))).await;
    assert_eq!(admitted(&answers), 7);
    assert_eq!(namespace.quota("q").await["used"]["services.nodeports"], "7");
    let changed: Vec<&String> =
        names.iter().zip(&answers).filter(|(_, answer)| answer.status == 200).map(|(name, _)| name).collect();
    change(changed[0], "ClusterIP").await.expect(200);
    eventually("the port is free", async || change("s19", "NodePort").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_and_deletes_never_exceed_a_quota() {
    const HARD: usize = 12;
    let atoll = Atoll::start();
    let hard = json!({ "count/configmaps": HARD.to_string() });
    let namespace = Namespace::with(&atoll.admin(), "churn", &[("q", hard)]).await;
    let namespace = &namespace;
    let busy = join_all((0..16).map(|client| async move {
        let mut created = 0;
        for round in 0..25 {
            let name = format!("m{client}-{round}");
            if namespace.create("configmaps", map(&name)).await.status == 201 {
                created += 1;
                namespace.admin.delete(&namespace.at(&format!("configmaps/{name}"))).await.expect(200);
            }
            let there = namespace.items("configmaps").await.len();
            assert!(there <= HARD, "{there} objects with a quota of {HARD}");
        }
        created
    }));
    let created: usize = busy.await.iter().sum();
    assert!(created >= HARD - 1, "only {created} were admitted");
    eventually("the quota is unused again", async || {
        namespace.quota("q").await["used"]["count/configmaps"] == "1"
    })
    .await;
    let names: Vec<String> = (1..HARD).map(|number| format!("z{number}")).collect();
    let last = join_all(names.iter().map(|name| namespace.create("configmaps", map(name))));
    assert_eq!(admitted(&last.await), HARD - 1);
}
