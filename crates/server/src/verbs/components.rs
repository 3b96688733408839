//! ComponentStatuses. They are not stored: each request checks the components of the control plane.

// upstream: pkg/registry/core/componentstatus/rest.go

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::{Status, json};
use atoll_registry::{Listing, Row};
use atoll_store::Key;
use atoll_watch::{Facts, Object};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::ListOptions;
use crate::respond;

/// Timeout of the store, as upstream for etcd.
const STORE_TIMEOUT: Duration = Duration::from_secs(20);

/// The components, by the names that tools know, sorted.
const COMPONENTS: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

pub async fn get(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let name = COMPONENTS.into_iter().find(|name| *name == call.info.name);
    // Upstream uses the singular here.
    let name = name.ok_or_else(|| Status::not_found("", "componentstatus", &call.info.name))?;
    let object = component(server, row, name).await;
    respond::stored_object(row, StatusCode::OK, object.json(), call).await
}

pub async fn list(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(row, &call.query, false)?;
    let mut objects = Vec::with_capacity(COMPONENTS.len());
    for name in COMPONENTS {
        let object = component(server, row, name).await;
        if options.selection.matches(&object) {
            objects.push(object);
        }
    }
    let listing = Listing { objects: objects.into(), revision: 0, next: None, remaining: None };
    respond::list::render(row, listing, None, call).await
}

/// Returns the current status of a component.
async fn component(server: &Server, row: &Row, name: &str) -> Arc<Object> {
    let (is_healthy, message, error) = match name {
        "etcd-0" => match tokio::time::timeout(STORE_TIMEOUT, server.registry.store.revision()).await {
            Ok(Ok(_)) => (true, "ok", String::new()),
            Ok(Err(error)) => (false, "", error.to_string()),
            Err(_elapsed) => (false, "", "context deadline exceeded".to_string()),
        },
        _ if server.runs_controllers => (true, "ok", String::new()),
        _ => (false, "this server was started without controllers", String::new()),
    };
    let mut condition = json!({ "type": "Healthy", "status": if is_healthy { "True" } else { "False" } });
    // Absent rather than empty, as in Go.
    for (field, text) in [("message", message), ("error", error.as_str())] {
        if !text.is_empty() {
            condition[field] = text.into();
        }
    }
    let object = json!({
        "kind": row.kind,
        "apiVersion": row.api_version(),
        "metadata": { "name": name },
        "conditions": [condition],
    });
    let key = Key::object(&row.group, &row.resource, "", "", name);
    Arc::new(Object::complete(key, 0, Bytes::from(json::encode_object(&object)), Facts::none()))
}
