//! Services that leave a cluster on which other namespaces may call them.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::json;

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, path, report_all_pods, report_gone,
    report_object, report_pods, with_clusters,
};

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Messages of the warnings about an object.
async fn warnings(admin: &Client, kind: &str) -> Vec<String> {
    let events = admin.get("/api/v1/namespaces/default/events").await.expect(200);
    let all = events["items"].as_array().unwrap().iter();
    let about =
        all.filter(|event| event["reason"] == "ServiceLeft" && event["involvedObject"]["kind"] == kind);
    about.map(|event| event["message"].as_str().unwrap().to_string()).collect()
}

async fn create_namespace(admin: &Client, name: &str, clusters: &str) {
    admin.post("/api/v1/namespaces", json!({ "metadata": { "name": name } })).await.expect(201);
    let deployments = format!("/apis/apps/v1/namespaces/{name}/deployments");
    admin.post(&deployments, annotated(deployment("app", 1, 100), clusters)).await.expect(201);
    expect_placed(admin, &format!("{deployments}/app"), &format!("{clusters}=1 by annotation")).await;
}

/// Reports, once the Service is placed on both clusters, that one has it. Its endpoints are not known, so that moves do
/// not wait for them.
async fn report_service(admin: &Client, cluster: &str) {
    let service = format!("{SERVICES}/web");
    expect_placed(admin, &service, "east west by reference").await;
    report_object(admin, &service, cluster, json!({ "state": "Applied" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_takes_a_service_away_from_other_namespaces_warns() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    create_namespace(&admin, "shop", "east").await;
    create_namespace(&admin, "far", "west").await;
    let service = |name: &str, app: &str| json!({ "metadata": { "name": name }, "spec": { "selector": { "app": app }, "ports": [{ "port": 80 }] } });
    admin.post(SERVICES, service("web", "web")).await.expect(201);
    admin.post(SERVICES, service("other", "other")).await.expect(201);
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 100), "east")).await.expect(201);
    expect_placed(&admin, &web, "east=2 by annotation").await;
    expect_placed(&admin, &format!("{SERVICES}/web"), "east by reference").await;
    report_all_pods(&admin, &web, "east", 2).await;

    // While it is on both clusters, nothing is lost.
    annotate(&admin, &web, Some("west")).await;
    expect_placed(&admin, &web, "east=2 west=2 by annotation").await;
    assert_eq!(warnings(&admin, "Deployment").await, Vec::<String>::new());
    report_service(&admin, "west").await;
    report_pods(&admin, &web, "west", 2).await;
    expect_placed(&admin, &web, "west=2 by annotation").await;
    let expected = "Service web leaves cluster east with its Pods: workloads of the namespace shop on east no \
                    longer reach it by its DNS name; if they call it, place them on west too";
    for kind in ["Deployment", "Service"] {
        eventually("the callers are named", async || warnings(&admin, kind).await == [expected]).await;
    }

    report_gone(&admin, &web, "east").await;

    // Another workload that the Service selects keeps it there, and so there is no warning.
    let mut second = annotated(deployment("second", 1, 100), "west");
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *second.pointer_mut(labels).unwrap() = json!({ "app": "web" });
    }
    admin.post(DEPLOYMENTS, second).await.expect(201);
    expect_placed(&admin, &path("second"), "west=1 by annotation").await;
    annotate(&admin, &web, Some("east")).await;
    expect_placed(&admin, &web, "east=2 west=2 by annotation").await;
    report_service(&admin, "east").await;
    report_pods(&admin, &web, "east", 2).await;
    expect_placed(&admin, &web, "east=2 by annotation").await;
    // The last one takes it away.
    report_all_pods(&admin, &path("second"), "west", 1).await;
    annotate(&admin, &path("second"), Some("east")).await;
    expect_placed(&admin, &path("second"), "east=1 west=1 by annotation").await;
    report_pods(&admin, &path("second"), "east", 1).await;
    expect_placed(&admin, &path("second"), "east=1 by annotation").await;
    eventually("the second warning", async || warnings(&admin, "Service").await.len() == 2).await;
    let told = warnings(&admin, "Service").await;
    assert!(
        told.iter().any(|text| text.contains("leaves cluster west") && text.contains("namespace far")),
        "{told:?}"
    );
    assert_eq!(warnings(&admin, "Deployment").await.len(), 2);
}
