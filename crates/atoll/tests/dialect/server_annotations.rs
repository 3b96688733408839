//! Clients cannot set the annotations in which the server keeps its own data.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, names};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::enabling::{DEFINITIONS, definition};
use crate::{CLUSTERS, OWN, SECRETS, cluster, kubeconfig};

const POINTER: &str = "atoll.dev/kubeconfig-secret";

async fn reason(client: &Client, name: &str) -> Value {
    client.get(&format!("{CLUSTERS}/{name}")).await.expect(200)["status"]["conditions"][0]["reason"].clone()
}

async fn wait_for_reason(client: &Client, name: &str, expected: &str) {
    eventually(&format!("{name} is {expected}"), async || reason(client, name).await == expected).await;
}

fn pointer(object: &Value) -> &Value {
    &object["metadata"]["annotations"][POINTER]
}

/// A user who may write Clusters but not read Secrets names a Secret in an object of the user's own
/// definition, before kcp is enabled: annotations are not checked then. kcp cannot be enabled while the
/// definition exists.
#[tokio::test(flavor = "multi_thread")]
async fn secret_named_by_a_client_is_neither_used_nor_changed() {
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
    let assert_unchanged =
        async || assert_eq!(admin.get(&format!("{SECRETS}/precious")).await.expect(200), precious);
    let mut thief = cluster("Cluster", "thief", "");
    thief["metadata"]["annotations"] = json!({ POINTER: "precious" });
    assert_eq!(pointer(&admin.post(CLUSTERS, thief.clone()).await.expect(201)), "precious");

    let complaint = server.run_failing("dialect enable kcp");
    assert!(complaint.contains("delete that definition first"), "{complaint}");
    assert_unchanged().await;
    let path = format!("{DEFINITIONS}/clusters.workload.kcp.dev");
    admin.delete(&path).await.expect(200);
    eventually("the definition is gone", async || admin.get(&path).await.status == 404).await;
    server.run("dialect enable kcp");
    assert_eq!(
        names(&admin.get(CLUSTERS).await.expect(200)),
        [""; 0],
        "objects must be deleted with the definition"
    );
    let made = admin.post(CLUSTERS, thief).await.expect(201);
    assert_eq!(*pointer(&made), Value::Null);
    wait_for_reason(&admin, "thief", "InvalidKubeConfig").await;
    assert_unchanged().await;
    assert_eq!(names(&admin.get(OWN).await.expect(200)), [""; 0]);
    // A kubeconfig in the spec gets a new Secret, and the named Secret is kept.
    let at = format!("{CLUSTERS}/thief");
    let own = admin.merge(&at, json!({ "spec": { "kubeconfig": kubeconfig("own") } })).await.expect(200);
    assert!(pointer(&own).as_str().unwrap().starts_with("kcp-thief-"), "{own}");
    wait_for_reason(&admin, "thief", "ErrorStartingSyncer").await;
    admin.delete(&at).await.expect(200);
    eventually("the Cluster is deleted", async || admin.get(&at).await.status == 404).await;
    assert_unchanged().await;
    assert_eq!(names(&admin.get(SECRETS).await.expect(200)), ["precious"]);
    assert!(!server.log().contains("s3cr3t"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_cannot_set_annotations_of_the_server() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    server.run("dialect enable kcp");
    let mut forged = cluster("Cluster", "east", "");
    forged["metadata"]["annotations"] = json!({ POINTER: "cluster-west", "own": "x" });
    let made = admin.post(CLUSTERS, forged.clone()).await.expect(201);
    assert_eq!(made["metadata"]["annotations"], json!({ "own": "x" }));
    let at = format!("{CLUSTERS}/east");
    let given = admin.merge(&at, json!({ "spec": { "kubeconfig": kubeconfig("t") } })).await.expect(200);
    let secret = pointer(&given).clone();
    assert!(secret.as_str().unwrap().starts_with("kcp-east-"), "{secret}");
    // The annotation can neither be changed nor removed.
    for planted in [json!("cluster-west"), Value::Null, json!("")] {
        let patch = json!({ "metadata": { "annotations": { POINTER: planted } } });
        let full_object = async || {
            let mut full_object = admin.get(&at).await.expect(200);
            full_object["metadata"]["annotations"][POINTER] = planted.clone();
            if planted.is_null() {
                full_object["metadata"]["annotations"].as_object_mut().unwrap().remove(POINTER);
            }
            full_object
        };
        let mut applied = forged.clone();
        applied["metadata"]["annotations"] = full_object().await["metadata"]["annotations"].clone();
        for answer in [
            admin.merge(&at, patch.clone()).await,
            admin.merge(&format!("{at}/status"), patch).await,
            admin.put(&at, full_object().await).await,
            admin.put(&format!("{at}/status"), full_object().await).await,
            admin.apply(&format!("{at}?fieldManager=me&force=true"), applied).await,
        ] {
            assert_eq!(pointer(&answer.expect(200)), &secret, "{planted}");
        }
    }
    assert_eq!(names(&admin.get(SECRETS).await.expect(200)), [secret.as_str().unwrap()]);
}

/// Concurrent writers each create a Secret before the conflict is detected: only the one that the Cluster
/// names is left.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_leave_no_unused_secrets() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    server.run("dialect enable kcp");
    let at = format!("{CLUSTERS}/east");
    admin.post(CLUSTERS, cluster("Cluster", "east", "")).await.expect(201);
    for round in 0..12 {
        let writes: Vec<_> = (0..8)
            .map(|writer| {
                // In half of the rounds all writers use the same token, in the others each uses its own.
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
