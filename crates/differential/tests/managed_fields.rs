//! Compares managed fields in Atoll and kube-apiserver after random sequences of writes by several managers.
//!
//! The sequences are generated from a seed: `ATOLL_SEED` sets it, `ATOLL_OPERATIONS` sets their length.

#[path = "managed_fields/generate.rs"]
mod generate;
#[path = "managed_fields/versions.rs"]
mod versions;

use std::collections::BTreeMap;

use atoll_differential::servers::{atoll_client, start_atoll, upstream_client};
use atoll_testkit::wait::eventually;
use atoll_testkit::{ApiResponse, Client, JSON, RequestContent, Upstream};
use generate::{Operation, Random};
use serde_json::{Value, json};

const OPERATIONS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managed_fields_match_after_random_writes() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = start_atoll(&[]);
    let (atoll_client, upstream_client) = (atoll_client(&atoll), upstream_client(real));
    let mut agreement = Agreement::default();
    for seed in seeds() {
        let namespace = format!("managed-{seed}");
        for client in [&atoll_client, &upstream_client] {
            create(client, "/api/v1/namespaces", &json!({ "metadata": { "name": namespace } })).await;
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            // Without a token, pods get no volume with a generated name.
            let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
            create(client, &path, &account).await;
        }
        let mut random = Random::new(seed);
        let mut previous = None;
        for step in 0..operations() {
            let operation = generate::operation(&mut random, &namespace, previous.as_ref());
            agreement
                .compare(&atoll_client, &upstream_client, &operation, &format!("seed {seed}, step {step}"))
                .await;
            previous = Some(operation);
        }
    }
    agreement.check(100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managed_fields_match_across_versions() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = start_atoll(&[]);
    let (atoll_client, upstream_client) = (atoll_client(&atoll), upstream_client(real));
    for client in [&atoll_client, &upstream_client] {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        create(client, definitions, &versions::definition()).await;
        eventually("the kind is served", async || {
            client.get("/apis/versions.example.com/v1beta1/hats").await.status == 200
        })
        .await;
    }
    let mut agreement = Agreement::default();
    for seed in seeds() {
        let namespace = format!("versions-{seed}");
        for client in [&atoll_client, &upstream_client] {
            create(client, "/api/v1/namespaces", &json!({ "metadata": { "name": namespace } })).await;
        }
        let mut random = Random::new(seed);
        for step in 0..operations() {
            let operation = versions::operation(&mut random, &namespace);
            agreement
                .compare(&atoll_client, &upstream_client, &operation, &format!("seed {seed}, step {step}"))
                .await;
        }
    }
    // If a manager applied in another version and removes list elements, upstream sometimes leaves `null` in
    // their place and then rejects it, and sometimes removes elements that another manager owns.
    agreement.check(97);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seeds() -> Vec<u64> {
    number("ATOLL_SEED").map_or(vec![1, 2], |seed| vec![seed])
}

fn operations() -> usize {
    number("ATOLL_OPERATIONS").map_or(OPERATIONS, |count| count as usize)
}

async fn create(client: &Client, path: &str, body: &Value) {
    client.post(path, body).await.expect(201);
}

/// Number of writes with the same effect on both servers, and the differences.
#[derive(Default)]
struct Agreement {
    agreed: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Agreement {
    async fn compare(
        &mut self,
        atoll_client: &Client,
        upstream_client: &Client,
        operation: &Operation,
        when: &str,
    ) {
        let (atoll_result, upstream_result) =
            tokio::join!(run(atoll_client, operation), run(upstream_client, operation));
        if atoll_result == upstream_result {
            *self.agreed.entry(operation.verb).or_default() += 1;
            return;
        }
        let shown = format!("{} {} {}", operation.method, operation.path, operation.body);
        let parts = ["answer", "stored", "is new"]
            .into_iter()
            .filter(|part| atoll_result[part] != upstream_result[part]);
        let parts = parts
            .map(|part| format!("{part}: {}\n  instead of {}", atoll_result[part], upstream_result[part]));
        let parts = parts.collect::<Vec<_>>().join("\n  ");
        self.wrong.push(format!("{when}: {shown}\n  {parts}"));
        // Delete the object on both servers, because its state differs now.
        tokio::join!(clear(atoll_client, &operation.object), clear(upstream_client, &operation.object));
    }

    /// Fails unless at least `floor` percent of the writes agree.
    fn check(&self, floor: usize) {
        let agreed: usize = self.agreed.values().sum();
        let total = agreed + self.wrong.len();
        println!("{agreed} of {total} agree: {:?}", self.agreed);
        let wrong = self.wrong.join("\n");
        assert!(agreed * 100 >= total * floor, "{} differ:\n{wrong}", self.wrong.len());
    }
}

/// Runs the operation and returns the response, the stored object, and whether it was written.
async fn run(client: &Client, operation: &Operation) -> Value {
    let before = revision(&client.get(&operation.object).await.json());
    let body = match (&operation.body, operation.media) {
        (Value::Null, _) => RequestContent::None,
        (body, media) => {
            RequestContent::Raw(if media.is_empty() { JSON } else { media }, body.to_string().into())
        }
    };
    let method = operation.method.parse().expect("a method");
    let answer =
        client.with_header("user-agent", operation.agent).request(method, &operation.path, body).await;
    let after = client.get(&operation.object).await.json();
    // Upstream sometimes stores other unchanged objects again, if the bytes differ.
    let is_new = operation.verb == "apply" && before != revision(&after);
    json!({ "answer": comparable(&answer), "stored": comparable_object(after), "is new": is_new })
}

async fn clear(client: &Client, object: &str) {
    let finalizers = json!({ "metadata": { "finalizers": null } });
    client.merge(object, finalizers).await;
    client.delete(&format!("{object}?gracePeriodSeconds=0")).await;
}

fn revision(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

fn comparable(answer: &ApiResponse) -> Value {
    json!({ "status": answer.status, "body": comparable_object(answer.json()) })
}

/// Removes varying values. The order of conflicts is random upstream.
fn comparable_object(mut object: Value) -> Value {
    if object["kind"] == "Status" {
        let causes = object["details"]["causes"].as_array().cloned().unwrap_or_default();
        let mut causes: Vec<String> = causes.iter().map(Value::to_string).collect();
        causes.sort();
        let message = object["message"].as_str().unwrap_or_default();
        // The message contains a text diff of the Pod, which is not compared here.
        let limit = if message.contains("pod updates may not change") { 1 } else { usize::MAX };
        let mut lines: Vec<&str> = message.lines().take(limit).collect();
        lines.sort_unstable();
        causes.iter_mut().for_each(|cause| cause.truncate(cause.find("\\n").unwrap_or(cause.len())));
        return json!({ "code": object["code"], "reason": object["reason"], "message": lines, "causes": causes });
    }
    let Some(fields) = object["metadata"].as_object_mut() else { return object };
    for name in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"] {
        fields.remove(name);
    }
    for entry in fields.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry["time"] = entry["time"].is_string().into();
    }
    if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
        entries
            .sort_by_key(|entry| ["operation", "manager", "subresource"].map(|name| entry[name].to_string()));
    }
    object
}
