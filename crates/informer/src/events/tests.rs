use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_meta::time::Timestamp;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::new(1_000_000, 5)
    }
}

/// Transport that records requests and accepts them.
struct RequestLog(mpsc::UnboundedSender<(String, Value)>);

impl Transport for RequestLog {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let line = format!("{} {}", request.method(), request.uri());
        let body = serde_json::from_slice(request.body()).unwrap_or_default();
        let _ = self.0.send((line, body));
        let answer = Full::new(request.into_body()).map_err(|never| match never {}).boxed_unsync();
        Box::pin(async { Ok(Response::new(answer)) })
    }
}

fn recorder() -> (Recorder, mpsc::UnboundedReceiver<(String, Value)>) {
    let (sender, requests) = mpsc::unbounded_channel();
    let api = ApiScope::single(Client::new(Arc::new(RequestLog(sender))));
    (Events::new(api, Arc::new(Fixed)).recorder("tester"), requests)
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": "3"}})
}

#[tokio::test(start_paused = true)]
async fn repeated_event_is_counted() {
    let (recorder, mut requests) = recorder();
    recorder.normal(&resources::NODES, &node("a"), "Ready", "it is");
    recorder.normal(&resources::NODES, &node("a"), "Ready", "it is");
    recorder.warning(&resources::NODES, &node("a"), "Ready", "it is");
    let (line, event) = requests.recv().await.unwrap();
    assert_eq!(line, "POST /api/v1/namespaces/default/events");
    assert_eq!(event["metadata"]["name"], "a.38d7ea4c68005");
    assert_eq!(event["involvedObject"]["kind"], "Node");
    assert_eq!(event["lastTimestamp"], "1970-01-12T13:46:40Z");
    let (line, patch) = requests.recv().await.unwrap();
    assert_eq!(line, "PATCH /api/v1/namespaces/default/events/a.38d7ea4c68005");
    assert_eq!(patch["count"], 2);
    assert_eq!(requests.recv().await.unwrap().1["type"], "Warning");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_object_are_limited() {
    let (recorder, mut requests) = recorder();
    for number in 0..100 {
        recorder.normal(&resources::NODES, &node("a"), "Ready", format!("{number}"));
    }
    recorder.normal(&resources::NODES, &node("b"), "Ready", "it is");
    for number in 0..25 {
        let (line, event) = requests.recv().await.unwrap();
        // From the tenth on they are combined into one event.
        assert_eq!(line.starts_with("PATCH"), number > 9, "{number}: {line}");
        let combined = if number < 9 { "" } else { "(combined from similar events): " };
        assert_eq!(event["message"], format!("{combined}{number}"));
    }
    assert_eq!(requests.recv().await.unwrap().1["involvedObject"]["name"], "b");
}

#[test]
fn event_names_are_valid() {
    for (about, expected) in [("web", "web.64"), ("system:node", "uid.64"), (&"x".repeat(252), "uid.64")] {
        assert_eq!(name(about, "uid", Timestamp::new(0, 100)), expected);
    }
}
