//! The kubeconfig of a Cluster of kcp is stored in a Secret and nowhere else, however it was written.

use atoll_testkit::{APPLY, Atoll, Client, RequestContent, Watch, names};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::{CLUSTERS, SECRETS, cluster, files_containing, kubeconfig};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const POINTER: &str = "atoll.dev/kubeconfig-secret";

/// Returns the kubeconfigs in Secrets that belong to Clusters of kcp.
async fn stored_kubeconfigs(admin: &Client) -> Vec<String> {
    use base64::Engine;
    let list = admin.get(&format!("{SECRETS}?labelSelector=atoll.dev%2Fdialect%3Dkcp")).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    let data = items.map(|item| item["data"]["kubeconfig"].as_str().unwrap().to_string());
    let decoded = data.map(|data| base64::engine::general_purpose::STANDARD.decode(data).unwrap());
    decoded.map(|bytes| String::from_utf8(bytes).unwrap()).collect()
}

fn applied(name: &str, kubeconfig: &str) -> Value {
    let mut object = cluster("Cluster", name, kubeconfig);
    let last = format!("{object}\n");
    object["metadata"]["annotations"] = json!({ LAST_APPLIED: last });
    object
}

async fn patch(admin: &Client, path: &str, kind: &'static str, patch: Value) -> atoll_testkit::ApiResponse {
    admin.request(Method::PATCH, path, RequestContent::Raw(kind, Bytes::from(patch.to_string()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfig_is_stored_only_in_a_secret() {
    let mut server = Atoll::start_bare();
    let admin = server.admin();
    server.run("dialect enable kcp");
    let mut watch = Watch::open(&admin, &format!("{CLUSTERS}?watch=true")).await;
    let tokens: Vec<String> = (0..16).map(|number| format!("s3cr3t-{number}-of-somebody")).collect();
    let configs: Vec<String> = tokens.iter().map(|token| kubeconfig(token)).collect();
    let at = format!("{CLUSTERS}/east");
    let mut answers: Vec<String> = Vec::new();

    // A dry run writes nothing.
    let made = admin.post(&format!("{CLUSTERS}?dryRun=All"), applied("east", &configs[0])).await;
    assert_eq!(made.expect(201)["spec"]["kubeconfig"], "");
    answers.push(made.text());
    admin.get(&at).await.expect_status(404, "NotFound");
    admin.get("/api/v1/namespaces/atoll-system/secrets").await.expect(200);
    assert_eq!(stored_kubeconfigs(&admin).await, [""; 0]);

    // Created as kubectl does.
    let made = admin.post(CLUSTERS, applied("east", &configs[1])).await;
    let object = made.expect(201);
    assert_eq!(object["spec"]["kubeconfig"], "");
    let last: Value =
        serde_json::from_str(object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap()).unwrap();
    assert_eq!(last["spec"], json!({ "kubeconfig": "" }));
    assert!(object["metadata"]["annotations"][POINTER].as_str().unwrap().starts_with("kcp-east-"));
    assert_eq!(stored_kubeconfigs(&admin).await, configs[1..2]);
    answers.push(made.text());

    // The same kubeconfig again changes nothing.
    let again = json!({
        "metadata": { "annotations": applied("east", &configs[1])["metadata"]["annotations"] },
        "spec": { "kubeconfig": configs[1] },
    });
    let same = admin.merge(&at, again).await;
    assert_eq!(same.expect(200)["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    answers.push(same.text());

    // Every way to change it. Each one replaces the Secret.
    let mut put = admin.get(&at).await.expect(200);
    put["spec"]["kubeconfig"] = configs[2].as_str().into();
    // Clients cannot change the name of the Secret.
    put["metadata"]["annotations"][POINTER] = "cluster-west".into();
    put["metadata"]["annotations"]["example.com/copy"] = configs[2].as_str().into();
    let ways = [
        admin.put(&at, put).await,
        admin.merge(&at, json!({ "spec": { "kubeconfig": configs[3] } })).await,
        patch(
            &admin,
            &at,
            "application/json-patch+json",
            json!([{ "op": "replace", "path": "/spec/kubeconfig", "value": configs[4] }]),
        )
        .await,
        patch(
            &admin,
            &format!("{at}?fieldManager=me&force=true"),
            APPLY,
            cluster("Cluster", "east", &configs[5]),
        )
        .await,
    ];
    for (answer, config) in ways.iter().zip(&configs[2..]) {
        let object = answer.expect(200);
        assert_eq!(object["spec"]["kubeconfig"], "", "{config}");
        assert!(object["metadata"]["annotations"][POINTER].as_str().unwrap().starts_with("kcp-east-"));
        answers.push(answer.text());
    }
    assert_eq!(stored_kubeconfigs(&admin).await, configs[5..6], "only the latest Secret must exist");

    // Dry runs of all of them.
    let before = admin.get(&at).await.expect(200);
    let mut put = before.clone();
    put["spec"]["kubeconfig"] = configs[6].as_str().into();
    for answer in [
        admin.put(&format!("{at}?dryRun=All"), put).await,
        admin.merge(&format!("{at}?dryRun=All"), json!({ "spec": { "kubeconfig": configs[6] } })).await,
        patch(
            &admin,
            &format!("{at}?dryRun=All&fieldManager=me&force=true"),
            APPLY,
            cluster("Cluster", "east", &configs[6]),
        )
        .await,
    ] {
        assert_eq!(answer.expect(200)["spec"]["kubeconfig"], "");
        answers.push(answer.text());
    }
    assert_eq!(admin.get(&at).await.expect(200), before);
    assert_eq!(stored_kubeconfigs(&admin).await, configs[5..6]);

    // Rejected requests leave no Secret behind, and their messages do not contain the kubeconfig.
    let mut stale = before.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    stale["spec"]["kubeconfig"] = configs[7].as_str().into();
    let mut invalid = cluster("Cluster", "west", &configs[8]);
    invalid["spec"]["unschedulable"] = "maybe".into();
    let mut bad_label = applied("west", &configs[9]);
    bad_label["metadata"]["labels"] = json!({ "no label": "x" });
    let mut not_text = cluster("Cluster", "west", "");
    not_text["spec"]["kubeconfig"] = json!({ "token": tokens[12] });
    let mut not_text_applied = not_text.clone();
    not_text_applied["metadata"]["name"] = "east".into();
    let broken = format!("kind: Cluster\nspec:\n  kubeconfig: [\n{}\n", configs[10]);
    let yaml = |kind, text: String| RequestContent::Raw(kind, Bytes::from(text));
    for (answer, code) in [
        (admin.put(&at, stale).await, 409),
        (admin.post(CLUSTERS, invalid).await, 422),
        (admin.post(CLUSTERS, bad_label).await, 422),
        (admin.post(CLUSTERS, applied("east", &configs[11])).await, 409),
        (
            admin
                .post(
                    CLUSTERS,
                    json!({ "metadata": { "name": "west" }, "spec": { "kubeconfig": configs[12] } }),
                )
                .await,
            400,
        ),
        (admin.post(CLUSTERS, not_text.clone()).await, 422),
        (patch(&admin, &format!("{at}?fieldManager=me&force=true"), APPLY, not_text_applied).await, 500),
        (admin.merge(&at, json!({ "metadata": 7, "spec": { "kubeconfig": configs[13] } })).await, 422),
        (
            patch(
                &admin,
                &at,
                "application/json-patch+json",
                json!([
                    { "op": "add", "path": "/spec/kubeconfig", "value": configs[14] },
                    { "op": "add", "path": "/metadata/labels", "value": 7 },
                ]),
            )
            .await,
            422,
        ),
        (admin.request(Method::POST, CLUSTERS, yaml("application/yaml", broken.clone())).await, 400),
        (admin.request(Method::PATCH, &format!("{at}?fieldManager=me"), yaml(APPLY, broken)).await, 400),
        (
            patch(
                &admin,
                &format!("{at}?fieldManager=other"),
                APPLY,
                cluster("Cluster", "east", &configs[15]),
            )
            .await,
            409,
        ),
    ] {
        assert_eq!(answer.status, code, "{}", answer.text());
        answers.push(answer.text());
    }
    assert_eq!(stored_kubeconfigs(&admin).await, configs[5..6]);

    // A write of the status does not set a kubeconfig, and an empty field is no change.
    let mut status = admin.get(&at).await.expect(200);
    status["spec"]["kubeconfig"] = configs[0].as_str().into();
    status["status"] = json!({ "syncedResources": ["deployments.apps"] });
    let answer = admin.put(&format!("{at}/status"), status).await;
    assert_eq!(answer.expect(200)["status"]["syncedResources"], json!(["deployments.apps"]));
    answers.push(answer.text());
    admin
        .merge(&at, json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "kubeconfig": "" } }))
        .await
        .expect(200);
    assert_eq!(stored_kubeconfigs(&admin).await, configs[5..6]);

    let now = admin.get(&at).await;
    let managed = now.expect(200)["metadata"]["managedFields"].to_string();
    assert!(managed.contains("f:kubeconfig") && !managed.contains("s3cr3t"), "{managed}");
    answers.push(now.text());
    loop {
        let event = watch.event().await;
        answers.push(event.object.to_string());
        if event.object["metadata"]["labels"]["a"] == "b" {
            break;
        }
    }
    for answer in &answers {
        assert!(!answer.contains("s3cr3t"), "{answer}");
    }
    let all: Vec<String> = tokens.iter().chain(&configs).cloned().collect();
    let nowhere: [std::path::PathBuf; 0] = [];
    assert_eq!(files_containing(&server.directory, &all), nowhere, "while the server runs");
    server.terminate();
    assert!(server.wait().success());
    assert_eq!(files_containing(&server.directory, &all), nowhere, "afterwards");
    assert!(!server.log().contains("s3cr3t"), "{}", server.log());
    let shown = ["workload.kcp.dev".to_string()];
    assert!(
        !files_containing(&server.directory, &shown).is_empty(),
        "the search must find text that is stored in plain"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfig_is_readable_only_through_secrets() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    server.run("workspace create team");
    let team = admin.workspace("root:team");
    // Where kcp is not enabled, the resource does not exist.
    team.post(CLUSTERS, cluster("Cluster", "a", "")).await.expect_status_code(404);
    server.run("dialect enable kcp --workspace root:team");
    let mut generated = cluster("Cluster", "", &kubeconfig("s3cr3t"));
    generated["metadata"] = json!({ "generateName": "gen-" });
    team.post(CLUSTERS, generated).await.expect(201);
    let secrets = names(&team.get(SECRETS).await.expect(200));
    assert!(secrets.len() == 1 && secrets[0].starts_with("kcp-gen-"), "{secrets:?}");
    assert_eq!(names(&admin.get(SECRETS).await.expect(200)), [""; 0]);
}
