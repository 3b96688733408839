//! Endpoints of a placed Service, from the EndpointSlices of its clusters to those above.

use std::collections::BTreeMap;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::health::condition;
use crate::{Fleet, Mode, create, object};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";
const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";

/// The addresses of endpoints by cluster, with those that are ready.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Endpoints {
    all: Vec<String>,
    ready: usize,
}

async fn above(admin: &Client) -> BTreeMap<String, Endpoints> {
    let slices = admin.get(SLICES).await.expect(200);
    let mut found: BTreeMap<String, Endpoints> = BTreeMap::new();
    for slice in slices["items"].as_array().unwrap() {
        let cluster = slice["metadata"]["labels"]["atoll.dev/cluster"].as_str().unwrap();
        let of_cluster = found.entry(cluster.to_string()).or_default();
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            assert!(endpoint["targetRef"].is_null() && endpoint["nodeName"].is_null(), "{endpoint}");
            of_cluster.all.push(endpoint["addresses"][0].as_str().unwrap().to_string());
            of_cluster.ready += usize::from(endpoint["conditions"]["ready"] == true);
        }
        of_cluster.all.sort();
    }
    found
}

async fn below(cluster: &Client) -> Vec<String> {
    let slices = cluster.get(SLICES).await.expect(200);
    let slices = slices["items"].as_array().unwrap().iter();
    let endpoints = slices.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let mut addresses: Vec<String> =
        endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_string()).collect();
    addresses.sort();
    addresses
}

/// Waits until the endpoints above are those of the clusters, all ready: so many on each.
async fn expect_ready(fleet: &Fleet, counts: &[(&str, usize)]) {
    let admin = fleet.admin();
    let mut last = BTreeMap::new();
    eventually(&format!("the endpoints are {counts:?}"), async || {
        let mut expected = BTreeMap::new();
        for (name, count) in counts {
            let cluster = if *name == "east" { &fleet.clusters[0] } else { &fleet.clusters[1] };
            let all = below(&cluster.admin()).await;
            if all.len() != *count {
                return false;
            }
            expected.insert((*name).to_string(), Endpoints { all, ready: *count });
        }
        let now = above(&admin).await;
        if now != last {
            eprintln!("{now:?}");
            last.clone_from(&now);
        }
        now == expected
    })
    .await;
}

async fn annotate(admin: &Client, clusters: &str) {
    let patch = json!({ "metadata": { "annotations": { "atoll.dev/clusters": clusters } } });
    admin.merge(&format!("{DEPLOYMENTS}/web"), patch).await.expect(200);
}

async fn scale(admin: &Client, replicas: i64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    admin.merge(&format!("{DEPLOYMENTS}/web/scale"), patch).await.expect(200);
}

async fn create_application(admin: &Client) {
    let labels = json!({ "app": "web" });
    let requests = json!({ "requests": { "cpu": "100m" } });
    let container = json!({ "name": "main", "image": "example/app:1", "resources": requests });
    let spec = json!({
        "replicas": 4, "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
    });
    let mut web = object("apps/v1", "Deployment", "web", json!({ "spec": spec }));
    web["metadata"]["annotations"] = json!({ "atoll.dev/clusters": "east=1,west=1" });
    create(admin, DEPLOYMENTS, web).await;
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
    let spec = json!({ "selector": labels, "ports": ports });
    create(admin, SERVICES, object("v1", "Service", "web", json!({ "spec": spec }))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_follow_the_pods_of_all_clusters() {
    let setup = Setup::new().flag("--cluster-grace-period", 5).flag("--cluster-heartbeat-interval", 1);
    let mut fleet = Fleet::start_with(setup, Mode::Push, &["east", "west"]);
    let admin = fleet.admin();
    create_application(&admin).await;
    expect_ready(&fleet, &[("east", 2), ("west", 2)]).await;
    let slices = admin.get(SLICES).await.expect(200);
    for slice in slices["items"].as_array().unwrap() {
        assert_eq!(slice["ports"], json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]));
    }
    scale(&admin, 6).await;
    expect_ready(&fleet, &[("east", 3), ("west", 3)]).await;
    scale(&admin, 2).await;
    expect_ready(&fleet, &[("east", 1), ("west", 1)]).await;

    // They stay when the control plane is killed, and with it the syncers.
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|slice| slice["metadata"]["uid"].to_string()).collect()
    };
    let before = names(&admin.get(SLICES).await.expect(200));
    fleet.atoll.kill();
    fleet.atoll.restart();
    let admin = fleet.admin();
    scale(&admin, 4).await;
    expect_ready(&fleet, &[("east", 2), ("west", 2)]).await;
    assert_eq!(names(&admin.get(SLICES).await.expect(200)), before, "the slices were not replaced");

    annotate(&admin, "west").await;
    expect_ready(&fleet, &[("west", 4)]).await;
    annotate(&admin, "east=3,west=1").await;
    expect_ready(&fleet, &[("east", 3), ("west", 1)]).await;

    // Endpoints of a lost cluster are not ready, until its share is replaced.
    fleet.clusters[0].fault("add partition");
    eventually("clients are not sent to the lost cluster", async || {
        let now = above(&admin).await;
        now.get("east").is_none_or(|east| east.ready == 0) && now["west"].ready >= 1
    })
    .await;
    expect_ready(&fleet, &[("west", 4)]).await;
    fleet.clusters[0].fault("clear");
    eventually("the cluster is back", async || {
        condition(&admin.get(EAST).await.expect(200), "Ready").0 == "True"
    })
    .await;

    admin.delete(&format!("{SERVICES}/web")).await.expect(200);
    eventually("a deleted Service has no endpoints", async || above(&admin).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_right_to_endpoint_slices_is_named() {
    let fleet =
        Fleet::start_with(Setup::new().flag("--cluster-heartbeat-interval", 1), Mode::None, &["east"]);
    let (admin, east) = (fleet.admin(), fleet.clusters[0].admin());
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer";
    let mut rules = east.get(role).await.expect(200)["rules"].clone();
    rules.as_array_mut().unwrap().retain(|rule| rule["apiGroups"] != json!(["discovery.k8s.io"]));
    east.merge(role, json!({ "rules": rules })).await.expect(200);
    drop(fleet.agents.into_iter().next());
    let _agent = crate::start_agent(&fleet.join_outputs[0]);
    eventually("the condition names the right", async || {
        let (status, _, message) = condition(&admin.get(EAST).await.expect(200), "RightsComplete");
        status == "False" && message.contains("list endpointslices.discovery.k8s.io")
    })
    .await;
    assert_eq!(condition(&admin.get(EAST).await.expect(200), "Ready").0, "True");
}
