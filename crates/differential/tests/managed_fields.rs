//! Atoll and kube-apiserver agree on who manages what, after whatever a few managers do to a few objects.
//!
//! Sequences come from a seed; `ATOLL_SEED` tries another one, `ATOLL_OPERATIONS` more of it.

#[path = "managed_fields/generate.rs"]
mod generate;

use std::collections::BTreeMap;

use atoll_testkit::{Answer, Atoll, Client, Upstream};
use generate::{Operation, Random};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, USER_AGENT};
use serde_json::{Value, json};

const OPERATIONS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_are_the_same_after_any_sequence_of_writes() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = number("ATOLL_SEED").map_or(vec![1, 2], |seed| vec![seed]);
    let count = number("ATOLL_OPERATIONS").map_or(OPERATIONS, |count| count as usize);
    let (ours, theirs) = (atoll.client(), real.client());
    let (mut agreed, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for seed in seeds {
        let namespace = format!("managed-{seed}");
        let body = json!({ "metadata": { "name": namespace } });
        for client in [&ours, &theirs] {
            let created = client.post("/api/v1/namespaces", &body).await;
            assert_eq!(created.expect("the server answers").status, 201);
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            // Without a token there is no volume whose name is drawn.
            let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
            let created = client.post(&path, &account).await;
            assert_eq!(created.expect("the server answers").status, 201);
        }
        let mut random = Random::new(seed);
        let mut previous = None;
        for step in 0..count {
            let operation = generate::operation(&mut random, &namespace, previous.as_ref());
            let (own, their) = tokio::join!(carry_out(&ours, &operation), carry_out(&theirs, &operation));
            if own == their {
                *agreed.entry(operation.verb).or_default() += 1;
            } else {
                let shown = format!("{} {} {}", operation.method, operation.path, operation.body);
                let parts =
                    ["answer", "stored", "is new"].into_iter().filter(|part| own[part] != their[part]);
                let parts = parts.map(|part| format!("{part}: {}\n  instead of {}", own[part], their[part]));
                let parts = parts.collect::<Vec<_>>().join("\n  ");
                wrong.push(format!("seed {seed}, step {step}: {shown}\n  {parts}"));
                // From here on both would differ in what they begin from.
                tokio::join!(clear(&ours, &operation.object), clear(&theirs, &operation.object));
            }
            previous = Some(operation);
        }
    }
    let total: usize = agreed.values().sum();
    println!("{total} of {} agree: {agreed:?}", total + wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What the server answers, what is there then, and whether it is something new.
async fn carry_out(client: &Client, operation: &Operation) -> Value {
    let before = revision(&client.get(&operation.object).await.expect("the server answers").json());
    let mut request = atoll_testkit::request(operation.method, &operation.path, &operation.body);
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static(operation.agent));
    if !operation.media.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(operation.media));
    }
    let answer = client.send(request).await.expect("the server answers");
    let after = client.get(&operation.object).await.expect("the server answers").json();
    // Other writes that change nothing are at times stored anew upstream, where the bytes differ.
    let is_new = operation.verb == "apply" && before != revision(&after);
    json!({ "answer": comparable(&answer), "stored": comparable_object(after), "is new": is_new })
}

async fn clear(client: &Client, object: &str) {
    let finalizers = json!({ "metadata": { "finalizers": null } });
    client.patch(object, "merge", &finalizers).await.expect("the server answers");
    client.delete(&format!("{object}?gracePeriodSeconds=0")).await.expect("the server answers");
}

fn revision(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

fn comparable(answer: &Answer) -> Value {
    json!({ "status": answer.status, "body": comparable_object(answer.json()) })
}

/// Without what is accidental. Which of several conflicts comes first is accidental upstream.
fn comparable_object(mut object: Value) -> Value {
    if object["kind"] == "Status" {
        let causes = object["details"]["causes"].as_array().cloned().unwrap_or_default();
        let mut causes: Vec<String> = causes.iter().map(Value::to_string).collect();
        causes.sort();
        let message = object["message"].as_str().unwrap_or_default();
        // What was changed about a Pod is shown as a difference between texts, which is not what this is about.
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
