use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::*;
use crate::memory_limits::{MAX_MESSAGE, MAX_PARSED, MAX_RESPONSE};

/// Transport that returns the same response to every request.
struct Answer(u16, String);

impl Transport for Answer {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let body = Full::new(Bytes::from(self.1.clone())).map_err(|never| match never {}).boxed_unsync();
        let code = self.0;
        Box::pin(async move { Ok(Response::builder().status(code).body(body)?) })
    }
}

/// Returns clients of a server with a fixed response: one without and one with a budget.
fn clients(code: u16, body: String) -> (Client, Client, Arc<Budget>) {
    let (client, budget) = (Client::new(Arc::new(Answer(code, body))), Budget::new(memory_limits::CLUSTER));
    (client.clone(), client.charged_to(Some(budget.clone())), budget)
}

/// An object that takes more than sixty times the memory of its JSON.
fn dense() -> Value {
    let variables: Vec<Value> = (0..100_000).map(|_| json!({ "name": "a" })).collect();
    json!({ "metadata": { "resourceVersion": "5" }, "spec": { "env": variables } })
}

#[tokio::test]
async fn objects_of_a_trusted_server_have_no_size_limit() {
    let body = dense().to_string();
    assert!(body.len() < 2 << 20 && memory_limits::parsed_size(body.as_bytes()) > MAX_PARSED);
    let (trusting, charged, budget) = clients(200, body);
    assert_eq!(trusting.get("/a").await.unwrap(), dense());
    assert_eq!(trusting.get("/as?limit=1&continue=").await.unwrap(), dense());
    // A page with several objects is refused, because a smaller one can be requested.
    for client in [&trusting, &charged] {
        assert!(memory_limits::is_too_large(&client.get("/as?watch=false&limit=500").await.unwrap_err()));
    }
    assert!(memory_limits::is_too_large(&charged.get("/a").await.unwrap_err()));
    let (trusting, charged, _) = clients(200, format!("\"{}\"", "x".repeat(MAX_RESPONSE)));
    assert!(trusting.get("/a").await.is_ok() && charged.get("/a").await.is_err());
    assert_eq!(budget.used(), 0);
}

/// Transport whose responses never end.
struct Endless;

impl Transport for Endless {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async { Ok(Response::new(EndlessBody.boxed_unsync())) })
    }
}

struct EndlessBody;

impl http_body::Body for EndlessBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn endless_response_is_an_error() {
    let status = Client::new(Arc::new(Endless)).get("/a").await.unwrap_err();
    assert!(status.has_cause(Cause::TimedOut.name()), "{status}");
}

#[tokio::test]
async fn oversized_event_is_skipped() {
    let line = |object: Value| format!("{}\n", json!({ "type": "ADDED", "object": object }));
    let body = format!("{}{}", line(dense()), line(json!({ "after": true })));
    let (trusting, charged, budget) = clients(200, body);
    let after = |event: Option<WatchEvent>| matches!(event, Some(WatchEvent::Added(object)) if object["after"] == true);
    let mut watch = charged.watch("/as").await.unwrap();
    assert!(after(watch.next().await));
    assert!(watch.next().await.is_none());
    assert_eq!(budget.last_refusal().map(|(cause, _)| cause), Some(Cause::AnswerTooLarge));
    let mut watch = trusting.watch("/as").await.unwrap();
    assert!(matches!(watch.next().await, Some(WatchEvent::Added(object)) if object == dense()));
    assert!(after(watch.next().await));
}

#[tokio::test]
async fn error_messages_of_clusters_are_bounded_and_cleaned() {
    let causes: Vec<Value> = (0..1000).map(|_| json!({ "reason": "x".repeat(100) })).collect();
    let message = format!("denied\u{1b}[2J{}", "x".repeat(1 << 19));
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": message, "details": { "causes": causes },
    });
    let (trusting, charged, budget) = clients(403, status.to_string());
    let refused = charged.get("/a").await.unwrap_err();
    assert_eq!((refused.code(), refused.message().len()), (403, MAX_MESSAGE));
    assert!(refused.message().starts_with("denied[2Jx") && refused.to_json().len() < 4 * MAX_MESSAGE);
    assert_eq!(trusting.get("/a").await.unwrap_err().message(), message);
    let (_, charged, _) = clients(502, format!("\u{1b}{}", "x".repeat(1 << 19)));
    let refused = charged.get("/a").await.unwrap_err();
    assert!(refused.message().len() < MAX_MESSAGE + 100 && !refused.message().contains('\u{1b}'));
    assert_eq!(budget.used(), 0);
}
