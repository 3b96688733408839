//! Large requests of a tenant do not keep the server from others.

use atoll_testkit::wait::{eventually, within};
use atoll_testkit::{APPLY, ApiResponse, Atoll, Client, RequestContent, Setup};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, definition, tenant};
use crate::support::CONFIG_MAPS;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LISTS: &str = "/apis/example.com/v1/namespaces/default/lists";

/// Number of small requests that must be answered before the large ones.
const SMALL_REQUESTS: usize = 20;

/// Starts a server that handles all requests on one thread, so that one large request would delay all others.
fn start_on_one_thread() -> Atoll {
    Setup::new().flag("--controllers", false).variable("TOKIO_WORKER_THREADS", 1).start()
}

/// Sends several large requests at once. Returns their answers, after small requests of another client were
/// answered before all of them.
async fn send_beside_others(
    atoll: &Atoll,
    tenant: &Client,
    (method, path, kind, body): (Method, &str, &'static str, String),
) -> Vec<ApiResponse> {
    let body = Bytes::from(body);
    let large: Vec<_> = (0..3)
        .map(|_| {
            let (tenant, method, path, body) =
                (tenant.clone(), method.clone(), path.to_owned(), body.clone());
            tokio::spawn(async move { tenant.request(method, &path, RequestContent::Raw(kind, body)).await })
        })
        .collect();
    let mut other = atoll.admin().http1().await.unwrap();
    let mut answered = 0;
    while !large.iter().all(|request| request.is_finished()) {
        let small =
            other.request(Method::GET, "/api/v1/namespaces/default", RequestContent::None).await.unwrap();
        small.expect(200);
        answered += 1;
    }
    assert!(answered >= SMALL_REQUESTS, "{answered} small requests were answered before {method} {path}");
    let mut answers = Vec::new();
    for request in large {
        answers.push(request.await.unwrap());
    }
    answers
}

fn deployment(variables: usize) -> Value {
    let variables: Vec<Value> =
        (0..variables).map(|number| json!({ "name": format!("E{number}") })).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "x", "env": variables }] },
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_do_not_delay_others() {
    let atoll = start_on_one_thread();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let numbers = "1,".repeat(240_000);
    let yaml = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nz: [{numbers}1]\n");
    let create = (Method::POST, "/api/v1/namespaces/default/configmaps?dryRun=All", "application/yaml", yaml);
    for answer in send_beside_others(&atoll, &tenant, create).await {
        answer.expect(201);
    }
    let owner =
        |number| json!({ "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": format!("{number}") });
    let owners: Vec<Value> = (0..20_000).map(owner).collect();
    let owned = json!({ "metadata": { "generateName": "o", "ownerReferences": owners } }).to_string();
    let create = (Method::POST, CONFIG_MAPS, "application/json", owned);
    for answer in send_beside_others(&atoll, &tenant, create).await {
        answer.expect(201);
    }
    // Answers to such requests need no rights.
    let review =
        format!("apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nz: [{numbers}1]\n");
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    send_beside_others(&atoll, &tenant, (Method::POST, reviews, "application/yaml", review)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_applies_do_not_delay_others() {
    let atoll = start_on_one_thread();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let path = format!("{DEPLOYMENTS}/d?fieldManager=m&force=true");
    // The first creates the Deployment, the others change it.
    for _ in 0..2 {
        let apply = (Method::PATCH, path.as_str(), APPLY, deployment(10_000).to_string());
        for answer in send_beside_others(&atoll, &tenant, apply).await {
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_of_large_objects_do_not_delay_others() {
    let atoll = start_on_one_thread();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let schema = json!({ "type": "array", "items": { "type": "integer" } });
    tenant.post(DEFINITIONS, definition("lists", schema)).await.expect(201);
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Klists", "metadata": { "name": "a" }, "spec": vec![1; 200_000],
    });
    eventually("the resource is served", async || tenant.post(LISTS, object.clone()).await.status == 201)
        .await;
    let path = format!("{LISTS}/a?dryRun=All");
    let insert = json!({ "op": "add", "path": "/spec/0", "value": 1 });
    for (count, status) in [(200, 200), (9000, 413)] {
        let patch = Value::from(vec![insert.clone(); count]).to_string();
        let patch = (Method::PATCH, path.as_str(), "application/json-patch+json", patch);
        for answer in send_beside_others(&atoll, &tenant, patch).await {
            answer.expect_status_code(status);
        }
    }
}

/// The garbage collector looks for all owners of an object in turn.
#[tokio::test(flavor = "multi_thread")]
async fn objects_with_many_owners_do_not_delay_others() {
    let atoll = Setup::new().variable("TOKIO_WORKER_THREADS", 1).start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let owner = |number: usize| json!({ "apiVersion": "v1", "kind": "Pod", "name": format!("{number}"), "uid": format!("{number}") });
    let owners: Vec<Value> = (0..10_000).map(owner).collect();
    let owned = json!({ "metadata": { "name": "owned", "ownerReferences": owners } });
    tenant.post(CONFIG_MAPS, owned).await.expect(201);
    let path = format!("{CONFIG_MAPS}/owned");
    let mut other = atoll.admin().http1().await.unwrap();
    let mut answered = 0;
    within("the object without owners is deleted", async {
        while tenant.get(&path).await.status != 404 {
            let small =
                other.request(Method::GET, "/api/v1/namespaces/default", RequestContent::None).await.unwrap();
            small.expect(200);
            answered += 1;
        }
    })
    .await;
    assert!(
        answered >= SMALL_REQUESTS,
        "{answered} small requests were answered before the object was deleted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_do_not_make_objects_too_large() {
    let atoll = start_on_one_thread();
    let containers = vec![json!({ "name": "1", "image": "x" }); 90_000];
    let pod = json!({ "metadata": { "name": "huge" }, "spec": { "containers": containers } });
    let answer = atoll.admin().post("/api/v1/namespaces/default/pods", pod).await;
    let message = answer.expect_status(413, "RequestEntityTooLarge");
    assert!(message.ends_with("too large after applying its defaults: limit is 4194304"), "{message}");
}

/// Controllers write objects with the defaults and managed fields that the server has added.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_write_the_status_of_the_largest_objects() {
    let atoll = Setup::new().flag("--grain", "pod").start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let mut large = deployment(1);
    large["spec"]["replicas"] = 0.into();
    large["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "x".into();
    let missing = (3 << 20) - large.to_string().len();
    large["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "x".repeat(missing).into();
    tenant.post(DEPLOYMENTS, large).await.expect(201);
    eventually("the status is written", async || {
        tenant.get(&format!("{DEPLOYMENTS}/d")).await.expect(200)["status"]["observedGeneration"] == 1
    })
    .await;
}
