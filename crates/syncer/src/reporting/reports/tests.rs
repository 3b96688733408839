use std::sync::Arc;

use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_fleet::view::ObjectTarget;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::*;

/// Fake control plane that responds with a status code, given the number of previous reports and the report.
struct Above {
    heard: Mutex<Vec<(u16, Report)>>,
    answer: fn(usize, &Report) -> u16,
}

impl Transport for Above {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let report: Report = serde_json::from_slice(request.body())?;
            let mut heard = self.heard.lock().expect("not poisoned");
            let code = (self.answer)(heard.len(), &report);
            heard.push((code, report));
            let body =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}).to_string();
            let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
            Ok(Response::builder().status(code).body(body)?)
        })
    }
}

fn record(name: &str, generation: i64) -> (Key, Record) {
    let target = ObjectTarget { name: name.into(), ..ObjectTarget::default() };
    (Key::new("w", "n", name), Record { target, generation, ..Record::default() })
}

/// Sends reports for a while. Returns the accepted reports, and the number of reports sent.
async fn send_reports(reports: &Reports, answer: fn(usize, &Report) -> u16) -> (Vec<Report>, usize) {
    let above = Arc::new(Above { heard: Mutex::default(), answer });
    let settings = Settings::new("east", "one", Arc::new(|| 500));
    let client = Client::new(above.clone());
    let _ = tokio::time::timeout(
        Duration::from_secs(600),
        reports.run(&client, &settings, &ControlPlaneConnection::default()),
    )
    .await;
    let heard = above.heard.lock().expect("not poisoned");
    let taken = heard.iter().filter(|(code, _)| *code == 200).map(|(_, report)| report.clone()).collect();
    (taken, heard.len())
}

fn names(taken: &[Report]) -> usize {
    let names: std::collections::HashSet<&str> =
        taken.iter().flat_map(|report| &report.records).map(|record| record.target.name.as_str()).collect();
    names.len()
}

#[tokio::test(start_paused = true)]
async fn reports_are_batches_of_the_latest_records() {
    let reports = Reports::default();
    for number in 0..1200 {
        for generation in [1, 2] {
            let (key, record) = record(&number.to_string(), generation);
            reports.report(key, record);
        }
    }
    reports.set_heartbeat(json!({"id": "a"}));
    let (taken, count) = send_reports(&reports, |_, _| 200).await;
    assert_eq!((count, names(&taken)), (3, 1200));
    assert!(taken.iter().all(|report| report.records.len() <= MAX_RECORDS));
    assert!(taken.iter().flat_map(|report| &report.records).all(|record| record.generation == 2));
    assert_eq!(taken.iter().filter(|report| report.heartbeat.is_some()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_reports_are_repeated() {
    let reports = Reports::default();
    let (key, record) = record("a", 1);
    reports.report(key, record);
    reports.set_heartbeat(json!({"id": "a"}));
    let (taken, count) = send_reports(&reports, |before, _| if before < 5 { 503 } else { 200 }).await;
    assert_eq!((count, names(&taken)), (6, 1));
    assert!(taken[0].heartbeat.is_some());
}

#[tokio::test(start_paused = true)]
async fn rejected_record_does_not_block_others() {
    let reports = Reports::default();
    for number in 0..40 {
        let (key, record) = record(&number.to_string(), 1);
        reports.report(key, record);
    }
    reports.set_heartbeat(json!({"id": "a"}));
    let is_wrong =
        |_: usize, report: &Report| match report.records.iter().any(|record| record.target.name == "7") {
            true => 400,
            false => 200,
        };
    let (taken, _) = send_reports(&reports, is_wrong).await;
    assert_eq!(names(&taken), 39);
    assert!(taken.iter().any(|report| report.heartbeat.is_some()));
}

#[test]
fn pending_gone_record_is_retracted() {
    let reports = Reports::default();
    let (key, gone) = record("a", 1);
    reports.report(key.clone(), Record { state: State::Gone, ..gone.clone() });
    reports.retract_gone(&key);
    assert!(reports.take(MAX_RECORDS).0.is_empty());
    reports.report(key.clone(), gone);
    reports.retract_gone(&key);
    assert!(matches!(&reports.take(MAX_RECORDS).0[..], [(taken, _)] if *taken == key));
}

#[test]
fn pending_records_are_charged_to_the_cluster() {
    let budget = Budget::new(1 << 20);
    let reports = Reports::new(Some(budget.clone()));
    for number in 0..100 {
        let status = serde_json::json!({ "text": "x".repeat(100_000) });
        let record = Record { status, message: "x".repeat(4000), observed: true, ..Record::default() };
        reports.report(Key::new("w", "n", &number.to_string()), record);
    }
    let whole = |report: &Report| report.records.iter().filter(|record| record.observed).count();
    let (keys, report) = reports.take(MAX_RECORDS);
    assert_eq!((report.records.len(), whole(&report)), (100, 9));
    assert!(report.records.iter().all(|record| !record.message.is_empty()));
    assert!(budget.used() > 900_000, "the report is in flight");
    reports.put_back(keys, report);
    let (keys, report) = reports.take(MAX_RECORDS);
    assert_eq!(whole(&report), 9);
    drop(keys);
    assert_eq!(budget.used(), 0);
}
