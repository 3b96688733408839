//! Self-descriptions of the server and its components, as kube-apiserver has them.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, RequestContent, Setup, revision};
use http::Method;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map_with};

const COMPONENTS: &str = "/api/v1/componentstatuses";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const IDENTITIES: &str = "labelSelector=apiserver.kubernetes.io/identity%3Dkube-apiserver";

#[tokio::test]
async fn own_identity_lease_is_renewed_and_expired_ones_are_deleted() {
    // Independent of the running controllers.
    let mut atoll = Setup::new().flag("--controllers", false).start();
    let admin = atoll.admin();
    let path = format!("{LEASES}?{IDENTITIES}");
    let found = async || admin.get(&path).await.expect(200)["items"].as_array().unwrap().clone();
    eventually("the identity Lease exists", async || found().await.len() == 1).await;
    let lease = found().await.remove(0);
    let name = lease["metadata"]["name"].as_str().unwrap().to_string();
    let hash = name.strip_prefix("apiserver-").unwrap_or_default();
    assert!(
        hash.len() == 26 && hash.chars().all(|letter| matches!(letter, 'a'..='z' | '2'..='7')),
        "{lease}"
    );
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(lease["metadata"]["labels"]["kubernetes.io/hostname"], host.trim_end(), "{lease}");
    assert!(lease["spec"]["holderIdentity"].as_str().unwrap().starts_with(&format!("{name}_")), "{lease}");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600, "{lease}");
    eventually("the Lease is renewed", async || {
        found().await[0]["spec"]["renewTime"] != lease["spec"]["renewTime"]
    })
    .await;
    let gone = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "apiserver-gone", "labels": { "apiserver.kubernetes.io/identity": "kube-apiserver" } },
        "spec": {
            "holderIdentity": "apiserver-gone_1", "leaseDurationSeconds": 3600, "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    });
    admin.post(LEASES, gone).await.expect(201);
    atoll.terminate();
    atoll.wait();
    atoll.restart();
    eventually("only the server's own Lease is left, with the same name", async || {
        let items = admin.get(&path).await.expect(200)["items"].take();
        let held = items[0]["spec"]["holderIdentity"] != lease["spec"]["holderIdentity"];
        items.as_array().unwrap().len() == 1 && items[0]["metadata"]["name"] == name.as_str() && held
    })
    .await;
}

#[tokio::test]
async fn continue_tokens_expire_without_writes() {
    let atoll = Setup::new().idle().flag("--history", 2).start();
    let admin = atoll.admin();
    for name in ["a", "b", "c"] {
        admin.post(CONFIG_MAPS, config_map_with(name, "x")).await.expect(201);
    }
    let first = admin.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap().to_string();
    let next = format!("{CONFIG_MAPS}?limit=1&continue={token}");
    admin.get(&next).await.expect(200);
    eventually("the token has expired", async || admin.get(&next).await.status == 410).await;
    let expired = admin.get(&next).await;
    let message = expired.expect_status(410, "Expired");
    assert!(message.contains("continue parameter is too old"), "{message}");
    let list = admin.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(revision(&list), revision(&first), "no write may have happened meanwhile");
    let inconsistent = expired.json()["metadata"]["continue"].as_str().unwrap().to_string();
    let rest = admin.get(&format!("{CONFIG_MAPS}?continue={inconsistent}")).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 2, "{rest}");
    // A list that starts now can be continued.
    let again = admin.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let token = again["metadata"]["continue"].as_str().unwrap().to_string();
    admin.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
}

#[tokio::test]
async fn component_statuses_are_served() {
    for (flag, status) in [("*", "True"), ("false", "False")] {
        let atoll = Setup::new().flag("--controllers", flag).start();
        let admin = atoll.admin();
        let answer = admin.get(COMPONENTS).await;
        let warning = answer.header("warning").unwrap_or_default();
        assert!(warning.contains("v1 ComponentStatus is deprecated in v1.19+"), "{warning}");
        let list = answer.expect(200);
        assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})), "{list}");
        let statuses: Vec<(&Value, &Value)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (&item["metadata"]["name"], &item["conditions"][0]["status"]))
            .collect();
        let (own, store) = (json!(status), json!("True"));
        let expected =
            [(&json!("controller-manager"), &own), (&json!("etcd-0"), &store), (&json!("scheduler"), &own)]
                .map(|(name, status)| (name.clone(), status.clone()));
        let found: Vec<(Value, Value)> =
            statuses.into_iter().map(|(name, status)| (name.clone(), status.clone())).collect();
        assert_eq!(found, expected);
        let one = admin.get(&format!("{COMPONENTS}/etcd-0")).await.expect(200);
        let condition = json!({ "type": "Healthy", "status": "True", "message": "ok" });
        let expected = json!({
            "kind": "ComponentStatus", "apiVersion": "v1", "metadata": { "name": "etcd-0" }, "conditions": [condition],
        });
        assert_eq!(one, expected);
        let message = admin.get(&format!("{COMPONENTS}/nothing")).await.expect_status(404, "NotFound");
        assert_eq!(message, "componentstatus \"nothing\" not found");
        let none = admin.get(&format!("{COMPONENTS}?labelSelector=a%3Db")).await.expect(200);
        assert_eq!(none["items"], json!([]));
    }
}

#[tokio::test]
async fn invalid_request_timeouts_are_rejected() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for (timeout, words) in [
        ("nonsense", "time: invalid duration \"nonsense\""),
        ("10", "time: missing unit in duration \"10\""),
        ("10y", "time: unknown unit \"y\" in duration \"10y\""),
    ] {
        let path = format!("/api/v1/namespaces?timeout={timeout}");
        let expected = format!("invalid timeout specified in the request URL - {words}");
        assert_eq!(admin.get(&path).await.expect_status(400, "BadRequest"), expected);
        assert_eq!(admin.anonymous().get(&path).await.expect_status(400, "BadRequest"), expected);
    }
    let metrics = admin.get("/metrics").await.text();
    let refused = metrics.lines().find(|line| {
        let labels = ["verb=\"list\"", "resource=\"namespaces\"", "code=\"400\""];
        line.starts_with("apiserver_request_total{") && labels.iter().all(|label| line.contains(label))
    });
    assert!(
        refused.is_some_and(|line| line.ends_with(" 6")),
        "rejected requests must be counted: {refused:?}"
    );
    for timeout in ["32s", "0s", "-1s", "1000h", ""] {
        admin.get(&format!("/api/v1/namespaces?timeout={timeout}")).await.expect(200);
    }
}

#[tokio::test]
async fn health_checks_have_upstream_names() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for (root, more) in [("healthz", false), ("livez", false), ("readyz", true)] {
        let text = admin.get(&format!("/{root}?verbose")).await.text();
        let lines: Vec<&str> = text.lines().collect();
        // The checks that test/e2e/apimachinery/health_handlers.go requires and operators know, in
        // kube-apiserver's order.
        let hooks = [
            "poststarthook/start-apiserver-admission-initializer",
            "poststarthook/generic-apiserver-start-informers",
            "poststarthook/start-apiextensions-informers",
            "poststarthook/start-apiextensions-controllers",
            "poststarthook/crd-informer-synced",
            "poststarthook/start-system-namespaces-controller",
            "poststarthook/start-cluster-authentication-info-controller",
            "poststarthook/storage-readiness",
            "poststarthook/start-service-ip-repair-controllers",
            "poststarthook/rbac/bootstrap-roles",
            "poststarthook/scheduling/bootstrap-system-priority-classes",
            "poststarthook/bootstrap-controller",
            "poststarthook/start-kube-aggregator-informers",
            "poststarthook/apiservice-status-local-available-controller",
            "poststarthook/apiservice-status-remote-available-controller",
            "poststarthook/apiservice-registration-controller",
            "poststarthook/kube-apiserver-autoregistration",
            "autoregister-completion",
            "poststarthook/apiservice-openapi-controller",
        ];
        let first = ["ping", "log", "etcd"].into_iter().chain(more.then_some("informer-sync"));
        let names = first.chain(hooks).chain(more.then_some("shutdown"));
        let passed = names.map(|name| format!("[+]{name} ok"));
        let expected: Vec<String> = passed.chain([format!("{root} check passed")]).collect();
        assert_eq!(lines, expected);
        for check in ["etcd", "store", "poststarthook/rbac/bootstrap-roles"] {
            assert_eq!(admin.get(&format!("/{root}/{check}")).await.text(), "ok", "{root} {check}");
        }
    }
}

#[tokio::test]
async fn name_column_has_the_description_of_the_field() {
    let atoll = Atoll::start_bare();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut http = atoll.admin().http2().await.unwrap();
    let table = http.get_accepting("/api/v1/namespaces", accept).await.unwrap().expect(200);
    let column = &table["columnDefinitions"][0];
    assert_eq!((&column["name"], &column["format"]), (&json!("Name"), &json!("name")));
    let description = column["description"].as_str().unwrap();
    assert!(
        description.starts_with("Name must be unique within a namespace. Is required when creating"),
        "{description}"
    );
}

#[tokio::test]
async fn invalid_match_conditions_of_webhooks_are_rejected() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for kind in ["Validating", "Mutating"] {
        let configuration = |expression: &str| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
                "metadata": { "name": "hooks" },
                "webhooks": [{
                    "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "clientConfig": { "url": "https://example.com/" },
                    "matchConditions": [{ "name": "c", "expression": expression }],
                }],
            })
        };
        let path =
            format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        for (expression, words) in [
            ("object.spec.", "compilation failed: ERROR: <input>:1:13: Syntax error"),
            (
                "nothing == 1",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')",
            ),
            ("request.name", "must evaluate to bool but got string"),
        ] {
            let message = admin.post(&path, configuration(expression)).await.expect_status(422, "Invalid");
            let field = "webhooks[0].matchConditions[0].expression: Invalid value: ";
            assert!(message.contains(field) && message.contains(words), "{message}");
        }
        let good = "request.userInfo.username != 'x' && authorizer.requestResource.check('get').allowed()";
        admin.post(&path, configuration(good)).await.expect(201);
        let patch = json!({ "metadata": { "labels": { "a": "b" } } });
        admin.merge(&format!("{path}/hooks"), patch).await.expect(200);
        admin.request(Method::DELETE, &format!("{path}/hooks"), RequestContent::None).await.expect(200);
    }
}
