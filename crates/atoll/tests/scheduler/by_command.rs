//! `atoll place` writes what a user asks for, and the scheduler makes the placement.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::fleet::{deployment, expect_placed, path, scale, with_clusters};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

async fn intent(admin: &Client, path: &str) -> Value {
    let object = admin.get(path).await.expect(200);
    object["metadata"]["annotations"]["atoll.dev/clusters"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_place_are_weights_unless_exact() {
    let (atoll, admin) = with_clusters(&[("east", 10), ("west", 10)]).await;
    let web = path("web");
    admin.post(crate::fleet::DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    assert_eq!(
        atoll.run("place deploy/web --on east=2,west=1"),
        "Deployment default/web is placed on east (2) and west (1).\n"
    );
    assert_eq!(intent(&admin, &web).await, "east=2,west=1");
    scale(&admin, &web, 6).await;
    expect_placed(&admin, &web, "east=4 west=2 by annotation").await;
    assert_eq!(
        atoll.run("place deploy/web --on east=1,west=1 --exactly"),
        "Deployment default/web is placed on east (1) and west (1).\n"
    );
    assert_eq!(intent(&admin, &web).await, "east==1,west==1");
    let errors = atoll.run_failing("place deploy/web --on east,west=1");
    assert!(errors.contains("mixes forms"), "{errors}");
    let errors = atoll.run_failing("place deploy/web --on east --exactly");
    assert_eq!(errors, "error: --exactly needs a number for east\nhint: as in: --on east=2 --exactly\n");
    let printed = atoll.run("place deploy/web --on none");
    assert!(printed.starts_with("Deployment default/web is placed on no cluster"), "{printed}");
    assert_eq!(intent(&admin, &web).await, "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_reported_before_anything_is_written() {
    let (atoll, admin) = with_clusters(&[("east", 10), ("west", 10)]).await;
    admin.post(crate::fleet::DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    atoll.run("place deploy/web --on east");
    assert_eq!(
        atoll.run("place deploy/web --on west --dry-run"),
        "Deployment default/web is placed on west; it is being removed from east (dry run).\n"
    );
    assert_eq!(intent(&admin, &path("web")).await, "east");
    atoll.run("cluster cordon west");
    let errors = atoll.run_failing("place deploy/web --on west");
    assert!(errors.contains("cluster west is cordoned"), "{errors}");
    assert_eq!(intent(&admin, &path("web")).await, "east");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_runs_once_is_duplicated_only_if_asked_to() {
    let (atoll, admin) = with_clusters(&[("east", 10), ("west", 10)]).await;
    let job = json!({
        "metadata": { "name": "once" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "once", "image": "once" }],
        } } },
    });
    admin.post(JOBS, job).await.expect(201);
    let errors = atoll.run_failing("place job/once --on east,west");
    assert!(errors.contains("a Job must not be duplicated") && errors.contains("--duplicate"), "{errors}");
    let printed = atoll.run("place job/once --on east,west --duplicate");
    assert_eq!(printed, "Job default/once is placed on east and west.\n");
    assert_eq!(intent(&admin, &format!("{JOBS}/once")).await, "east=all,west=all");
}
