//! Tokens are renewed while they are used, and invalid tokens do no harm.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Fleet, Mode, create, object, wait_for};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";
const SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/cluster-east";
const SYSTEM: &str = "/api/v1/namespaces/kube-system";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn token(kubeconfig: &str) -> String {
    let config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    config["users"][0]["user"]["token"].as_str().unwrap().to_string()
}

async fn stored_credentials(above: &Client) -> (String, String) {
    let secret = above.get(SECRET).await.expect(200);
    let text = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
    let expires = secret["metadata"]["annotations"]["atoll.dev/expires"].as_str().unwrap().to_string();
    (token(&String::from_utf8(text).unwrap()), expires)
}

fn is_ready(cluster: &Value, reasons: &[&str]) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .any(|one| one["type"] == "Ready" && reasons.iter().any(|reason| one["reason"] == *reason))
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_renewed_in_its_secret_while_it_is_used() {
    let fleet = Fleet::start(Mode::Push, &["east"]);
    let (above, east) = (fleet.admin(), fleet.clusters[0].admin());
    wait_for("the cluster is ready", &above, EAST, |cluster| is_ready(cluster, &["Synced"])).await;
    let (old, _) = stored_credentials(&above).await;
    let past = json!({ "metadata": { "annotations": { "atoll.dev/expires": "2020-01-01T00:00:00Z" } } });
    above.merge(SECRET, past).await.expect(200);
    let mut renewed = (String::new(), String::new());
    eventually("the token is renewed", async || {
        renewed = stored_credentials(&above).await;
        renewed.0 != old
    })
    .await;
    assert!(renewed.1.as_str() > "2020-02", "it must be valid for long: {}", renewed.1);
    assert_eq!(east.token(&renewed.0).get(SYSTEM).await.status, 200);
    // It is not renewed repeatedly, and placed objects are applied.
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "later", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/later", "east");
    wait_for("the object exists below", &east, &format!("{CONFIG_MAPS}/later"), |_| true).await;
    assert_eq!(stored_credentials(&above).await, renewed);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_kept_on_a_cluster_that_rejects_the_token_as_expired() {
    let fleet = Fleet::start(Mode::None, &["east"]);
    let (above, east) = (fleet.admin(), fleet.clusters[0].admin());
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "stays", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/stays", "east");
    wait_for("the object exists below", &east, &format!("{CONFIG_MAPS}/stays"), |_| true).await;
    let before = east.get(&format!("{CONFIG_MAPS}/stays")).await.expect(200);
    // More than a year later, by the cluster's clock.
    fleet.clusters[0].fault("add clock-skew 10000h");
    wait_for("the rejected token is reported", &above, EAST, |cluster| {
        is_ready(cluster, &["CredentialsRefused"])
    })
    .await;
    fleet.clusters[0].fault("clear");
    wait_for("the cluster is ready again", &above, EAST, |cluster| is_ready(cluster, &["Synced"])).await;
    let after = east.get(&format!("{CONFIG_MAPS}/stays")).await.expect(200);
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);

    // An agent may renew its own token above, and no other token.
    let words: Vec<&str> = fleet.join_outputs[0].split_whitespace().collect();
    let position = words.iter().position(|word| *word == "--from-kubeconfig").unwrap();
    let own = token(&std::fs::read_to_string(words[position + 1]).unwrap());
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let accounts = "/api/v1/namespaces/atoll-system/serviceaccounts";
    for (account, expected) in [("syncer-east", 201), ("default", 403)] {
        let path = format!("{accounts}/{account}/token");
        assert_eq!(above.token(&own).post(&path, request.clone()).await.status, expected, "{account}");
    }
}
