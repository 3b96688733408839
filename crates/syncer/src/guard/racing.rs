//! Tests of concurrent writes to the claim and the lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::*;
use crate::guard::write_gate::WriteGate;

const CLAIM: &str = "/api/v1/namespaces/atoll-system/configmaps/atoll-claim";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/atoll-syncer";

/// Fake cluster with a concurrent writer: before the first write to a path, the object in `planted` is stored
/// there.
struct Cluster {
    objects: Mutex<HashMap<String, Value>>,
    planted: Mutex<HashMap<String, Value>>,
}

impl Cluster {
    fn answer(&self, request: &Request<Bytes>) -> (u16, Value) {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let status = |code: u16, reason: &str| {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason });
            (code, status)
        };
        let mut path = request.uri().path().to_string();
        if *request.method() == Method::POST {
            path = format!("{path}/{}", object::name(&body));
        }
        let mut objects = self.objects.lock().unwrap();
        let planted = match *request.method() {
            Method::GET => None,
            _ => self.planted.lock().unwrap().remove(&path),
        };
        if let Some(planted) = planted {
            objects.insert(path.clone(), planted);
        }
        match *request.method() {
            Method::GET => objects.get(&path).cloned().map_or(status(404, "NotFound"), |found| (200, found)),
            Method::POST if objects.contains_key(&path) => status(409, "AlreadyExists"),
            Method::PUT if object::resource_version(&objects[&path]) != object::resource_version(&body) => {
                status(409, "Conflict")
            }
            _ => {
                objects.insert(path, body.clone());
                (200, body)
            }
        }
    }
}

impl Transport for Cluster {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let (code, answer) = self.answer(&request);
        let body = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {}).boxed_unsync();
        Box::pin(async move { Ok(Response::builder().status(code).body(body)?) })
    }
}

fn claim(cluster: &str) -> Value {
    json!({
        "metadata": { "name": "atoll-claim", "resourceVersion": "7" },
        "data": { "controlPlane": "cp", "cluster": cluster },
    })
}

fn lease(holder: &str, version: &str) -> Value {
    json!({
        "metadata": { "name": "atoll-syncer", "resourceVersion": version },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 30 },
    })
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_resolved_by_reading_again() {
    for (there, planted, expected) in [
        (vec![], vec![], None),
        // `atoll cluster join` creates the claim during the first check.
        (vec![], vec![(CLAIM, claim("u"))], None),
        (vec![], vec![(CLAIM, claim("other"))], Some("ClaimedByAnother")),
        // The syncer's own lease, created by a request whose response was lost.
        (vec![], vec![(LEASE, lease("cp/one", "8"))], None),
        // The lease was written between the read and the renewal.
        (vec![(LEASE, lease("", "8"))], vec![(LEASE, lease("cp/one", "9"))], None),
        // Another syncer holds the lease.
        (vec![], vec![(LEASE, lease("cp/two", "8"))], Some("HeldByAnother")),
        (vec![(LEASE, lease("", "8"))], vec![(LEASE, lease("cp/two", "9"))], Some("HeldByAnother")),
    ] {
        let all = |list: &[(&str, Value)]| {
            list.iter().map(|(path, object)| (path.to_string(), object.clone())).collect::<HashMap<_, _>>()
        };
        let mut objects = all(&there);
        objects.insert(IDENTITY.to_string(), json!({ "metadata": { "name": "kube-system", "uid": "k" } }));
        let cluster = Cluster { objects: Mutex::new(objects), planted: Mutex::new(all(&planted)) };
        let below = ClusterClient::new(Client::new(Arc::new(cluster)), None, WriteGate::new());
        let settings = Settings::new("east", "one", Arc::new(|| 500));
        let registration = ClusterRegistration {
            control_plane: "cp".into(),
            cluster: "u".into(),
            ..ClusterRegistration::default()
        };
        let note = LeaseNote { interval: Duration::from_secs(10), lost: None };
        let (_, verdict) = Guard::new(&settings).check(&below, &settings, &registration, &note).await;
        let reason = verdict.err().map(|problem| problem.reason);
        assert_eq!(reason, expected, "{there:?} {planted:?}");
    }
}
