//! What the server notes in annotations for itself is not for others to say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::enabling::{DEFINITIONS, definition};
use crate::support::access::{Access, Body, names};
use crate::support::eventually;
use crate::support::process::{Atoll, Setup};
use crate::{CLUSTERS, OWN, SECRETS, cluster, kubeconfig, refuses, says};

const POINTER: &str = "atoll.dev/kubeconfig-secret";

async fn reason(access: &Access, name: &str) -> Value {
    access.get(&format!("{CLUSTERS}/{name}")).await.expect(200)["status"]["conditions"][0]["reason"].clone()
}

async fn becomes(access: &Access, name: &str, expected: &str) {
    eventually(&format!("{name} is {expected}"), async || reason(access, name).await == expected).await;
}

fn pointer(object: &Value) -> &Value {
    &object["metadata"]["annotations"][POINTER]
}

/// Whoever may write Clusters but not read Secrets names one in a Cluster of their own definition, before kcp is spoken: nobody
/// looks at annotations then. kcp cannot be enabled over it.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_somebody_names_is_not_used_and_not_touched() {
    let server = Setup::new().flag("--controllers", "kcpcluster").start();
    let admin = server.admin();
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = definition("clusters", "Cluster", "Cluster", "v1alpha1", any);
    admin.post(DEFINITIONS, definition).await.expect(201);
    let namespace = json!({ "metadata": { "name": "atoll-system" } });
    admin.post("/api/v1/namespaces", namespace).await.expect(201);
    let precious = json!({
        "metadata": { "name": "precious", "labels": { "atoll.dev/cluster": "east" } },
        "data": { "kubeconfig": STANDARD.encode(kubeconfig("s3cr3t")) },
    });
    let precious = admin.post(SECRETS, precious).await.expect(201);
    let same = async || assert_eq!(admin.get(&format!("{SECRETS}/precious")).await.expect(200), precious);
    let mut thief = cluster("Cluster", "thief", "");
    thief["metadata"]["annotations"] = json!({ POINTER: "precious" });
    assert_eq!(pointer(&admin.post(CLUSTERS, thief.clone()).await.expect(201)), "precious");

    let complaint = refuses(&server, "dialect enable kcp");
    assert!(complaint.contains("delete that definition first"), "{complaint}");
    same().await;
    let path = format!("{DEFINITIONS}/clusters.workload.kcp.dev");
    admin.delete(&path).await.expect(200);
    eventually("the definition is gone", async || admin.get(&path).await.status == 404).await;
    says(&server, "dialect enable kcp");
    assert_eq!(
        names(&admin.get(CLUSTERS).await.expect(200)),
        [""; 0],
        "its objects went with the definition"
    );
    let made = admin.post(CLUSTERS, thief).await.expect(201);
    assert_eq!(*pointer(&made), Value::Null);
    becomes(&admin, "thief", "InvalidKubeConfig").await;
    same().await;
    assert_eq!(names(&admin.get(OWN).await.expect(200)), [""; 0]);
    // One that it is given itself takes that place, and does not take away what was there.
    let at = format!("{CLUSTERS}/thief");
    let own = admin.merge(&at, json!({ "spec": { "kubeconfig": kubeconfig("own") } })).await.expect(200);
    assert!(pointer(&own).as_str().unwrap().starts_with("kcp-thief-"), "{own}");
    becomes(&admin, "thief", "ErrorStartingSyncer").await;
    admin.delete(&at).await.expect(200);
    eventually("it is gone", async || admin.get(&at).await.status == 404).await;
    same().await;
    assert_eq!(names(&admin.get(SECRETS).await.expect(200)), ["precious"]);
    assert!(!server.log().contains("s3cr3t"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_the_server_are_not_for_others_to_set() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    says(&server, "dialect enable kcp");
    let mut forged = cluster("Cluster", "east", "");
    forged["metadata"]["annotations"] = json!({ POINTER: "cluster-west", "own": "x" });
    let made = admin.post(CLUSTERS, forged.clone()).await.expect(201);
    assert_eq!(made["metadata"]["annotations"], json!({ "own": "x" }));
    let at = format!("{CLUSTERS}/east");
    let given = admin.merge(&at, json!({ "spec": { "kubeconfig": kubeconfig("t") } })).await.expect(200);
    let secret = pointer(&given).clone();
    assert!(secret.as_str().unwrap().starts_with("kcp-east-"), "{secret}");
    // Neither another one nor none.
    for planted in [json!("cluster-west"), Value::Null, json!("")] {
        let patch = json!({ "metadata": { "annotations": { POINTER: planted } } });
        let whole = async || {
            let mut whole = admin.get(&at).await.expect(200);
            whole["metadata"]["annotations"][POINTER] = planted.clone();
            if planted.is_null() {
                whole["metadata"]["annotations"].as_object_mut().unwrap().remove(POINTER);
            }
            whole
        };
        let mut applied = forged.clone();
        applied["metadata"]["annotations"] = whole().await["metadata"]["annotations"].clone();
        let body = Body::Raw("application/apply-patch+yaml", Bytes::from(applied.to_string()));
        for answer in [
            admin.merge(&at, patch.clone()).await,
            admin.merge(&format!("{at}/status"), patch).await,
            admin.put(&at, whole().await).await,
            admin.put(&format!("{at}/status"), whole().await).await,
            admin.request(Method::PATCH, &format!("{at}?fieldManager=me&force=true"), body).await,
        ] {
            assert_eq!(pointer(&answer.expect(200)), &secret, "{planted}");
        }
    }
    assert_eq!(names(&admin.get(SECRETS).await.expect(200)), [secret.as_str().unwrap()]);
}

/// Those who write at the same time each put their kubeconfig away before they know who comes first: one Secret is left, the one
/// that the Cluster names.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_too_late_leaves_nothing_behind() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    says(&server, "dialect enable kcp");
    let at = format!("{CLUSTERS}/east");
    admin.post(CLUSTERS, cluster("Cluster", "east", "")).await.expect(201);
    for round in 0..12 {
        let writes: Vec<_> = (0..8)
            .map(|writer| {
                // Half of the rounds all say the same, the others each something else.
                let token = if round % 2 == 0 { format!("r{round}") } else { format!("r{round}-w{writer}") };
                let (admin, at) = (admin.clone(), at.clone());
                tokio::spawn(async move {
                    let patch = json!({ "spec": { "kubeconfig": kubeconfig(&token) } });
                    (token, admin.merge(&at, patch).await)
                })
            })
            .collect();
        let mut given = Vec::new();
        for write in writes {
            let (token, answer) = write.await.unwrap();
            answer.expect(200);
            given.push(kubeconfig(&token));
        }
        let named = pointer(&admin.get(&at).await.expect(200)).as_str().unwrap().to_string();
        let left = admin.get(SECRETS).await.expect(200);
        assert_eq!(names(&left), [named], "round {round}");
        let data = STANDARD.decode(left["items"][0]["data"]["kubeconfig"].as_str().unwrap()).unwrap();
        assert!(given.contains(&String::from_utf8(data).unwrap()), "round {round}");
    }
}
