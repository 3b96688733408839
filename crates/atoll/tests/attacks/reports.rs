//! Only the server writes the reports of clusters: a forged one could change the status of an object.

use atoll_testkit::wait::eventually;
use atoll_testkit::{RequestContent, Watch};
use http::Method;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

const STATUSES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn balanced(ip: &str) -> Value {
    json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn users_cannot_write_reports() {
    let server = TenantServer::start(&["ann", "bob"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "ann", "ann").await;
    create_tenant_workspace(&admin, "root", "bob", "bob").await;
    let (ann, bob) = (server.user("ann", "root:ann"), server.user("bob", "root:bob"));
    let id = admin.get("/apis/atoll.dev/v1alpha1/workspaces/bob").await.expect(200)["status"]["id"].clone();
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } });
    bob.post("/apis/atoll.dev/v1alpha1/clusters", cluster).await.expect(201);
    let service = json!({ "metadata": { "name": "web" }, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] } });
    let service = bob.post(SERVICES, service).await.expect(201);
    let placement = json!({ "spec": { "clusters": [{ "name": "east" }] } });
    bob.merge(&format!("{SERVICES}/web/placement"), placement).await.expect(200);
    let _view = Watch::open(&bob, "/services/sync/east").await;
    let record = json!({
        "resource": { "version": "v1", "resource": "services", "kind": "Service", "namespaced": true },
        "workspace": id, "namespace": "default", "name": "web", "uid": service["metadata"]["uid"],
        "state": "Applied", "generation": 1, "observed": true, "status": balanced("10.9.9.9"),
    });
    let report = json!({ "records": [&record], "run": 1, "number": 1 });
    bob.post("/services/sync/east", report).await.expect(200);
    let address = async || {
        let service = bob.get(&format!("{SERVICES}/web")).await.expect(200);
        service["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
    };
    eventually("the report is in the status", async || address().await == "10.9.9.9").await;
    // The kind is not the agent's to choose.
    let mut renamed = record.clone();
    renamed["resource"]["kind"] = "Other".into();
    renamed["status"] = balanced("10.6.6.6");
    for (number, record) in [(2, renamed), (3, record)] {
        let report = json!({ "records": [record], "run": 1, "number": number });
        bob.post("/services/sync/east", report).await.expect(200);
        let statuses = bob.get(STATUSES).await.expect(200)["items"].clone();
        assert_eq!(statuses[0]["status"]["status"], balanced("10.9.9.9"));
    }
    let reports = async || bob.get(STATUSES).await.expect(200)["items"].clone();
    let before = reports().await;
    let name = before[0]["metadata"]["name"].as_str().unwrap().to_owned();

    let forged = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ObjectStatus", "metadata": { "name": "forged" },
        "spec": {
            "uid": service["metadata"]["uid"], "cluster": "evil", "clusterUID": "u", "namespace": "default", "name": "web",
            "resource": { "group": "", "version": "v1", "resource": "services" },
        },
        "status": { "state": "Applied", "generation": 1, "observed": true, "status": balanced("6.6.6.6") },
    });
    for tenant in [&ann, &bob] {
        tenant.post(STATUSES, forged.clone()).await.expect_status(405, "MethodNotAllowed");
    }
    let path = format!("{STATUSES}/{name}");
    for path in [path.clone(), format!("{path}/status")] {
        bob.merge(&path, json!({ "status": { "status": balanced("6.6.6.6") } }))
            .await
            .expect_status(405, "MethodNotAllowed");
        let content = RequestContent::Json(before[0].clone());
        bob.request(Method::PUT, &path, content).await.expect_status(405, "MethodNotAllowed");
    }
    assert_eq!((reports().await, address().await), (before, json!("10.9.9.9")));
}
