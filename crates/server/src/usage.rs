//! Resource usage of nodes and Pods, served as `metrics.k8s.io`. The measurements come from a `Usage`
//! implementation.
//!
//! ```text
//!   GET …/pods ─► list of selected Pods ─► Usage: measurements ─► forms: JSON, table, protobuf
//! ```

mod forms;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::quantity::Quantity;
use atoll_meta::{Status, object, time};
use atoll_registry::catalog::{self, METRICS};
use atoll_registry::{ObjectRef, Row};
use atoll_watch::Object;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::{Form, Media, Output};
use crate::options::ListOptions;
use crate::request::RequestInfo;
use crate::verbs::{self, list};
use crate::{respond, respond::metadata};

/// Measures resource usage.
pub trait UsageSource: Send + Sync + 'static {
    /// Returns the usage of nodes by name; each has one part without a name.
    fn nodes(&self) -> HashMap<String, Measurement>;

    /// Returns the usage of a Pod's running containers.
    fn pod(&self, namespace: &str, name: &str) -> Option<Measurement>;
}

/// A measurement of a node or Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Time of the measurement, in seconds since 1970.
    pub at: i64,
    /// Duration that the measurement covers.
    pub window: Duration,
    pub parts: Vec<UsagePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePart {
    pub name: String,
    /// CPU usage in billionths of a core.
    pub nanocores: u64,
    pub bytes: u64,
}

impl Server {
    /// Returns the row of a request for `metrics.k8s.io`, if usage is measured here.
    pub(crate) fn metrics_row(&self, info: &RequestInfo) -> Option<Row> {
        self.usage.as_ref().filter(|_| info.group == METRICS && info.version == "v1beta1")?;
        catalog::metrics_rows().into_iter().find(|row| row.resource == info.resource)
    }
}

/// Handles a request for `metrics.k8s.io`.
pub async fn handle(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let info = &*call.info;
    if info.verb == "watch" {
        return Err(Status::method_not_supported(&row.group, &row.resource, info.verb));
    }
    verbs::check_path(row, info, &call.method)?;
    let Some(usage) = &server.usage else { return Err(Status::not_found_generic()) };
    // Only existing objects have measurements.
    let registry = &server.registry;
    let known = registry.find(call.workspace.scope(), "", "v1", &row.resource);
    let known = known.ok_or_else(Status::not_found_generic)?;
    if info.verb == "get" {
        let namespace = if row.namespaced { info.namespace.as_str() } else { "" };
        let object_ref = ObjectRef { workspace: call.workspace.id()?, namespace, name: &info.name };
        let found = registry.get(&known, &object_ref)?;
        let measured = match row.namespaced {
            true => usage.pod(&info.namespace, &info.name),
            false => usage.nodes().remove(&info.name),
        };
        let missing = || {
            let (resource, name) = match row.namespaced {
                true => ("podmetrics", format!("{}/{}", info.namespace, info.name)),
                false => ("nodemetrics", info.name.clone()),
            };
            Status::not_found(METRICS, resource, &name)
        };
        let mut item = item(&parsed(&found), &measured.ok_or_else(missing)?, row);
        item["kind"] = row.kind.as_str().into();
        item["apiVersion"] = row.api_version().into();
        return Ok(object_response(&item, call.output));
    }
    let options = ListOptions::parse(row, &call.query, false)?;
    let snapshot = registry.snapshot();
    let scope = list::scope(&known, call, &options);
    let listing = registry.list(&known, &snapshot, &scope, &options.selection, None, 0).await?;
    let mut nodes = if row.namespaced { HashMap::new() } else { usage.nodes() };
    let mut items = Vec::new();
    for object in listing.objects.iter() {
        let whole = parsed(object);
        let (namespace, name) = (object::namespace(&whole), object::name(&whole));
        let measured = if row.namespaced { usage.pod(namespace, name) } else { nodes.remove(name) };
        items.extend(measured.map(|measured| item(&whole, &measured, row)));
    }
    Ok(list_response(items, row, call.output))
}

fn parsed(object: &Object) -> Value {
    serde_json::from_slice(&object.json()).unwrap_or_default()
}

/// Returns the metrics of a Pod or a node.
fn item(whole: &Value, measured: &Measurement, row: &Row) -> Value {
    let mut metadata = json!({ "name": object::name(whole), "creationTimestamp": time::format(measured.at) });
    if row.namespaced {
        metadata["namespace"] = object::namespace(whole).into();
    }
    if let Some(labels) = whole["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    let window = time::format_duration(i64::try_from(measured.window.as_nanos()).unwrap_or(i64::MAX));
    let mut item = json!({ "metadata": metadata, "timestamp": time::format(measured.at), "window": window });
    if row.namespaced {
        let containers =
            measured.parts.iter().map(|part| json!({ "name": part.name, "usage": amounts(part) }));
        item["containers"] = containers.collect();
    } else {
        item["usage"] = measured.parts.first().map_or(json!({}), amounts);
    }
    item
}

/// Formats usage as quantities.
fn amounts(part: &UsagePart) -> Value {
    let written = |text: String| Quantity::parse(&text).map(|quantity| quantity.canonical()).unwrap_or(text);
    let kibibytes = match part.bytes % 1024 {
        0 => format!("{}Ki", part.bytes / 1024),
        _ => part.bytes.to_string(),
    };
    json!({ "cpu": written(format!("{}n", part.nanocores)), "memory": written(kibibytes) })
}

fn object_response(item: &Value, output: Output) -> Response<Body> {
    match (output.form, output.media) {
        (Form::Table(version, include), media) => {
            let table = forms::table(std::slice::from_ref(item), version, include);
            respond::value(StatusCode::OK, &table, Output::whole(media))
        }
        (Form::Whole, Media::Protobuf) => protobuf_response(item),
        _ => respond::value(StatusCode::OK, item, output),
    }
}

fn list_response(items: Vec<Value>, row: &Row, output: Output) -> Response<Body> {
    let list = |kind: &str, api_version: &str, items: Vec<Value>| json!({ "kind": kind, "apiVersion": api_version, "metadata": {}, "items": items });
    let (form, whole) = (output.form, Output::whole(output.media));
    match form {
        Form::Table(version, include) => {
            respond::value(StatusCode::OK, &forms::table(&items, version, include), whole)
        }
        Form::MetadataList(version) => {
            let only_metadata = |mut item: Value| {
                json!({
                    "kind": "PartialObjectMetadata",
                    "apiVersion": version.api_version(),
                    "metadata": item["metadata"].take(),
                })
            };
            let items = items.into_iter().map(only_metadata).collect();
            let list = list("PartialObjectMetadataList", version.api_version(), items);
            respond::value(StatusCode::OK, &list, whole)
        }
        Form::Metadata(_) => {
            let message = format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                metadata::go_name(&row.group, &row.list_kind(), true)
            );
            respond::status(&Status::not_acceptable_form(message), output.refusal())
        }
        Form::Whole => {
            let list = list(&row.list_kind(), &row.api_version(), items);
            if output.media == Media::Protobuf {
                return protobuf_response(&list);
            }
            respond::value(StatusCode::OK, &list, whole)
        }
    }
}

fn protobuf_response(object: &Value) -> Response<Body> {
    let body = Body::from(Bytes::from(forms::protobuf(object)));
    respond::with_type(StatusCode::OK, Media::Protobuf.content_type(), body)
}
