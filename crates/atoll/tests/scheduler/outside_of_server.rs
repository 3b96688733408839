//! `atoll controllers`: the scheduler outside of the server.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Process, Setup};
use serde_json::{Value, json};

use crate::fleet::{DEPLOYMENTS, annotated, deployment, expect_placed, join, path, scale, summary};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/atoll-scheduler";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

fn start() -> Atoll {
    Setup::new()
        .flag("--controllers", "*,-placementscheduler,-clusterhealth")
        .tokens(
            "ann,ann,1
",
        )
        .start()
}

fn start_scheduler(atoll: &Atoll) -> Process {
    let mut command = atoll.command("controllers --controllers placementscheduler");
    command.arg("--kubeconfig").arg(atoll.kubeconfig());
    Process::start(&mut command, "Running controllers").unwrap()
}

/// A placement that is written directly.
fn on(cluster: &str) -> Value {
    json!({ "spec": { "clusters": [{ "name": cluster }] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_outside_of_the_server_places_workloads() {
    let atoll = start();
    let admin = atoll.admin();
    join(&admin, "east", 4).await;
    join(&admin, "west", 16).await;
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    assert_eq!(summary(&admin.get(&path("web")).await.expect(200)), "nowhere", "no scheduler runs");
    let _scheduler = start_scheduler(&atoll);
    expect_placed(&admin, &path("web"), "west=3 by default").await;
    scale(&admin, &path("web"), 5).await;
    expect_placed(&admin, &path("web"), "west=5 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn placements_of_a_scheduler_outside_of_the_server_are_protected() {
    let atoll = start();
    let admin = atoll.admin();
    join(&admin, "east", 4).await;
    join(&admin, "west", 16).await;
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    let placement = format!("{}/placement", path("web"));
    admin.merge(&placement, on("east")).await.expect(200);
    let scheduler = start_scheduler(&atoll);
    admin.post(DEPLOYMENTS, annotated(deployment("api", 3, 100), "east")).await.expect(201);
    expect_placed(&admin, &path("api"), "east=3 by annotation").await;
    // An administrator has the same credential as the scheduler, and is told what to do instead.
    let api = format!("{}/placement", path("api"));
    let refused = admin.merge(&api, on("west")).await.expect_status(403, "Forbidden");
    let remedy = "the scheduler makes this placement; set the annotation instead: kubectl annotate deployment api \
                  atoll.dev/clusters=west --overwrite";
    assert!(refused.contains(remedy), "{refused}");
    let printed = atoll.run("place deploy/api --on west");
    assert!(printed.contains("is placed on west"), "{printed}");
    expect_placed(&admin, &path("api"), "west=3 by annotation").await;

    // On clusters of workspaces above, users do not even place what the scheduler leaves alone.
    admin.post(WORKSPACES, json!({ "metadata": { "name": "team" } })).await.expect(201);
    let team = admin.workspace("root:team");
    eventually("the workspace is there", async || team.get("/api/v1/namespaces/default").await.status == 200)
        .await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": { "name": "ann" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "ann" }],
    });
    team.post(&format!("/apis/{group}/v1/clusterrolebindings"), binding).await.expect(201);
    let ann = team.token("ann");
    let owner = ann.post(DEPLOYMENTS, deployment("owner", 1, 100)).await.expect(201);
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
    });
    let mut owned = deployment("owned", 1, 100);
    owned["metadata"]["ownerReferences"] = json!([owner]);
    ann.post(DEPLOYMENTS, owned).await.expect(201);
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "owned" });
    let autoscaler =
        json!({ "metadata": { "name": "owned" }, "spec": { "scaleTargetRef": target, "maxReplicas": 9 } });
    ann.post(AUTOSCALERS, autoscaler).await.expect(201);
    for (path, reason) in [
        (path("owned"), "belongs to a workspace above"),
        (format!("{AUTOSCALERS}/owned"), "act in the control plane"),
    ] {
        let refused = ann.merge(&format!("{path}/placement"), on("west")).await;
        let refused = refused.expect_status(403, "Forbidden");
        assert!(refused.contains(reason), "{refused}");
    }

    // When it has stopped, placements are written directly again.
    admin.get(LEASE).await.expect(200);
    scheduler.stop();
    admin.get(LEASE).await.expect(404);
    admin.merge(&api, on("east")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_that_only_the_server_can_run_are_refused() {
    let atoll = start();
    let run = |names: &str| {
        let kubeconfig = atoll.kubeconfig();
        atoll.run_failing(&format!("controllers --controllers {names} --kubeconfig {}", kubeconfig.display()))
    };
    for (names, named) in [
        ("clusterpush", "cluster-push-controller"),
        ("placementscheduler,cluster-push-controller", "cluster-push-controller"),
        ("csrsigning,*", "certificatesigningrequest-signing-controller"),
    ] {
        let errors = run(names);
        assert!(errors.contains(&format!("{named}: only the server can run this")), "{names}: {errors}");
    }
}
