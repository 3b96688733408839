//! `atoll controllers`: the scheduler outside of the server.

use atoll_testkit::{Process, Setup};

use crate::fleet::{DEPLOYMENTS, deployment, expect_placed, join, path, scale, summary};

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_outside_of_the_server_places_workloads() {
    let atoll = Setup::new().flag("--controllers", "*,-placementscheduler,-clusterhealth").start();
    let admin = atoll.admin();
    join(&admin, "east", 4).await;
    join(&admin, "west", 16).await;
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    assert_eq!(summary(&admin.get(&path("web")).await.expect(200)), "nowhere", "no scheduler runs");
    let mut command = atoll.command("controllers --controllers placementscheduler");
    command.arg("--kubeconfig").arg(atoll.kubeconfig());
    let _scheduler = Process::start(&mut command, "Running controllers").unwrap();
    expect_placed(&admin, &path("web"), "west=3 by default").await;
    scale(&admin, &path("web"), 5).await;
    expect_placed(&admin, &path("web"), "west=5 by default").await;
}
