//! Authentication: tokens, certificates and certificate requests, and how they are stored on disk.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod certificates;
mod disk;
mod requests;
mod secrets;
#[path = "../support/support.rs"]
mod support;
mod tokens;
mod workspaces;

use atoll_testkit::Client;
use serde_json::{Value, json};

pub const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
pub const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Creates a ServiceAccount.
pub async fn create_account(client: &Client, name: &str) -> Value {
    client.post(ACCOUNTS, json!({ "metadata": { "name": name } })).await.expect(201)
}

/// Requests a token of a ServiceAccount.
pub async fn request_token(client: &Client, name: &str, spec: Value) -> String {
    let answer = client.post(&format!("{ACCOUNTS}/{name}/token"), json!({ "spec": spec })).await.expect(201);
    answer["status"]["token"].as_str().unwrap().to_string()
}

/// Returns the user name that the server authenticates, whatever its rights are, or the status of the error.
pub async fn user_name(client: &Client) -> Result<String, u16> {
    let answer = client.post("/atoll/nowhere", json!({})).await;
    match answer.status {
        401 => Err(401),
        403 => {
            let message = answer.expect_status(403, "Forbidden");
            Ok(message.split('"').nth(1).unwrap().to_string())
        }
        // Only administrators get a 404 for a missing workspace.
        404 => {
            Ok(client.post(SELF, json!({})).await.expect(201)["status"]["userInfo"]["username"].to_string())
        }
        code => panic!("{code}: {}", answer.text()),
    }
}

/// Returns the status of a TokenReview.
pub async fn review(client: &Client, spec: Value) -> Value {
    client.post(REVIEWS, json!({ "spec": spec })).await.expect(201)["status"].clone()
}
