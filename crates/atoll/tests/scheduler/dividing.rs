//! Jobs and StatefulSets that a policy divides between simulated clusters.

use std::collections::{BTreeMap, BTreeSet};

use atoll_testkit::wait::{Waiting, eventually};
use serde_json::{Value, json};

use crate::fleet::{condition, scale, summary, wait_until};
use crate::simulated::{SimulatedFleet, template};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_ten_completions_over_three_clusters_runs_exactly_ten() {
    let fleet = SimulatedFleet::start(&["east", "north", "west"]).await;
    let division = json!({ "objects": [{ "kind": "Job" }], "replicas": { "division": "Even" } });
    fleet.create_policy("spread", division).await;
    let quick = json!({ "sim.atoll.dev/exit-after": "200ms" });
    let spec = json!({ "completions": 10, "parallelism": 6, "template": template("sum", "Never", quick) });
    let job = json!({ "metadata": { "name": "sum" }, "spec": spec });
    fleet.admin.post(JOBS, job).await.expect(201);
    let at = format!("{JOBS}/sum");
    let done =
        wait_until(&fleet.admin, &at, "the Job is complete", |job| condition(job, "Complete").0 == "True")
            .await;
    let shares = atoll_fleet::Placement::of(&done).clusters;
    let mut parts: Vec<i64> = shares.iter().filter_map(|share| share.completions).collect();
    parts.sort_unstable();
    assert_eq!(parts, [3, 3, 4], "{}", summary(&done));
    assert_eq!(shares.iter().filter_map(|share| share.parallelism).sum::<i64>(), 6);
    assert_eq!(done["status"]["succeeded"], 10, "{}", done["status"]);
    let pods = fleet.objects(PODS).await;
    let completed = |pod: &&Value| pod["status"]["phase"] == "Succeeded";
    for share in &shares {
        let below = &pods[share.name.as_str()];
        assert_eq!(below.iter().filter(completed).count() as i64, share.completions.unwrap(), "{share:?}");
    }
    assert_eq!(pods.values().flatten().count(), 10);
    // The division is fixed: a changed parallelism moves no completion.
    let indexed = json!({
        "metadata": { "name": "indexed" },
        "spec": {
            "completions": 3, "parallelism": 3, "completionMode": "Indexed",
            "template": template("indexed", "Never", json!({ "sim.atoll.dev/exit-after": "100ms" })),
        },
    });
    fleet.admin.post(JOBS, indexed).await.expect(201);
    let at = format!("{JOBS}/indexed");
    let done = wait_until(&fleet.admin, &at, "the Indexed Job is complete", |job| {
        condition(job, "Complete").0 == "True"
    })
    .await;
    assert_eq!(atoll_fleet::Placement::of(&done).clusters.len(), 1, "{}", summary(&done));
}

/// Uids of all claims, and the names of Pods that are on several clusters at once.
async fn look(fleet: &SimulatedFleet, claims: &mut BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    for claim in fleet.objects(CLAIMS).await.values().flatten() {
        let uid = claim["metadata"]["uid"].as_str().unwrap().to_string();
        claims.entry(name(claim)).or_default().insert(uid);
    }
    let mut seen = BTreeSet::new();
    let pods = fleet.objects(PODS).await;
    let mut all: Vec<String> = Vec::new();
    for pod in pods.values().flatten() {
        assert!(seen.insert(name(pod)), "{} runs twice", name(pod));
        all.push(name(pod));
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_a_divided_stateful_set_stay_while_it_is_scaled() {
    let fleet = SimulatedFleet::start(&["east", "west"]).await;
    let division = json!({ "objects": [{ "kind": "StatefulSet" }], "replicas": { "division": "Even" } });
    fleet.create_policy("spread", division).await;
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let selector = json!({ "matchLabels": { "app": "db" } });
    let spec = json!({
        "replicas": 3, "serviceName": "db", "selector": selector, "volumeClaimTemplates": [claim],
        "template": template("db", "Always", json!({})),
    });
    let at = format!("{STATEFUL_SETS}/db");
    let budget =
        json!({ "metadata": { "name": "db" }, "spec": { "selector": selector, "maxUnavailable": 2 } });
    fleet.admin.post(BUDGETS, budget).await.expect(201);
    fleet.admin.post(STATEFUL_SETS, json!({ "metadata": { "name": "db" }, "spec": spec })).await.expect(201);
    let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let by = "by placementpolicy/spread";
    for (replicas, east, west) in [(3, 2, 1), (5, 2, 3), (1, 1, 0), (3, 2, 1)] {
        if !claims.is_empty() {
            scale(&fleet.admin, &at, replicas).await;
        }
        let what = format!("{replicas} Pods run");
        let waiting = Waiting::until(&what);
        let expected: Vec<String> = (0..replicas).map(|ordinal| format!("db-{ordinal}")).collect();
        loop {
            // No ordinal ever runs twice.
            let running = look(&fleet, &mut claims).await;
            let set = fleet.admin.get(&at).await.expect(200);
            let is_placed = summary(&set) == format!("east={east}=0 west={west}=2 {by}");
            if running == expected && set["status"]["readyReplicas"] == replicas && is_placed {
                break;
            }
            waiting.again().await;
        }
        // The numbers of the budget follow, and are two together.
        eventually("the budget is divided", async || {
            let budgets = fleet.objects(BUDGETS).await;
            let numbers = budgets.values().flatten().map(|budget| budget["spec"]["maxUnavailable"].as_i64());
            let numbers: Vec<i64> = numbers.map(|number| number.unwrap_or(-1)).collect();
            numbers.iter().sum::<i64>() == 2.min(replicas)
                && numbers.iter().zip([east, west]).all(|(number, pods)| *number <= pods)
        })
        .await;
    }
    let uids: Vec<(&str, usize)> = claims.iter().map(|(name, uids)| (name.as_str(), uids.len())).collect();
    let expected = ["data-db-0", "data-db-1", "data-db-2", "data-db-3", "data-db-4"].map(|name| (name, 1));
    assert_eq!(uids, expected, "each claim has one uid: {claims:?}");
}
