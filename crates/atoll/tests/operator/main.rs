//! A widely used operator, built unmodified from its Go module, runs on Atoll: the Prometheus operator,
//! installed from its own bundle, with the account and the roles in it.
//!
//! ```text
//!  bundle.yaml ─ kubectl apply ─► definitions, roles, account ─ kubectl create token ─► the operator
//!  Prometheus, ServiceMonitor ─► the operator ─► StatefulSet, Secret with the configuration, Service, status
//! ```

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod operator;

use std::io::Read;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Programs};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::operator::Operator;

const MONITORING: &str = "/apis/monitoring.coreos.com/v1/namespaces/default";
const STATEFUL_SET: &str = "/apis/apps/v1/namespaces/default/statefulsets/prometheus-main";

/// Returns an object, or null if it does not exist.
async fn get(client: &Client, path: &str) -> Value {
    let answer = client.get(path).await;
    if answer.status == 200 { answer.json() } else { Value::Null }
}

async fn create(client: &Client, resource: &str, kind: &str, spec: Value) {
    let metadata = json!({ "name": "main", "labels": { "team": "a" } });
    let object =
        json!({ "apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": metadata, "spec": spec });
    client.post(&format!("{MONITORING}/{resource}"), object).await.expect(201);
}

/// Returns the configuration that the operator has written for Prometheus.
async fn configuration(client: &Client) -> String {
    let secret = get(client, "/api/v1/namespaces/default/secrets/prometheus-main").await;
    let Some(zipped) = secret["data"]["prometheus.yaml.gz"].as_str() else { return String::new() };
    let zipped = STANDARD.decode(zipped).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&zipped[..]).read_to_string(&mut text).unwrap();
    text
}

async fn is_reconciled(client: &Client, generation: u64) -> bool {
    let prometheus = get(client, &format!("{MONITORING}/prometheuses/main")).await;
    let conditions = prometheus["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| {
        condition["type"] == "Reconciled"
            && condition["status"] == "True"
            && condition["observedGeneration"] == generation
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_operator_reconciles() {
    let Some(programs) = Programs::build(&["kubectl", "prometheus-operator"]) else { return };
    let atoll = Atoll::start();
    let client = atoll.admin();
    let operator = Operator::install(&atoll, &programs);
    const MONITOR: &str = "serviceMonitor/default/main/0";

    let endpoints = json!([{ "port": "web", "interval": "15s" }]);
    create(&client, "servicemonitors", "ServiceMonitor", json!({ "selector": {}, "endpoints": endpoints }))
        .await;
    let selector = json!({ "matchLabels": { "team": "a" } });
    create(
        &client,
        "prometheuses",
        "Prometheus",
        json!({ "replicas": 1, "serviceMonitorSelector": selector }),
    )
    .await;
    eventually("the StatefulSet is created", async || {
        get(&client, STATEFUL_SET).await["spec"]["replicas"] == 1
    })
    .await;
    eventually("the monitor is configured", async || configuration(&client).await.contains(MONITOR)).await;
    eventually("the Prometheus is reconciled", async || is_reconciled(&client, 1).await).await;
    let service = get(&client, "/api/v1/namespaces/default/services/prometheus-operated").await;
    assert_eq!(service["metadata"]["ownerReferences"][0]["kind"], "Prometheus", "{service}");

    // Its scale subresource is the number of shards.
    for (subresource, spec) in [("/scale", json!({ "replicas": 2 })), ("", json!({ "replicas": 3 }))] {
        let path = format!("{MONITORING}/prometheuses/main{subresource}");
        client.merge(&path, json!({ "spec": spec })).await.expect(200);
    }
    for path in [STATEFUL_SET.to_owned(), format!("{STATEFUL_SET}-shard-1")] {
        eventually("the StatefulSets are scaled", async || {
            get(&client, &path).await["spec"]["replicas"] == 3
        })
        .await;
    }
    eventually("the changes are reconciled", async || is_reconciled(&client, 3).await).await;

    let first = get(&client, STATEFUL_SET).await["metadata"]["uid"].clone();
    client.delete(STATEFUL_SET).await.expect(200);
    eventually("the StatefulSet is recreated", async || {
        let uid = get(&client, STATEFUL_SET).await["metadata"]["uid"].clone();
        uid.is_string() && uid != first
    })
    .await;

    let monitor = format!("{MONITORING}/servicemonitors/main");
    client.delete(&monitor).await.expect(200);
    eventually("the monitor is removed from the configuration", async || {
        let text = configuration(&client).await;
        !text.is_empty() && !text.contains(MONITOR)
    })
    .await;
    operator.expect_no_refusals();
}
