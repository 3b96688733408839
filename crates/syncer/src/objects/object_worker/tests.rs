use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_fleet::view::{ObjectTarget, SyncLine, SyncResource};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::connections::sync_view::ClusterRegistration;
use crate::settings::Drift;
use crate::settings::Settings;

type Hook = Box<dyn FnOnce() + Send>;

/// Fake cluster that stores objects and records writes.
#[derive(Default)]
struct Cluster {
    objects: Mutex<HashMap<String, Value>>,
    writes: Mutex<Vec<String>>,
    /// Whether it stops responding.
    hangs: AtomicBool,
    /// Called during the first write.
    meanwhile: Mutex<Option<Hook>>,
}

impl Cluster {
    fn answer(&self, request: &Request<Bytes>) -> (u16, Value) {
        let path = request.uri().path().to_string();
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let mut objects = self.objects.lock().unwrap();
        if request.method() != Method::GET {
            self.writes.lock().unwrap().push(format!("{} {path}", request.method()));
            if let Some(hook) = self.meanwhile.lock().unwrap().take() {
                hook();
            }
        }
        let missing = json!({ "kind": "Status", "code": 404, "reason": "NotFound" });
        match *request.method() {
            Method::POST => {
                let mut made = body;
                object::set_uid(&mut made, "below");
                made["metadata"]["resourceVersion"] = "1".into();
                objects.insert(format!("{path}/{}", object::name(&made)), made.clone());
                (201, made)
            }
            Method::DELETE => (200, objects.remove(&path).unwrap_or_default()),
            _ if request.uri().query().is_some_and(|query| query.contains("labelSelector")) => {
                (200, json!({ "items": [] }))
            }
            _ => objects.get(&path).cloned().map_or((404, missing), |found| (200, found)),
        }
    }

    fn writes(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock().unwrap())
    }
}

impl Transport for Cluster {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        if self.hangs.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let (code, answer) = self.answer(&request);
        let body = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {}).boxed_unsync();
        Box::pin(async move { Ok(Response::builder().status(code).body(body)?) })
    }
}

fn target() -> ObjectTarget {
    let resource = SyncResource {
        version: "v1".into(),
        resource: "configmaps".into(),
        kind: "ConfigMap".into(),
        namespaced: true,
        ..SyncResource::default()
    };
    let (workspace, namespace, name) = ("w".into(), "shop".into(), "settings".into());
    ObjectTarget { resource, workspace, namespace, name, uid: "u".into() }
}

fn desired(value: &str) -> SyncLine {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": value } });
    SyncLine::Object { target: target(), generation: 1, object, drift: Drift::Correct, held: false }
}

fn unwanted() -> SyncLine {
    SyncLine::Remove { target: target(), since: 0 }
}

fn paused() -> SyncLine {
    SyncLine::Paused { workspace: String::new(), paused: true, why: "an incident".into() }
}

struct Fixture {
    syncer: Arc<Syncer>,
    cluster: Arc<Cluster>,
    budget: Arc<Semaphore>,
    key: Key,
}

/// Returns a syncer with a limit of one concurrent request.
fn fixture(line: SyncLine) -> Fixture {
    let cluster = Arc::new(Cluster::default());
    let budget = Arc::new(Semaphore::new(1));
    let mut settings = Settings::new("east", "one", Arc::new(|| 500));
    settings.budget = Some(budget.clone());
    let syncer = Syncer::new(settings, Client::new(cluster.clone()), Client::new(cluster.clone()));
    let registration = ClusterRegistration {
        control_plane: "plane".into(),
        cluster: "c".into(),
        workspace: "w".into(),
        ..ClusterRegistration::default()
    };
    syncer.start_round(registration, Some(vec![line]));
    syncer.gate.open(Instant::now() + Duration::from_secs(3600));
    Fixture { syncer, cluster, budget, key: crate::objects::table::key(&target()) }
}

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const MAP: &str = "/api/v1/namespaces/shop/configmaps/settings";

#[tokio::test(start_paused = true)]
async fn decision_is_made_after_waiting_for_a_permit() {
    // The desired state while the work waits for a permit; whether the object exists; the desired state when
    // the permit is granted; the expected writes.
    for (first, is_there, then, expected) in [
        (desired("a"), false, None, vec!["POST /api/v1/namespaces".to_string(), format!("POST {MAPS}")]),
        (desired("a"), false, Some(paused()), vec![]),
        (desired("a"), false, Some(unwanted()), vec![]),
        (unwanted(), true, None, vec![format!("DELETE {MAP}")]),
        (unwanted(), true, Some(paused()), vec![]),
        (unwanted(), true, Some(desired("a")), vec![]),
    ] {
        let Fixture { syncer, cluster, budget, key } = fixture(desired("a"));
        if is_there {
            while let Next::Again = work(syncer.clone(), key.clone()).await.expect("created") {}
            assert_eq!(cluster.writes().len(), 2);
        }
        syncer.handle_line(first.clone());
        let permit = budget.clone().acquire_owned().await.expect("never closed");
        let mut working = tokio::spawn(work(syncer.clone(), key.clone()));
        // Paused time advances only when no task can run.
        let waiting = tokio::time::timeout(Duration::from_secs(1), &mut working).await;
        assert!(waiting.is_err(), "the work must wait");
        assert_eq!(cluster.writes(), Vec::<String>::new(), "no permit is available");
        if let Some(then) = &then {
            syncer.handle_line(then.clone());
        }
        drop(permit);
        working.await.expect("no panic").expect("no failure");
        assert_eq!(cluster.writes(), expected, "{first:?} {then:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn decision_is_checked_between_two_requests() {
    for line in [paused(), unwanted()] {
        let Fixture { syncer, cluster, key, .. } = fixture(desired("a"));
        let (heeding, said) = (syncer.clone(), line.clone());
        *cluster.meanwhile.lock().unwrap() = Some(Box::new(move || heeding.handle_line(said)));
        work(syncer.clone(), key.clone()).await.expect("no failure");
        assert_eq!(cluster.writes(), ["POST /api/v1/namespaces"], "{line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_held_while_the_cluster_is_unverified() {
    let Fixture { syncer, cluster, budget, key } = fixture(desired("a"));
    let permit = budget.clone().acquire_owned().await.expect("never closed");
    let mut working = tokio::spawn(work(syncer.clone(), key.clone()));
    let waiting = tokio::time::timeout(Duration::from_secs(1), &mut working).await;
    assert!(waiting.is_err(), "the work waits for a permit");
    // Another control plane may have claimed the cluster.
    syncer.gate.close();
    drop(permit);
    let waiting = tokio::time::timeout(Duration::from_secs(1), &mut working).await;
    assert!(waiting.is_err(), "the work waits for the verification");
    assert_eq!((budget.available_permits(), cluster.writes().len()), (1, 0));
    syncer.gate.open(Instant::now() + Duration::from_secs(3600));
    working.await.expect("no panic").expect("no failure");
    assert_eq!(cluster.writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cluster_in_backoff_holds_no_permit() {
    let Fixture { syncer, cluster, budget, key } = fixture(desired("a"));
    let until = Instant::now() + Duration::from_secs(5);
    syncer.below.back_off_until(until);
    let mut working = tokio::spawn(work(syncer.clone(), key.clone()));
    let waiting = tokio::time::timeout(Duration::from_secs(1), &mut working).await;
    assert!(waiting.is_err(), "the work must wait");
    assert_eq!((budget.available_permits(), cluster.writes().len()), (1, 0));
    working.await.expect("no panic").expect("no failure");
    assert!(Instant::now() >= until);
    // A holder of a permit does not wait for the backoff.
    syncer.below.back_off_until(Instant::now() + Duration::from_secs(5));
    let refused = syncer.with_permit.get(MAP).await.expect_err("the cluster is in backoff");
    assert_eq!((refused.code(), refused.retry_after().is_some()), (429, true));
}

#[tokio::test(start_paused = true)]
async fn hanging_cluster_releases_its_permit() {
    let Fixture { syncer, cluster, budget, key } = fixture(desired("a"));
    cluster.hangs.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let mut working = tokio::spawn(work(syncer.clone(), key));
    let waiting = tokio::time::timeout(Duration::from_secs(1), &mut working).await;
    assert!(waiting.is_err() && budget.available_permits() == 0, "the request may still succeed");
    drop(budget.acquire().await);
    assert!(began.elapsed() < Duration::from_secs(3), "others wait for {:?}", began.elapsed());
    assert!(!working.is_finished(), "the request is still pending");
    assert_eq!(working.await.expect("no panic").expect_err("the cluster does not respond").code(), 503);
}

#[tokio::test(start_paused = true)]
async fn heartbeat_needs_no_permit() {
    let Fixture { syncer, budget, .. } = fixture(desired("a"));
    let _turn = budget.acquire().await.expect("never closed");
    let answered = tokio::time::timeout(Duration::from_secs(60), syncer.unqueued.get("/version")).await;
    assert!(answered.is_ok_and(|answer| answer.is_ok()));
}
