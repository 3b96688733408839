//! Objects that the server reads to admit other requests do not make admission slow.

use atoll_testkit::wait::eventually;
use serde_json::{Map, Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

const LIMIT_RANGES: &str = "/api/v1/namespaces/default/limitranges";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn resources(count: usize) -> Map<String, Value> {
    (0..count).map(|number| (format!("example.com/r{number}"), json!("1"))).collect()
}

fn limit_range(name: &str, count: usize) -> Value {
    let limit = json!({ "type": "Container", "default": resources(count) });
    json!({ "metadata": { "name": name }, "spec": { "limits": [limit] } })
}

fn pod(name: &str, containers: usize) -> Value {
    let containers: Vec<Value> =
        (0..containers).map(|number| json!({ "name": format!("c{number}"), "image": "app" })).collect();
    json!({ "metadata": { "name": name }, "spec": { "containers": containers } })
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_admission_reads_are_small() {
    let server = TenantServer::start(&["owner"], &[]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let described = |name: &str| json!({ "metadata": { "name": name }, "value": 1, "description": "x".repeat(300 << 10) });
    let referring = |name: &str| {
        let secrets: Vec<Value> =
            (0..20_000).map(|number| json!({ "name": format!("secret-{number}") })).collect();
        json!({ "metadata": { "name": name }, "secrets": secrets })
    };
    for (path, object, expected) in [
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            described("large"),
            "all priorityclasses of the workspace would have more than 256 KiB",
        ),
        (
            LIMIT_RANGES,
            limit_range("large", 10_000),
            "all limitranges of namespace \"default\" would have more",
        ),
        ("/api/v1/namespaces/default/serviceaccounts", referring("large"), "it would have more than 256 KiB"),
    ] {
        let message = owner.post(path, object).await.expect_status(403, "Forbidden");
        assert!(message.contains(expected), "{message}");
    }
    // Many small ones are limited as well.
    let mut created = 0;
    let refused = loop {
        let answer = owner.post(LIMIT_RANGES, limit_range(&format!("range-{created}"), 500)).await;
        if answer.status != 201 {
            break answer.expect_status(403, "Forbidden");
        }
        created += 1;
        assert!(created < 30, "{created} LimitRanges are accepted");
    };
    assert!(
        refused.contains("all limitranges of namespace \"default\" would have more than 256 KiB"),
        "{refused}"
    );
    assert!(created > 5, "{created} LimitRanges are accepted");
    // So are ServiceCIDRs, which are read for every new Service, and their status.
    let ranges = "/apis/networking.k8s.io/v1/servicecidrs";
    let annotated = |number: usize| {
        let metadata =
            json!({ "name": format!("range-{number}"), "annotations": { "a": "x".repeat(100 << 10) } });
        json!({ "metadata": metadata, "spec": { "cidrs": [format!("10.{number}.0.0/24")] } })
    };
    let expected = "all servicecidrs of the workspace would have more than 256 KiB";
    for number in 0..2 {
        owner.post(ranges, annotated(number)).await.expect(201);
    }
    let refused = owner.post(ranges, annotated(2)).await.expect_status(403, "Forbidden");
    assert!(refused.contains(expected), "{refused}");
    let condition = |number: usize| {
        json!({
            "type": format!("C{number}"), "status": "True", "reason": "R", "message": "x".repeat(30_000),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({ "status": { "conditions": (0..5).map(condition).collect::<Vec<Value>>() } });
    let refused = owner.merge(&format!("{ranges}/range-0/status"), status).await;
    let refused = refused.expect_status(403, "Forbidden");
    assert!(refused.contains(expected), "{refused}");
    let smaller = json!({ "spec": limit_range("", 1)["spec"] });
    owner.merge(&format!("{LIMIT_RANGES}/range-0"), smaller).await.expect(200);
}

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

fn quota(name: &str, hard: &Map<String, Value>) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "hard": hard } })
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_count_few_resources() {
    let server = TenantServer::start(&["owner"], &[]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    let counted = |from: usize, count: usize| -> Map<String, Value> {
        (from..from + count).map(|number| (format!("count/r{number}.example.com"), json!("1"))).collect()
    };
    let message = owner.post(QUOTAS, quota("large", &counted(0, 257))).await.expect_status(403, "Forbidden");
    let expected = "spec.hard has 257 names that begin with count/; at most 256 are allowed in one quota";
    assert!(message.contains(expected), "{message}");
    // Quotas of resources that do not exist do not keep others from being counted.
    for number in 0..5 {
        let object = quota(&format!("large-{number}"), &counted(number * 256, 256));
        owner.post(QUOTAS, object).await.expect(201);
    }
    let admin = server.admin();
    let hard = Map::from_iter([("count/deployments.apps".to_owned(), json!("1"))]);
    admin.post(QUOTAS, quota("small", &hard)).await.expect(201);
    let used = async || admin.get(&format!("{QUOTAS}/small")).await.expect(200)["status"]["used"].take();
    eventually("the quota is counted", async || used().await == json!({ "count/deployments.apps": "0" }))
        .await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": pod("a", 1)["spec"] });
    let spec = json!({ "selector": { "matchLabels": { "app": "a" } }, "template": template });
    let deployment = json!({ "metadata": { "name": "a" }, "spec": spec });
    admin.post(deployments, deployment).await.expect(201);
    assert_eq!(used().await, json!({ "count/deployments.apps": "1" }));
    admin.delete(&format!("{deployments}/a")).await.expect(200);
    eventually("the deletion is counted", async || used().await == json!({ "count/deployments.apps": "0" }))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_many_containers_are_not_multiplied() {
    let server = TenantServer::start(&["owner"], &[]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    owner.post(LIMIT_RANGES, limit_range("many", 1000)).await.expect(201);
    let before = server.atoll.resident();
    let message = owner.post(PODS, pod("large", 1000)).await.expect_status(403, "Forbidden");
    let expected = "the LimitRanges of the namespace have 2000 limits of containers, and the Pod has 1000 containers; \
                    their product must be at most 100000";
    assert!(message.contains(expected), "{message}");
    let grown = server.atoll.resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB more", grown >> 20);
}
