//! A cluster of a tenant cannot define what the tenant could not define.

use atoll_testkit::names;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const IMPORTS: &str = "/apis/atoll.dev/v1alpha1/apiimports";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str, plural: &str, schema: Value) -> Value {
    json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": plural, "singular": "one", "kind": "One", "listKind": "OneList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

fn report(definitions: &[Value]) -> Value {
    let digests: serde_json::Map<String, Value> = definitions
        .iter()
        .map(|one| (one["metadata"]["name"].as_str().unwrap().to_string(), "a".into()))
        .collect();
    let complete: Vec<Value> =
        definitions.iter().map(|one| json!({ "digest": "a", "definition": one })).collect();
    json!({ "definitions": { "digests": digests, "complete": complete } })
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_define_nothing_that_is_reserved() {
    let server = TenantServer::start(&["ann", "bob"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "ann", "ann").await;
    create_tenant_workspace(&admin, "root", "bob", "bob").await;
    let (ann, bob) = (server.user("ann", "root:ann"), server.user("bob", "root:bob"));
    bob.post(CLUSTERS, json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } }))
        .await
        .expect(201);
    let object = || json!({ "type": "object" });
    let good = definition("example.com", "widgets", object());
    let bad = [
        definition("apps", "deployments", object()),
        definition("atoll.dev", "gadgets", object()),
        definition("apiextensions.k8s.io", "customresourcedefinitions", object()),
        definition("gateway.networking.k8s.io", "gateways", object()),
        definition(
            "example.com",
            "lists",
            json!({ "type": "object", "properties": { "a": { "type": "array" } } }),
        ),
    ];
    let all: Vec<Value> = bad.iter().chain([&good]).cloned().collect();
    bob.post("/services/sync/east", report(&all)).await.expect(200);
    eventually("every import is judged", async || {
        let imports = bob.get(IMPORTS).await.expect(200);
        let items = imports["items"].as_array().unwrap().clone();
        items.len() == all.len() && items.iter().all(|import| import["status"]["conditions"].is_array())
    })
    .await;
    for one in &bad {
        let name = one["metadata"]["name"].as_str().unwrap();
        let import = bob.get(&format!("{IMPORTS}/{name}.east")).await.expect(200);
        let offered = &import["status"]["conditions"][0];
        assert_eq!(
            (&offered["status"], &offered["reason"]),
            (&json!("False"), &json!("Invalid")),
            "{import}"
        );
        assert_ne!(offered["message"], "");
    }
    assert_eq!(names(&bob.get(DEFINITIONS).await.expect(200)), ["widgets.example.com"]);
    let deployments = bob.get("/apis/apps/v1").await.expect(200);
    assert!(deployments["resources"].as_array().unwrap().iter().any(|one| one["kind"] == "Deployment"));
    // Other tenants and the workspace above do not see it.
    for other in [&ann, &admin] {
        assert_eq!(names(&other.get(DEFINITIONS).await.expect(200)), Vec::<String>::new());
        other.get("/apis/example.com/v1/namespaces/default/widgets").await.expect_status_code(404);
    }
    // Users do not write imports.
    let import = format!("{IMPORTS}/widgets.example.com.east");
    bob.merge(&import, json!({ "spec": { "served": false } })).await.expect_status(405, "MethodNotAllowed");
    bob.merge(&format!("{import}/status"), json!({ "status": {} }))
        .await
        .expect_status(405, "MethodNotAllowed");
    // Nor do agents report about other clusters or with names that lead elsewhere.
    ann.post("/services/sync/east", report(&[])).await.expect_status(404, "NotFound");
    let strange = json!({ "definitions": { "digests": { "../clusters/east": "a" } } });
    bob.post("/services/sync/east", strange).await.expect_status(400, "BadRequest");
}

/// A report of a few KB whose comparison with objects takes minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_comparison_ends_and_delays_no_other_tenant() {
    let server = TenantServer::start(&["ann", "bob"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "ann", "ann").await;
    create_tenant_workspace(&admin, "root", "bob", "bob").await;
    let (ann, bob) = (server.user("ann", "root:ann"), server.user("bob", "root:bob"));
    for (user, cluster) in [(&ann, "east"), (&ann, "west"), (&bob, "east")] {
        let cluster = json!({ "metadata": { "name": cluster }, "spec": { "mode": "none" } });
        user.post(CLUSTERS, cluster).await.expect(201);
    }
    let texts = |items: Value| {
        let properties = json!({ "t": { "type": "array", "items": items } });
        definition("example.com", "widgets", json!({ "type": "object", "properties": properties }))
    };
    let east = texts(json!({ "type": "string" }));
    ann.post("/services/sync/east", report(&[east])).await.expect(200);
    let objects = "/apis/example.com/v1/namespaces/default/widgets";
    eventually("it is served", async || ann.get(objects).await.status == 200).await;
    // Random text: a pattern that counts has many states for it.
    let mut random = 1_u32;
    let text: String = (0..65_536)
        .map(|_| {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            if random & 1 == 0 { 'a' } else { 'b' }
        })
        .collect();
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "One", "metadata": { "name": "one" }, "t": vec![text; 40],
    });
    ann.post(objects, object).await.expect(201);
    let patterns: Vec<Value> = (0..40)
        .map(|number| json!({ "pattern": format!("^([ab]*a[ab]{{{}}}|[ab]*)$", 950 + number) }))
        .collect();
    let west = texts(json!({ "type": "string", "allOf": patterns }));
    ann.post("/services/sync/west", report(&[west])).await.expect(200);
    let other = definition("example.org", "gadgets", json!({ "type": "object" }));
    bob.post("/services/sync/east", report(&[other])).await.expect(200);
    eventually("another tenant's definition is offered", async || {
        names(&bob.get(DEFINITIONS).await.expect(200)) == ["gadgets.example.org"]
    })
    .await;
    let compatible = async |cluster: &str| {
        let import = ann.get(&format!("{IMPORTS}/widgets.example.com.{cluster}")).await.expect(200);
        import["status"]["conditions"][1].clone()
    };
    eventually("the slow one is judged", async || compatible("west").await.is_object()).await;
    let slow = compatible("west").await;
    assert_eq!(slow["reason"], "Incompatible");
    assert!(slow["message"].as_str().unwrap().contains("takes too long to compare"), "{slow}");
    assert_eq!(compatible("east").await["reason"], "Compatible");
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_count_for_the_limits_of_the_workspace() {
    let server = TenantServer::start(&["bob"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "bob", "bob").await;
    let bob = server.user("bob", "root:bob");
    bob.post(CLUSTERS, json!({ "metadata": { "name": "east" }, "spec": { "mode": "none" } }))
        .await
        .expect(201);
    let limits = json!({ "spec": { "limits": { "definitions": 2 } } });
    admin.merge("/apis/atoll.dev/v1alpha1/workspaces/bob", limits).await.expect(200);
    let all: Vec<Value> = (0..4)
        .map(|number| definition("example.com", &format!("w{number}s"), json!({ "type": "object" })))
        .collect();
    bob.post("/services/sync/east", report(&all)).await.expect(200);
    eventually("as many as fit are offered", async || {
        names(&bob.get(DEFINITIONS).await.expect(200)) == ["w0s.example.com", "w1s.example.com"]
    })
    .await;
    let cluster = bob.get(&format!("{CLUSTERS}/east")).await.expect(200);
    let conditions = cluster["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == "ApisImported").unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NotImported")));
    assert!(condition["message"].as_str().unwrap().contains("w2s.example.com"), "{condition}");
}
