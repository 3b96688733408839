//! The other workloads, and the autoscaler.

use serde_json::json;

use super::{NODES, is_running_of, node, template};
use crate::api::{Api, ScenarioResult};

/// A StatefulSet with three ordered pods is scaled up, updated and scaled down, with a claim for each pod.
pub async fn stateful_set(api: &Api) -> ScenarioResult {
    let place = "apps/v1 statefulsets/db";
    let mut template = template("db");
    template["spec"]["terminationGracePeriodSeconds"] = json!(1);
    let object = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template,
        },
    });
    api.create("apps/v1 statefulsets", object).await?;
    api.until("three ready replicas", place, |object| object["status"]["readyReplicas"] == 3).await?;
    for name in ["db-0", "db-1", "db-2"] {
        api.get(&format!("pods/{name}")).await?;
    }
    api.merge(&format!("{place}/scale"), json!({"spec": {"replicas": 4}})).await?;
    api.until("four ready replicas", place, |object| object["status"]["readyReplicas"] == 4).await?;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example.com/main:2"}]}}}});
    api.merge(place, image).await?;
    let updated = |object: &serde_json::Value| {
        let status = &object["status"];
        status["updatedReplicas"] == 4
            && status["readyReplicas"] == 4
            && status["currentRevision"] == status["updateRevision"]
    };
    api.until("the new version everywhere", place, updated).await?;
    api.merge(place, json!({"spec": {"replicas": 2}})).await?;
    api.until_gone("pods/db-3").await?;
    api.until_gone("pods/db-2").await?;
    api.until("two replicas", place, |object| object["status"]["replicas"] == 2).await.map(drop)
}

/// A DaemonSet has a pod on each node, and on a node that is added later.
pub async fn daemon_set(api: &Api) -> ScenarioResult {
    let place = "apps/v1 daemonsets/agent";
    let mut template = template("agent");
    // Not on a node of another scenario.
    template["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    });
    api.create("apps/v1 daemonsets", object).await?;
    api.until("a pod on each node", place, |object| object["status"]["numberReady"] == NODES).await?;
    api.create("/api/v1/nodes", node("late")).await?;
    api.until("a pod on the new node", place, |object| object["status"]["numberReady"] == NODES + 1)
        .await
        .map(drop)
}

/// A Job with five completions and a parallelism of two completes and is deleted after its TTL.
pub async fn job(api: &Api) -> ScenarioResult {
    let mut template = template("work");
    template["spec"]["restartPolicy"] = json!("Never");
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"completions": 5, "parallelism": 2, "ttlSecondsAfterFinished": 3, "template": template},
    });
    api.create("batch/v1 jobs", object).await?;
    let complete = |object: &serde_json::Value| {
        let conditions = object["status"]["conditions"].as_array();
        object["status"]["succeeded"] == 5
            && conditions
                .is_some_and(|all| all.iter().any(|one| one["type"] == "Complete" && one["status"] == "True"))
    };
    api.until("a complete job", "batch/v1 jobs/work", complete).await?;
    api.until_gone("batch/v1 jobs/work").await?;
    api.until_count("pods left", "pods", 0, |_| true).await
}

/// A CronJob creates a Job at the next minute.
pub async fn cron_job(api: &Api) -> ScenarioResult {
    let mut template = template("tick");
    template["spec"]["restartPolicy"] = json!("OnFailure");
    let object = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
    });
    api.create("batch/v1 cronjobs", object).await?;
    api.until("a time when it was scheduled", "batch/v1 cronjobs/tick", |object| {
        object["status"]["lastScheduleTime"].is_string()
    })
    .await?;
    api.until_count("completed jobs", "batch/v1 jobs", 1, |job| job["status"]["succeeded"] == 1).await
}

/// Without metrics the autoscaler keeps the minimum and reports the missing metrics.
pub async fn autoscaler(api: &Api) -> ScenarioResult {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "few"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "few"}}, "template": template("few")},
    });
    api.create("apps/v1 deployments", deployment).await?;
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "few"},
        "spec": {
            "minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "few"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    api.create("autoscaling/v2 horizontalpodautoscalers", autoscaler).await?;
    api.until_count("pods that run", "pods", 3, is_running_of("few")).await?;
    api.until("conditions", "autoscaling/v2 horizontalpodautoscalers/few", |object| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter().any(|one| one["type"] == "ScalingActive" && one["status"] == "False")
        })
    })
    .await
    .map(drop)
}
