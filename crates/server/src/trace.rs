//! Request traces for an OpenTelemetry collector, if configured: OTLP over HTTP, as JSON.
//!
//! Spans are queued and sent in batches. A slow or unreachable collector loses spans and never delays
//! requests.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/traces.go

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atoll_client::https::{dial, http1};
use atoll_meta::json;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::request::RequestInfo;

const QUEUE: usize = 4096;
const BATCH: usize = 512;
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Tracer {
    spans: mpsc::Sender<Value>,
}

/// Trace and parent span of a request, from the `traceparent` header or new.
pub(crate) struct TraceParent {
    pub trace: String,
    parent: Option<String>,
}

impl Tracer {
    /// `endpoint` is the collector's address, such as `http://127.0.0.1:4318`.
    pub fn start(endpoint: &str) -> Result<Tracer, String> {
        let uri: Uri = format!("{}/v1/traces", endpoint.trim_end_matches('/'))
            .parse()
            .map_err(|error| format!("{endpoint:?} is not a valid collector address: {error}"))?;
        if uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err(format!("{endpoint:?} is not a valid collector address; use http://HOST:4318"));
        }
        let (spans, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(export(uri, waiting));
        Ok(Tracer { spans })
    }

    /// Records a completed request.
    pub fn record(
        &self,
        info: &RequestInfo,
        headers: &HeaderMap,
        id: &str,
        code: StatusCode,
        took: Duration,
    ) {
        let Some(trace_parent) = trace_parent(headers) else { return };
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = end.saturating_sub(took);
        let mut attributes = vec![
            attribute("http.route", &info.path),
            attribute("k8s.verb", info.verb),
            attribute("k8s.audit_id", id),
            json!({ "key": "http.response.status_code", "value": { "intValue": code.as_u16().to_string() } }),
        ];
        if info.is_resource {
            attributes.push(attribute("k8s.group", &info.group));
            attributes.push(attribute("k8s.resource", &info.resource));
        }
        if let Some(workspace) = &info.workspace {
            attributes.push(attribute("atoll.workspace", workspace));
        }
        let name =
            if info.is_resource { format!("{} {}", info.verb, info.resource) } else { info.path.clone() };
        let mut span = json!({
            "traceId": trace_parent.trace,
            "spanId": random_hex(8),
            "name": name,
            "kind": 2,
            "startTimeUnixNano": start.as_nanos().to_string(),
            "endTimeUnixNano": end.as_nanos().to_string(),
            "attributes": attributes,
            "status": if code.is_server_error() { json!({ "code": 2 }) } else { json!({}) },
        });
        if let Some(parent) = trace_parent.parent {
            span["parentSpanId"] = parent.into();
        }
        // If the queue is full, the span is dropped.
        let _ = self.spans.try_send(span);
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns `None` if the caller's trace is not sampled.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let fields: Vec<&str> = given.map(|text| text.split('-').collect()).unwrap_or_default();
    match fields[..] {
        ["00", trace, parent, flags] if is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2) => {
            let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
            sampled.then(|| TraceParent { trace: trace.into(), parent: Some(parent.into()) })
        }
        _ => Some(TraceParent { trace: random_hex(16), parent: None }),
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    // Without randomness, this is still a valid ID.
    let _ = getrandom::fill(&mut random);
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn export(uri: Uri, mut waiting: mpsc::Receiver<Value>) {
    let mut reported = false;
    loop {
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let sent = tokio::time::timeout(SEND_TIMEOUT, send(&uri, batch)).await;
        let failure = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some("timeout".to_string()),
        };
        // Logged once per outage, so that a missing collector does not fill the log.
        if let Some(failure) = failure.as_ref().filter(|_| !reported) {
            tracing::warn!(collector = %uri, failure, "cannot send traces to the collector; spans are dropped");
        }
        reported = failure.is_some();
        tokio::time::sleep(BATCH_INTERVAL).await;
    }
}

async fn send(uri: &Uri, spans: Vec<Value>) -> Result<(), String> {
    let document = json!({ "resourceSpans": [{
        "resource": { "attributes": [attribute("service.name", "atoll"), attribute("service.version", env!("CARGO_PKG_VERSION"))] },
        "scopeSpans": [{ "scope": { "name": "atoll-server" }, "spans": spans }],
    }]});
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let opened = dial::open(host, uri.port_u16().unwrap_or(4318), None).await;
    let stream = opened.map_err(|(_, error)| error.to_string())?;
    let (mut sender, _) = http1::handshake(stream).await.map_err(|error| error.to_string())?;
    let request = Request::post(uri.path())
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(json::to_vec(&document))))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let _ = response.into_body().collect().await;
    if status.is_success() { Ok(()) } else { Err(format!("the collector returned {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampled_trace_is_continued() {
        let headers =
            |text: &str| HeaderMap::from_iter([("traceparent".parse().unwrap(), text.parse().unwrap())]);
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let continued = trace_parent(&headers(&format!("00-{trace}-b7ad6b7169203331-01"))).unwrap();
        assert_eq!(
            (continued.trace.as_str(), continued.parent.as_deref()),
            (trace, Some("b7ad6b7169203331"))
        );
        assert!(trace_parent(&headers(&format!("00-{trace}-b7ad6b7169203331-00"))).is_none());
        for broken in ["", "00-zz-b7ad6b7169203331-01", "01-x", "00-0af7-b7ad-01"] {
            let fresh = trace_parent(&headers(broken)).unwrap();
            assert!(fresh.trace.len() == 32 && fresh.parent.is_none(), "{broken}");
        }
    }

    #[test]
    fn only_plain_http_collectors_are_accepted() {
        for endpoint in ["", "collector:4318", "https://collector:4318", "http://"] {
            assert!(Tracer::start(endpoint).is_err(), "{endpoint}");
        }
    }
}
