//! Releases whose fields another manager or another version of Helm has set.

use atoll_testkit::ApiResponse;
use serde_json::{Value, json};

use super::releases::revisions;
use super::site::{HELM_3, HELM_4, NAME, RELEASE, Site, Sites};
use super::state::{State, assert_same, releases, state};

type Steps = Vec<(&'static str, State)>;

fn compare(on_atoll: &Steps, on_upstream: &Steps) {
    for ((step, on_atoll), (_, on_upstream)) in on_atoll.iter().zip(on_upstream) {
        assert_same(step, on_atoll, on_upstream);
    }
}

/// Applies to the chart's Deployment as another manager, with force.
async fn apply(site: &Site, manager: &str, spec: Value) -> ApiResponse {
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments/{NAME}?fieldManager={manager}&force=true",
        site.namespace
    );
    let object =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": NAME }, "spec": spec });
    site.client().apply(&path, object).await
}

fn deployment(state: &State) -> &Value {
    &state[&format!("deployments/{NAME}")]
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_4_fails_on_fields_of_another_manager() {
    let Some(sites) = Sites::start("contested") else { return };
    let (on_atoll, on_upstream) =
        tokio::join!(run_with_conflict(&sites.on_atoll), run_with_conflict(&sites.on_upstream));
    compare(&on_atoll, &on_upstream);
}

async fn run_with_conflict(site: &Site) -> Steps {
    let helm = site.helm(HELM_4);
    let mut steps = Steps::new();
    helm.run(&format!("install {RELEASE} CHART --create-namespace --no-hooks")).await;
    let applied = apply(site, "autoscaler", json!({ "replicas": 9 })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());

    let upgrade = format!("upgrade {RELEASE} CHART --no-hooks --values CHART/upgraded.yaml");
    let refused = helm.try_run(&upgrade).await;
    assert!(!refused.success, "{refused:?}");
    for part in ["conflict with \"autoscaler\"", ".spec.replicas"] {
        assert!(refused.errors.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(releases(site, RELEASE).await, revisions(&["deployed", "failed"]));
    let contested = state(site).await;
    assert_eq!(deployment(&contested)["spec"]["replicas"], 9);
    steps.push(("a conflict", contested));

    helm.run(&format!("{upgrade} --force-conflicts")).await;
    let forced = state(site).await;
    assert_eq!(deployment(&forced)["spec"]["replicas"], 5);
    steps.push(("an upgrade with force", forced));

    // A rollback keeps fields that Helm does not set.
    let applied = apply(site, "autoscaler", json!({ "minReadySeconds": 7 })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    helm.run(&format!("rollback {RELEASE} 1 --no-hooks")).await;
    let back = state(site).await;
    let spec = &deployment(&back)["spec"];
    assert_eq!((&spec["replicas"], &spec["minReadySeconds"]), (&json!(2), &json!(7)));
    steps.push(("a rollback", back));
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_4_takes_over_a_release_of_helm_3() {
    let Some(sites) = Sites::start("inherited") else { return };
    let (on_atoll, on_upstream) =
        tokio::join!(run_with_takeover(&sites.on_atoll), run_with_takeover(&sites.on_upstream));
    compare(&on_atoll, &on_upstream);
}

async fn run_with_takeover(site: &Site) -> Steps {
    let (three, four) = (site.helm(HELM_3), site.helm(HELM_4));
    let mut steps = Steps::new();
    three.run(&format!("install {RELEASE} CHART --create-namespace --no-hooks")).await;
    assert_eq!(four.json("list").await[0]["status"], "deployed");

    // Helm 4 keeps the method with which the release was installed: merging.
    let upgrade = format!("upgrade {RELEASE} CHART --no-hooks --values CHART/upgraded.yaml");
    four.run(&upgrade).await;
    let merged = state(site).await;
    assert_eq!(deployment(&merged)["spec"]["replicas"], 5);
    steps.push(("an upgrade by Helm 4", merged));

    // From now on with server-side apply. Fields that Helm no longer sets must be removed.
    four.run(&format!("upgrade {RELEASE} CHART --no-hooks --reset-values --server-side=true")).await;
    let applied = state(site).await;
    let containers = &deployment(&applied)["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().unwrap().len(), 1, "{containers}");
    let managers = &deployment(&applied)["metadata"]["managedFields"];
    assert!(managers.as_array().unwrap().iter().all(|entry| entry["operation"] == "Apply"), "{managers}");
    steps.push(("an upgrade with server-side apply", applied));

    four.run(&format!("rollback {RELEASE} 2 --no-hooks")).await;
    let back = state(site).await;
    assert_eq!(deployment(&back)["spec"]["replicas"], 5);
    steps.push(("a rollback to what was merged", back));
    let statuses = ["superseded", "superseded", "superseded", "deployed"];
    assert_eq!(releases(site, RELEASE).await, revisions(&statuses));
    steps
}
