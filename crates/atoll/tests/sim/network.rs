//! The effect of each network fault on clients, and its end.

use std::time::{Duration, Instant};

use atoll_testkit::wait::{eventually, within};
use atoll_testkit::{Atoll, Next, RequestContent, Watch};
use futures_util::poll;
use http::Method;
use serde_json::json;

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// Long enough to be distinguishable from no delay on any machine.
const LATENCY: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread")]
async fn latency_delays_responses_and_events() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    let mut watch =
        Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=a")).await;
    assert_eq!(cluster.fault("add slow --latency 700ms"), "Fault 1: slow by 700ms.\n");
    let began = Instant::now();
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    assert!(began.elapsed() >= LATENCY, "answered after {:?}", began.elapsed());
    // The response is late, and so is the event.
    assert_eq!(watch.event().await.name(), "a");
    assert!(began.elapsed() >= LATENCY, "event after {:?}", began.elapsed());
    assert_eq!(cluster.fault("remove 1"), "Fault 1 was removed.\n");
    // The speed without latency depends on the machine, but it must become faster again.
    eventually("responses are fast again", async || {
        let began = Instant::now();
        admin.get(&config_map("a")).await.expect(200);
        began.elapsed() < LATENCY
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_breaks_some_connections() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    cluster.fault("add lossy --rate 0.5");
    let (mut answered, mut broken) = (0, 0);
    // A connection and its response succeed once in four times.
    eventually("some requests were answered and some were not", async || {
        let attempt = async {
            let mut http = admin.http1().await.ok()?;
            http.request(Method::GET, "/version", RequestContent::None).await.ok()
        };
        match within("a request is answered or broken off", attempt).await {
            Some(_) => answered += 1,
            None => broken += 1,
        }
        answered > 0 && broken > 0
    })
    .await;
    cluster.fault("clear");
    for _ in 0..20 {
        admin.get("/version").await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_stalls_connections_until_it_ends() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    let mut watch =
        Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=b")).await;
    let mut old = admin.http2().await.unwrap();
    assert_eq!(old.request(Method::GET, "/version", RequestContent::None).await.unwrap().status, 200);
    cluster.fault("add partition");
    // Requests in flight stall, connections stay open, and new connections wait.
    let mut late =
        Box::pin(old.request(Method::POST, CONFIG_MAPS, RequestContent::Json(config_map_with("b", "1"))));
    let mut new = Box::pin(admin.get("/version"));
    let mut event = Box::pin(watch.next());
    // Requests outside the partition are answered meanwhile.
    for _ in 0..10 {
        assert!(poll!(&mut late).is_pending(), "an old connection must stall");
        assert!(poll!(&mut new).is_pending(), "a new connection must stall");
        assert!(poll!(&mut event).is_pending(), "a watch must stall");
        assert_eq!(cluster.fault("list"), "1  partition: clients disconnected\n");
    }
    cluster.fault("clear");
    assert_eq!(within("the old connection continues", late).await.unwrap().status, 201);
    assert_eq!(new.await.status, 200);
    assert!(matches!(event.await, Next::Event(event) if event.name() == "b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_cluster_refuses_connections_and_recovers_its_objects() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    admin.post(CONFIG_MAPS, config_map_with("c", "1")).await.expect(201);
    let mut watch = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=true&resourceVersion=0")).await;
    cluster.fault("add dead-cluster");
    let ended = within("the watch breaks", async {
        loop {
            match watch.next().await {
                Next::Event(_) => {}
                end => return end,
            }
        }
    });
    assert!(matches!(ended.await, Next::Broken(_)), "the watch must break");
    // The listener closes a moment before or after its connections break.
    eventually("connections are refused", async || {
        let refused = admin.http1().await.err();
        refused.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    })
    .await;
    assert_eq!(cluster.fault("list"), "1  dead-cluster\n");
    cluster.fault("clear");
    eventually("the cluster is reachable again", async || admin.http1().await.is_ok()).await;
    admin.get(&config_map("c")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_api_is_not_served_and_keeps_its_objects() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    let jobs = "/apis/batch/v1/namespaces/default/cronjobs";
    let job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "nightly" },
        "spec": { "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": { "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "a", "image": "a" }],
        } } } } },
    });
    admin.post(jobs, job).await.expect(201);
    let documents = ["/apis/batch", "/apis/batch/v1", "/openapi/v3/apis/batch/v1"];
    cluster.fault("add missing-api batch/v1");
    for path in documents.into_iter().chain([jobs]) {
        assert_eq!(admin.get(path).await.status, 404, "{path}");
    }
    for path in ["/apis", "/openapi/v3"] {
        let text = admin.get(path).await.text();
        assert!(!text.contains("\"batch") && !text.contains("apis/batch/"), "{path}");
        assert!(text.contains("apps"), "{path}");
    }
    // Only this version of the group is removed.
    cluster.fault("add missing-api autoscaling/v1");
    assert_eq!(admin.get("/apis/autoscaling/v1/horizontalpodautoscalers").await.status, 404);
    assert_eq!(admin.get("/apis/autoscaling/v2/horizontalpodautoscalers").await.status, 200);
    let group = admin.get("/apis/autoscaling").await.expect(200);
    assert_eq!(group["versions"].as_array().unwrap().len(), 1, "{group}");
    cluster.fault("clear");
    for path in documents {
        assert_eq!(admin.get(path).await.status, 200, "{path}");
    }
    admin.get(&format!("{jobs}/nightly")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_skew_affects_objects_tokens_and_certificates() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    let created = async |name: &str| {
        let object = admin.post(CONFIG_MAPS, config_map_with(name, "1")).await.expect(201);
        let text = object["metadata"]["creationTimestamp"].as_str().unwrap().to_string();
        atoll_meta::time::parse(&text).unwrap().seconds
    };
    let token = admin.post(
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 7200 } }),
    );
    let token = token.await.expect(201)["status"]["token"].as_str().unwrap().to_string();
    let account = admin.token(&token);
    assert_ne!(account.get("/version").await.status, 401);
    let before = created("before").await;
    cluster.fault("add clock-skew +3h");
    let during = created("during").await;
    assert!(during - before >= 3 * 3600, "{before} {during}");
    assert_eq!(account.get("/version").await.status, 401, "the token has expired");
    cluster.fault("clear");
    assert!(created("after").await < during);
    assert_ne!(account.get("/version").await.status, 401);
    // For a clock that is far behind, certificates are not yet valid.
    cluster.fault("add clock-skew -3h");
    assert_eq!(admin.get("/version").await.status, 401);
    cluster.fault("clear");
    assert_eq!(admin.get("/version").await.status, 200);
}
