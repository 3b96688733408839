//! A cluster that refuses something for a while when a namespace is to go is asked again: nothing is forgotten.

use std::sync::{Arc, Mutex};

use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_fleet::view::{Drift, Line, State, Target};
use atoll_testkit::wait::eventually;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::above::Above;
use crate::{Running, bare, client, map, transport};

/// What is refused, and how often.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    method: Method,
    path: String,
    code: u16,
    times: usize,
}

/// A connection to a server that refuses something for a while.
struct Refusing {
    inner: Https,
    refusal: Mutex<Option<Refusal>>,
}

impl Refusing {
    /// The code that this request is answered with, if it is refused.
    fn refuse(&self, request: &Request<Bytes>) -> Option<u16> {
        let mut held = self.refusal.lock().unwrap();
        let refusal = held.as_mut()?;
        if *request.method() != refusal.method || request.uri().path() != refusal.path {
            return None;
        }
        let code = refusal.code;
        refusal.times -= 1;
        if refusal.times == 0 {
            *held = None;
        }
        Some(code)
    }
}

impl Transport for Refusing {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let Some(code) = self.refuse(&request) else { return self.inner.send(request) };
        let status = json!({ "kind": "Status", "status": "Failure", "code": code, "message": "not now" });
        let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
        let response = Response::builder().status(code).header("content-type", "application/json");
        Box::pin(async move { Ok(response.body(body.boxed_unsync())?) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_for_a_while_is_tried_again() {
    let atoll = bare();
    let plain = client(atoll.url(), &atoll.authority());
    // A group that others may have to answer for.
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
    eventually("it is served", async || plain.get("/apis/example.com/v1").await.is_ok()).await;
    let inner = transport(atoll.url(), &atoll.authority());
    let refusing = Arc::new(Refusing { inner, refusal: Mutex::default() });
    let above = Above::saying("plane", Vec::new());
    let running = Running::start(&above, &Client::new(refusing.clone()), |_| {});
    eventually("somebody listens", async || above.views() > 0).await;

    let (get, delete) = (Method::GET, Method::DELETE);
    let cases = [
        // The namespace itself.
        (&delete, "/api/v1/namespaces/NAME", 500),
        (&delete, "/api/v1/namespaces/NAME", 503),
        (&delete, "/api/v1/namespaces/NAME", 504),
        (&delete, "/api/v1/namespaces/NAME", 429),
        (&delete, "/api/v1/namespaces/NAME", 409),
        (&get, "/api/v1/namespaces/NAME", 500),
        // What is in it.
        (&delete, "/api/v1/namespaces/NAME/configmaps/map-NAME", 500),
        (&delete, "/api/v1/namespaces/NAME/configmaps/map-NAME", 503),
        (&delete, "/api/v1/namespaces/NAME/configmaps/map-NAME", 429),
        // What there may be in it.
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
        let target = Target { namespace: namespace.clone(), ..map(&name) };
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        above.say(&Line::Object { target: target.clone(), generation: 1, object, drift: Drift::Correct });
        above.hears(&name, State::Applied).await;
        let refusal =
            Refusal { method: method.clone(), path: path.replace("NAME", &namespace), code, times: 4 };
        *refusing.refusal.lock().unwrap() = Some(refusal.clone());
        above.say(&Line::Ending {
            workspace: target.workspace.clone(),
            namespace: namespace.clone(),
            uid: String::new(),
            since: 0,
        });
        above.say(&Line::Remove { target: target.clone(), since: 0 });
        above.hears(&name, State::Gone).await;
        // When that is said, all of it is done.
        let is_going = match plain.get(&format!("/api/v1/namespaces/{namespace}")).await {
            Ok(space) => space["metadata"]["deletionTimestamp"] != Value::Null,
            Err(status) => status.code() == 404,
        };
        assert!(is_going, "{refusal:?}: the namespace is forgotten");
        assert_eq!(*refusing.refusal.lock().unwrap(), None, "it was not asked for often enough");
        above.say(&Line::Forget { target });
    }
    running.stop().await;
}
