//! Requests that a cluster rejects temporarily during the deletion of a namespace are retried.

use std::sync::{Arc, Mutex};

use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_fleet::view::{Drift, ObjectTarget, State, SyncLine};
use atoll_testkit::wait::eventually;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, client, map, start_without_controllers, transport};

/// A request to reject, and how often.
#[derive(Clone, Debug, PartialEq)]
struct Rejection {
    method: Method,
    path: String,
    code: u16,
    times: usize,
}

/// A connection to a server that rejects a request for a while.
struct RejectingTransport {
    inner: Https,
    rejection: Mutex<Option<Rejection>>,
}

impl RejectingTransport {
    /// Returns the status code for this request, if it is rejected.
    fn rejection_code(&self, request: &Request<Bytes>) -> Option<u16> {
        let mut pending = self.rejection.lock().unwrap();
        let rejection = pending.as_mut()?;
        if *request.method() != rejection.method || request.uri().path() != rejection.path {
            return None;
        }
        let code = rejection.code;
        rejection.times -= 1;
        if rejection.times == 0 {
            *pending = None;
        }
        Some(code)
    }
}

impl Transport for RejectingTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let Some(code) = self.rejection_code(&request) else { return self.inner.send(request) };
        let status = json!({ "kind": "Status", "status": "Failure", "code": code, "message": "not now" });
        let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
        let response = Response::builder().status(code).header("content-type", "application/json");
        Box::pin(async move { Ok(response.body(body.boxed_unsync())?) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn temporarily_rejected_requests_are_retried() {
    let atoll = start_without_controllers();
    let plain = client(&atoll.admin());
    // A group whose discovery may fail independently.
    let names = json!({ "plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList" });
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gears.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": names,
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    plain.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.unwrap();
    eventually("the resource is served", async || plain.get("/apis/example.com/v1").await.is_ok()).await;
    let inner = transport(&atoll.admin());
    let rejecting = Arc::new(RejectingTransport { inner, rejection: Mutex::default() });
    let above = FakeControlPlane::with_lines("plane", Vec::new());
    let running = RunningSyncer::start(&above, &Client::new(rejecting.clone()), |_| {});
    eventually("the syncer has opened a view", async || above.views() > 0).await;

    let (get, delete) = (Method::GET, Method::DELETE);
    let cases = [
        // Requests to the namespace itself.
        (&delete, "/api/v1/namespaces/NAME", 500),
        (&delete, "/api/v1/namespaces/NAME", 503),
        (&delete, "/api/v1/namespaces/NAME", 504),
        (&delete, "/api/v1/namespaces/NAME", 429),
        (&delete, "/api/v1/namespaces/NAME", 409),
        (&get, "/api/v1/namespaces/NAME", 500),
        // Requests to its contents.
        (&delete, "/api/v1/namespaces/NAME/configmaps/map-NAME", 500),
        (&delete, "/api/v1/namespaces/NAME/configmaps/map-NAME", 503),
        (&delete, "/api/v1/namespaces/NAME/configmaps/map-NAME", 429),
        // Requests that find its contents.
        (&get, "/apis", 500),
        (&get, "/apis", 429),
        (&get, "/apis/apps/v1", 503),
        (&get, "/apis/apps/v1", 429),
        (&get, "/api/v1/namespaces/NAME/configmaps", 500),
        (&get, "/apis/apps/v1/namespaces/NAME/deployments", 500),
        (&get, "/apis/apps/v1/namespaces/NAME/deployments", 429),
        (&get, "/apis/networking.k8s.io/v1/namespaces/NAME/ingresses", 503),
        (&get, "/apis/example.com/v1", 503),
        (&get, "/apis/example.com/v1/namespaces/NAME/gears", 500),
        (&get, "/apis/example.com/v1/namespaces/NAME/gears", 429),
    ];
    for (number, (method, path, code)) in cases.into_iter().enumerate() {
        let namespace = format!("shop-{number}");
        let name = format!("map-{namespace}");
        let target = ObjectTarget { namespace: namespace.clone(), ..map(&name) };
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        above.send_line(&SyncLine::Object {
            target: target.clone(),
            generation: 1,
            object,
            drift: Drift::Correct,
            held: false,
        });
        above.wait_for_record(&name, State::Applied).await;
        let rejection =
            Rejection { method: method.clone(), path: path.replace("NAME", &namespace), code, times: 4 };
        *rejecting.rejection.lock().unwrap() = Some(rejection.clone());
        above.send_line(&SyncLine::Ending {
            workspace: target.workspace.clone(),
            namespace: namespace.clone(),
            uid: String::new(),
            since: 0,
        });
        above.send_line(&SyncLine::Remove { target: target.clone(), since: 0 });
        above.wait_for_record(&name, State::Gone).await;
        // Once the object is reported as gone, the namespace has been deleted.
        let is_deleted = match plain.get(&format!("/api/v1/namespaces/{namespace}")).await {
            Ok(found) => found["metadata"]["deletionTimestamp"] != Value::Null,
            Err(status) => status.code() == 404,
        };
        assert!(is_deleted, "{rejection:?}: the namespace must be deleted");
        assert_eq!(*rejecting.rejection.lock().unwrap(), None, "the request was not retried often enough");
        above.send_line(&SyncLine::Forget { target });
    }
    running.stop().await;
}
