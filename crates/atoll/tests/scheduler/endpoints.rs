//! Endpoints that clusters report for a placed Service are merged above, and moves wait for them.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, has_event, path, report_gone, report_object,
    report_pods, set_ready, summary, with_clusters,
};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const SLICES_OF_SERVICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";
const SERVICE: &str = "/api/v1/namespaces/default/services/web";

fn slice(addresses: &[String]) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({ "address": address, "ready": true, "serving": true, "zone": "a" }))
        .collect();
    json!({
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints,
    })
}

/// Reports, as a syncer would, that the Service has these ready endpoints on a cluster.
async fn report_endpoints(admin: &Client, cluster: &str, addresses: &[String]) {
    let endpoints = json!({ "slices": [slice(addresses)] });
    report_object(admin, SERVICE, cluster, json!({ "state": "Applied", "endpoints": endpoints })).await;
}

fn addresses(network: u8, count: u8) -> Vec<String> {
    (1..=count).map(|number| format!("10.{network}.0.{number}")).collect()
}

/// The endpoints above as `cluster address`, those that are not ready in parentheses.
async fn endpoints(admin: &Client) -> Vec<String> {
    let slices = admin.get(SLICES_OF_SERVICE).await.expect(200);
    let mut found = Vec::new();
    for slice in slices["items"].as_array().unwrap() {
        let cluster = slice["metadata"]["labels"]["atoll.dev/cluster"].as_str().unwrap();
        // A slice that a user has emptied.
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = endpoint["addresses"][0].as_str().unwrap();
            found.push(match endpoint["conditions"]["ready"] == true {
                true => format!("{cluster} {address}"),
                false => format!("({cluster} {address})"),
            });
        }
    }
    found.sort();
    found
}

async fn expect_endpoints(admin: &Client, expected: &[&str]) {
    let mut last = Vec::new();
    eventually(&format!("the endpoints are {expected:?}"), async || {
        let now = endpoints(admin).await;
        if now != last {
            eprintln!("{now:?}");
            last.clone_from(&now);
        }
        now == expected
    })
    .await;
}

/// A Deployment of four replicas on east and west, with a Service.
async fn create(admin: &Client) {
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
    let service = json!({
        "metadata": { "name": "web", "labels": { "app": "web" } },
        "spec": { "selector": { "app": "web" }, "ports": ports },
    });
    admin.post(SERVICES, service).await.expect(201);
    admin.post(DEPLOYMENTS, annotated(deployment("web", 4, 100), "east=1,west=1")).await.expect(201);
    expect_placed(admin, SERVICE, "east west by reference").await;
    for cluster in ["east", "west"] {
        report_pods(admin, &path("web"), cluster, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_all_clusters_are_merged() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4), ("north", 4)]).await;
    create(&admin).await;
    report_endpoints(&admin, "east", &addresses(1, 2)).await;
    report_endpoints(&admin, "west", &addresses(2, 1)).await;
    // A cluster that the Service is not placed on cannot add endpoints to it.
    report_endpoints(&admin, "north", &addresses(3, 1)).await;
    expect_endpoints(&admin, &["east 10.1.0.1", "east 10.1.0.2", "west 10.2.0.1"]).await;
    let slices = admin.get(SLICES_OF_SERVICE).await.expect(200);
    let slices = slices["items"].as_array().unwrap();
    assert_eq!(slices.len(), 2, "{slices:?}");
    let east =
        slices.iter().find(|slice| slice["metadata"]["labels"]["atoll.dev/cluster"] == "east").unwrap();
    let service = admin.get(SERVICE).await.expect(200);
    let owner = &east["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Service"), &service["metadata"]["uid"]));
    assert_eq!(east["metadata"]["labels"]["app"], "web");
    assert_eq!(east["ports"], json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]));
    assert_eq!((&east["addressType"], &east["endpoints"][0]["zone"]), (&json!("IPv4"), &json!("a")));
    let name = east["metadata"]["name"].as_str().unwrap().to_string();
    assert!(name.starts_with("web-east-"), "{name}");

    // Names stay, whatever changes; and changes of other writers are reverted.
    report_endpoints(&admin, "east", &addresses(1, 3)).await;
    expect_endpoints(&admin, &["east 10.1.0.1", "east 10.1.0.2", "east 10.1.0.3", "west 10.2.0.1"]).await;
    let at = format!("{SLICES}/{name}");
    admin.merge(&at, json!({ "endpoints": [] })).await.expect(200);
    eventually("the slice is restored", async || endpoints(&admin).await.len() == 4).await;
    admin.delete(&at).await.expect(200);
    eventually("the slice is created again", async || endpoints(&admin).await.len() == 4).await;
    // A report without endpoints does not say that there are none.
    report_object(&admin, SERVICE, "east", json!({ "state": "Applied" })).await;

    // The last report of a lost cluster may be outdated.
    set_ready(&admin, "west", false, 0).await;
    expect_endpoints(&admin, &["(west 10.2.0.1)", "east 10.1.0.1", "east 10.1.0.2", "east 10.1.0.3"]).await;
    set_ready(&admin, "west", true, 0).await;
    expect_endpoints(&admin, &["east 10.1.0.1", "east 10.1.0.2", "east 10.1.0.3", "west 10.2.0.1"]).await;

    // A cluster that the Service leaves has no endpoints any more, and a deleted Service has none.
    annotate(&admin, SERVICE, Some("none")).await;
    expect_placed(&admin, SERVICE, "nowhere").await;
    expect_endpoints(&admin, &[]).await;
    assert_eq!(admin.get(SLICES_OF_SERVICE).await.expect(200)["items"], json!([]));
    annotate(&admin, SERVICE, None).await;
    expect_placed(&admin, SERVICE, "east west by reference").await;
    report_endpoints(&admin, "west", &addresses(2, 1)).await;
    eventually("there are endpoints again", async || {
        endpoints(&admin).await.contains(&"west 10.2.0.1".to_string())
    })
    .await;
    admin.delete(SERVICE).await.expect(200);
    expect_endpoints(&admin, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_endpoints_are_limited() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    create(&admin).await;
    let mut all: Vec<String> =
        (0..1_200).map(|number| format!("10.1.{}.{}", number / 200, number % 200 + 1)).collect();
    for refused in ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "example.com"] {
        all.push(refused.into());
    }
    let mut endpoints = slice(&all);
    endpoints["endpoints"][0]["zone"] = "\u{1b}[2J".into();
    endpoints["endpoints"][1]["hostname"] = "a b".into();
    let bad_ports = json!({ "addressType": "IPv4", "ports": [{ "port": 70_000 }], "endpoints": [{ "address": "10.9.9.9" }] });
    let odd = json!({ "addressType": "FQDN", "endpoints": [{ "address": "example.com", "ready": true }] });
    let endpoints = json!({ "slices": [endpoints, bad_ports, odd] });
    report_object(&admin, SERVICE, "east", json!({ "state": "Applied", "endpoints": endpoints })).await;
    let mut sizes = Vec::new();
    eventually("the slices are complete", async || {
        let slices = admin.get(SLICES_OF_SERVICE).await.expect(200);
        let slices = slices["items"].as_array().unwrap();
        sizes = slices.iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).collect();
        sizes.iter().sum::<usize>() == 1_000
    })
    .await;
    assert_eq!(sizes, [100; 10]);
    eventually("an event says so", async || has_event(&admin, "web", "EndpointsCut").await).await;
    let reports = admin.get("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses").await.expect(200);
    let of_service = |report: &&Value| report["spec"]["resource"]["resource"] == "services";
    let report = reports["items"].as_array().unwrap().iter().find(of_service).unwrap();
    assert_eq!(report["status"]["endpoints"]["cut"], 208, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_replicas_stay_until_the_endpoints_of_new_ones_are_known() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    create(&admin).await;
    let web = path("web");
    report_endpoints(&admin, "east", &addresses(1, 2)).await;
    report_endpoints(&admin, "west", &addresses(2, 2)).await;
    annotate(&admin, &web, Some("west")).await;
    expect_placed(&admin, &web, "east=2 west=4 by annotation").await;
    report_pods(&admin, &web, "west", 4).await;
    eventually("the new replicas are available", async || {
        admin.get(&web).await.expect(200)["status"]["availableReplicas"] == 6
    })
    .await;
    // Three of the four new replicas can be reached: one old one may leave.
    report_endpoints(&admin, "west", &addresses(2, 3)).await;
    expect_placed(&admin, &web, "east=1 west=4 by annotation").await;
    report_pods(&admin, &web, "east", 1).await;
    report_endpoints(&admin, "east", &addresses(1, 1)).await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "east=1 west=4 by annotation");
    report_endpoints(&admin, "west", &addresses(2, 4)).await;
    expect_placed(&admin, &web, "west=4 by annotation").await;
    expect_endpoints(&admin, &["west 10.2.0.1", "west 10.2.0.2", "west 10.2.0.3", "west 10.2.0.4"]).await;

    // A Service that goes away is not waited for.
    for object in [web.as_str(), SERVICE] {
        report_gone(&admin, object, "east").await;
    }
    annotate(&admin, &web, Some("east")).await;
    expect_placed(&admin, &web, "east=4 west=4 by annotation").await;
    report_pods(&admin, &web, "east", 4).await;
    expect_placed(&admin, SERVICE, "east west by reference").await;
    admin.delete(SERVICE).await.expect(200);
    expect_placed(&admin, &web, "east=4 by annotation").await;
}
