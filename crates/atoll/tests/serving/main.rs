//! An application that clients use while it moves between real clusters with running containers. The clients follow
//! the EndpointSlices of the workspace, open a new connection for every request, and never retry. Without the
//! required programs or rights nothing is tested, and a line with `skipped:` gives the reason. See
//! `upstream/cluster`.
//!
//! All steps are in one test, because a cluster takes long to start, and in a test program of its own, because
//! other tests at the same time would disturb it.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

#[path = "../sync/joining.rs"]
#[allow(dead_code, reason = "other tests place objects by hand")]
mod joining;

mod application;
mod clients;
mod divided;

use std::time::Instant;

use atoll_testkit::{Client, RealCluster, Setup};
use serde_json::Value;

use crate::application::{Application, REPLICAS};
use crate::clients::Clients;
use crate::joining::{Mode, join, start_agent};

/// Replicas after scaling: a node takes at most 110 Pods.
const MANY: i64 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_an_application_moves_between_real_clusters() {
    let began = Instant::now();
    let Some([east, west]) = RealCluster::start() else { return };
    let report_progress = |what: &str| println!("{what} after {:?}", began.elapsed());
    report_progress("two clusters are ready");
    let setup = Setup::new().flag("--cluster-grace-period", 10).flag("--cluster-heartbeat-interval", 2);
    let atoll = setup.start();
    let credentials = tempfile::tempdir().unwrap();
    let control_plane = atoll.kubeconfig();
    join(&control_plane, "east", &east.kubeconfig(), Mode::Push, credentials.path());
    let _syncer =
        start_agent(&join(&control_plane, "west", &west.kubeconfig(), Mode::None, credentials.path()));
    let admin = atoll.admin();
    for cluster in ["east", "west"] {
        application::wait_until_cluster(&admin, cluster, true).await;
    }
    let web = Application::create(&admin).await;
    web.expect_on("east=5 west=5").await;
    report_progress("the application is spread");

    let clients = Clients::start(&admin, web.path(), 200, REPLICAS).await;
    // Seven replicas fit.
    application::limit_cpu(&admin, "west", Some("70m")).await;
    web.annotate(Some("west")).await;
    web.expect_on("east=3 west=7").await;
    web.expect_blocked().await;
    report_progress("the move is blocked, because west has no room for all");
    application::limit_cpu(&admin, "west", None).await;
    web.expect_on("west=10").await;
    report_progress("it has moved to west");
    web.annotate(None).await;
    web.expect_on("east=5 west=5").await;
    report_progress("it is spread again");
    assert!(atoll.run("cluster drain east").contains("Cluster east is drained."));
    web.expect_on("west=10").await;
    report_progress("east is drained");
    atoll.run("cluster uncordon east");
    web.expect_on("east=5 west=5").await;
    report_progress("east has its share again");
    clients.finish("moving and draining").await;

    // A new image reaches both clusters within the budget of the Deployment.
    let clients = Clients::start(&admin, web.path(), 200, REPLICAS - 2).await;
    web.set_image("localhost/web:2").await;
    web.expect_updated().await;
    report_progress("it has a new image");
    web.scale(12).await;
    web.expect_on("east=6 west=6").await;
    web.scale(REPLICAS).await;
    web.expect_on("east=5 west=5").await;
    report_progress("it was scaled");
    clients.finish("changing its image and scaling").await;

    // Requests to a cluster that is cut off fail until its endpoints are not ready any more, then none does.
    east.disconnect();
    application::wait_until_cluster(&admin, "east", false).await;
    web.expect_no_ready_endpoints("east").await;
    // Half of the containers are left, which cannot accept more connections at the same time.
    let clients = Clients::start(&admin, web.path(), 50, 0).await;
    web.expect_replaced("west=10").await;
    report_progress("east is lost, and its share was replaced");
    east.reconnect();
    application::wait_until_cluster(&admin, "east", true).await;
    web.expect_on("east=5 west=5").await;
    report_progress("east is back");
    clients.finish("losing a cluster, and its return").await;

    let Some([north]) = RealCluster::start() else { return };
    report_progress("a third cluster is ready");
    join(&control_plane, "north", &north.kubeconfig(), Mode::Push, credentials.path());
    application::wait_until_cluster(&admin, "north", true).await;
    let all = ["east", "north", "west"];
    let clients = Clients::start(&admin, web.path(), 50, REPLICAS).await;
    web.expect_even(&all, REPLICAS).await;
    clients.finish("a third cluster takes its share").await;
    report_progress("it is spread over three clusters");
    web.scale(MANY).await;
    web.expect_even(&all, MANY).await;
    report_progress("it has a hundred replicas");
    web.set_image("localhost/web:1").await;
    web.expect_updated().await;
    web.expect_even(&all, MANY).await;
    report_progress("all of them have another image");
    let clusters = [&east, &west, &north];
    assert_nothing_was_restarted(&clusters).await;
    web.scale(0).await;
    divided::complete_a_job(&admin, &clusters).await;
    report_progress("a Job ran ten times on three clusters");
    divided::roll_out_one_by_one(&admin, &clusters).await;
    report_progress("ten replicas on three clusters have a new image, with nine ready at any time");
}

/// Containers of an application that only moves are never restarted.
async fn assert_nothing_was_restarted(clusters: &[&RealCluster]) {
    for cluster in clusters {
        let below = Client::from_kubeconfig(&cluster.kubeconfig());
        let pods = below.get("/api/v1/namespaces/default/pods").await.expect(200);
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64();
        for pod in pods["items"].as_array().unwrap() {
            assert_eq!(restarts(pod), Some(0), "{}", pod["status"]);
        }
    }
}
