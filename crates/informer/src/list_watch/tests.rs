use std::sync::{Arc, Mutex};

use atoll_client::connect_error::Cause;
use atoll_client::memory_limits::Budget;
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::{Informers, Key, resources};

/// Server that returns a status code and a body, given the number of previous requests and the path.
struct Server {
    requests: Mutex<Vec<String>>,
    answer: Respond,
}

type Respond = fn(usize, &str) -> (u16, String);

impl Transport for Server {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let path = request.uri().to_string();
        let mut requests = self.requests.lock().unwrap();
        let (code, body) = (self.answer)(requests.len(), &path);
        requests.push(path);
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        Box::pin(async move { Ok(Response::builder().status(code).body(body)?) })
    }
}

impl Server {
    fn new(answer: Respond) -> Arc<Server> {
        Arc::new(Server { requests: Mutex::default(), answer })
    }

    fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn refused(code: u16) -> (u16, String) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
    (code, status.to_string())
}

fn job(name: &str, revision: u32) -> Value {
    json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": revision.to_string()}})
}

fn listed(items: &[Value], revision: u32) -> (u16, String) {
    (200, json!({"metadata": {"resourceVersion": revision.to_string()}, "items": items}).to_string())
}

fn happened(kind: &str, object: &Value) -> (u16, String) {
    (200, format!("{}\n", json!({"type": kind, "object": object})))
}

#[tokio::test(start_paused = true)]
async fn unserved_resource_is_retried_with_backoff() {
    // The first forty requests, which take many minutes, return 404.
    let server = Server::new(|before, path| match (before < 40, path.contains("watch=true")) {
        (true, _) => refused(404),
        (false, false) => listed(&[job("a", 3)], 5),
        (false, true) => (200, String::new()),
    });
    let informers = Informers::new(ApiScope::single(Client::new(server.clone())));
    let jobs = informers.of(&resources::JOBS);
    let early = tokio::time::timeout(Duration::from_secs(300), jobs.synced()).await;
    assert!(early.is_err(), "the resource is not served yet");
    assert!(server.requests() < 20, "{} requests in five minutes", server.requests());
    let began = Instant::now();
    jobs.synced().await;
    assert!(began.elapsed() > Duration::from_secs(600), "after {:?}", began.elapsed());
    assert!(jobs.get(&Key::new("", "n", "a")).is_some());
}

#[tokio::test(start_paused = true)]
async fn watches_resume_where_the_last_one_ended() {
    let server = Server::new(|before, _| match before {
        0 => listed(&[job("a", 3)], 5),
        1 => happened("ADDED", &job("b", 7)),
        2 => refused(503),
        3 => happened("DELETED", &job("a", 8)),
        // The watch history is lost: list again.
        4 => refused(410),
        5 => listed(&[job("c", 9)], 10),
        _ => (200, String::new()),
    });
    let seen: Mutex<Vec<String>> = Mutex::default();
    let api = ApiScope::single(Client::new(server.clone()));
    let list_watch = ListWatch::all(&resources::JOBS).field_selector("status.phase=Active");
    let following = list_and_watch(&api, list_watch, |event| {
        seen.lock().unwrap().push(match event {
            ListWatchEvent::Upserted(object) => format!("+{}", object::name(&object)),
            ListWatchEvent::Deleted(object) => format!("-{}", object::name(&object)),
            ListWatchEvent::Listed(present, revision) => format!("{} at {revision}", present.len()),
        });
    });
    let _ = tokio::time::timeout(Duration::from_secs(5), following).await;
    assert_eq!(*seen.lock().unwrap(), ["+a", "1 at 5", "+b", "-a", "+c", "1 at 10"]);
    let requests = server.requests.lock().unwrap();
    let revisions: Vec<&str> =
        requests[1..5].iter().filter_map(|path| path.split("resourceVersion=").nth(1)).collect();
    assert_eq!(revisions, ["5", "7", "7", "8"]);
    let selected = |path: &String| path.contains("?fieldSelector=status.phase%3DActive&");
    assert!(requests.iter().all(selected), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn server_that_ends_every_watch_is_not_flooded() {
    let server = Server::new(|_, path| match path.contains("watch=true") {
        true => refused(410),
        false => listed(&[], 1),
    });
    let api = ApiScope::single(Client::new(server.clone()));
    let following = list_and_watch(&api, ListWatch::all(&resources::JOBS), |_| {});
    let _ = tokio::time::timeout(Duration::from_secs(10), following).await;
    assert!(server.requests() <= 210, "{} requests in ten seconds", server.requests());
}

/// An object so large that a page of them exceeds the limit.
fn large(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name}, "data": "x".repeat(3 << 20)})
}

#[tokio::test(start_paused = true)]
async fn pages_of_large_objects_are_requested_with_a_smaller_limit() {
    // Returns up to `limit` of twenty objects.
    let server = Server::new(|_, path| {
        let number = |name: &str| {
            let text = path.split(&format!("{name}=")).nth(1).unwrap_or_default();
            text.split('&').next().unwrap_or_default().parse::<usize>().unwrap_or(0)
        };
        if path.contains("watch=true") {
            return (200, String::new());
        }
        let (first, end) = (number("continue"), (number("continue") + number("limit")).min(20));
        let items: Vec<Value> = (first..end).map(|at| large(&at.to_string())).collect();
        let next = if end < 20 { end.to_string() } else { String::new() };
        (200, json!({"metadata": {"resourceVersion": "1", "continue": next}, "items": items}).to_string())
    });
    let budget = Budget::new(atoll_client::memory_limits::CLUSTER);
    let api = ApiScope::single(Client::new(server.clone()).charged_to(Some(budget.clone())));
    let counts: Mutex<Vec<usize>> = Mutex::default();
    let following = list_and_watch(&api, ListWatch::all(&resources::JOBS), |event| {
        if let ListWatchEvent::Listed(present, _) = event {
            counts.lock().unwrap().push(present.len());
        }
    });
    let _ = tokio::time::timeout(Duration::from_secs(1), following).await;
    assert_eq!(counts.lock().unwrap().first(), Some(&20));
    assert_eq!((budget.last_refusal(), budget.used()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn endless_lists_and_oversized_objects_are_recorded_in_the_budget() {
    let endless = |_: usize, _: &str| {
        let items: Vec<Value> = (0..500).map(|_| json!({"metadata": {"uid": "u".repeat(1000)}})).collect();
        (200, json!({"metadata": {"continue": "next"}, "items": items}).to_string())
    };
    let too_large = |_: usize, path: &str| match path.contains("watch=true") {
        true => (200, String::new()),
        false => (200, format!("\"{}\"", "x".repeat(atoll_client::memory_limits::MAX_RESPONSE))),
    };
    let long_line = |_: usize, path: &str| match path.contains("watch=true") {
        true => (200, "x".repeat(atoll_client::memory_limits::MAX_WATCH_LINE + 2)),
        false => listed(&[], 1),
    };
    let answers: [(Respond, Cause); 3] = [
        (endless, Cause::MemoryBudgetExceeded),
        (too_large, Cause::AnswerTooLarge),
        (long_line, Cause::AnswerTooLarge),
    ];
    for (answer, expected) in answers {
        let budget = Budget::new(32 << 20);
        let api = ApiScope::single(Client::new(Server::new(answer)).charged_to(Some(budget.clone())));
        let following = list_and_watch(&api, ListWatch::all(&resources::JOBS), |_| {});
        let _ = tokio::time::timeout(Duration::from_secs(1), following).await;
        assert_eq!(budget.last_refusal().map(|(cause, _)| cause), Some(expected));
        assert_eq!(budget.used(), 0);
    }
}

/// An object that takes more memory than a response of a cluster may.
fn dense(name: &str) -> Value {
    let variables: Vec<Value> = (0..100_000).map(|_| json!({ "name": "a" })).collect();
    json!({"metadata": {"name": name, "uid": name}, "spec": {"env": variables}})
}

#[tokio::test(start_paused = true)]
async fn oversized_object_hides_no_other() {
    // Ten objects, of which the fifth is oversized; requests for metadata succeed.
    struct Ten(Mutex<usize>);
    impl Transport for Ten {
        fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            let path = request.uri().to_string();
            let number = |name: &str| {
                let text = path.split(&format!("{name}=")).nth(1).unwrap_or_default();
                text.split('&').next().unwrap_or_default().parse::<usize>().unwrap_or(0)
            };
            *self.0.lock().unwrap() += 1;
            let is_partial = request.headers()["accept"].to_str().unwrap().contains("PartialObjectMetadata");
            let (first, end) = (number("continue"), (number("continue") + number("limit")).min(10));
            let make = |at: usize| if at == 5 && !is_partial { dense("5") } else { job(&at.to_string(), 1) };
            let items: Vec<Value> = (first..end).map(make).collect();
            let next = if end < 10 { end.to_string() } else { String::new() };
            let list = json!({"metadata": {"resourceVersion": "1", "continue": next}, "items": items});
            let body = if path.contains("watch=true") { String::new() } else { list.to_string() };
            let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
            Box::pin(async move { Ok(Response::new(body)) })
        }
    }
    for (budget, expected) in [(None, 10), (Some(Budget::new(atoll_client::memory_limits::CLUSTER)), 9)] {
        let server = Arc::new(Ten(Mutex::default()));
        let api = ApiScope::single(Client::new(server.clone()).charged_to(budget.clone()));
        let shown: Mutex<Vec<String>> = Mutex::default();
        let all: Mutex<Option<(usize, usize)>> = Mutex::default();
        let following = list_and_watch(&api, ListWatch::all(&resources::JOBS), |event| match event {
            ListWatchEvent::Upserted(found) => shown.lock().unwrap().push(object::name(&found).to_string()),
            ListWatchEvent::Listed(present, _) => {
                all.lock().unwrap().get_or_insert((present.len(), *server.0.lock().unwrap()));
            }
            ListWatchEvent::Deleted(_) => {}
        });
        let _ = tokio::time::timeout(Duration::from_secs(1), following).await;
        assert_eq!(shown.lock().unwrap().len(), expected);
        let (present, requests) = all.lock().unwrap().expect("the list ended");
        assert!(present == 10 && requests < 20, "{present} objects, {requests} requests");
        if let Some(budget) = budget {
            assert_eq!(budget.last_refusal().map(|(cause, _)| cause), Some(Cause::AnswerTooLarge));
            assert_eq!(budget.used(), 0);
        }
    }
}
