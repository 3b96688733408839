//! The `proxy` subresource of nodes, Pods and Services.

// upstream: pkg/registry/core/node/rest/proxy.go
// upstream: pkg/registry/core/service/proxy.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go

use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_meta::Status;
use atoll_streams::is_upgrade;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use serde_json::Value;

use super::backend::{Destination, RelayedBody, exchange};
use super::location::{ProxyTarget, first_port, pod_address};
use super::page::HtmlBody;
use super::rewrite::{self, LinkRewriter};
use super::{Connection, ForwardedRequest, headers, stream};
use crate::body::Body;

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

pub async fn handle(
    connection: &Connection<'_>,
    forwarded: ForwardedRequest,
) -> Result<Response<Body>, Status> {
    let destination = match connection.row.resource.as_str() {
        "pods" => pod(connection).await?,
        "services" => service(connection).await?,
        _ => node(connection).await?,
    };
    let (before, path) = split(forwarded.request.uri().path());
    let (before, path) = (before.to_string(), path.to_string());
    let query = forwarded.request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if is_upgrade(forwarded.request.headers()) {
        let path = if path.is_empty() { "/" } else { &path };
        return stream::relay(connection.server, forwarded, &destination, &format!("{path}{query}")).await;
    }
    if path.is_empty() && matches!(*forwarded.request.method(), Method::GET | Method::HEAD) {
        return Ok(redirect_with_slash(&format!("{before}/{query}")));
    }
    let unreachable = |error: &dyn std::fmt::Display| {
        Status::service_unavailable(format!("error trying to reach service: {error}"))
    };
    let ForwardedRequest { request, address } = forwarded;
    let host = request.headers().get(HOST).cloned().or_else(|| {
        // HTTP/2 sends the host as `:authority`.
        HeaderValue::from_str(request.uri().authority()?.as_str()).ok()
    });
    let (parts, body) = request.into_parts();
    let mut outgoing = Request::new(body);
    let target = format!("{}{query}", if path.is_empty() { "/" } else { &path });
    *outgoing.method_mut() = parts.method;
    *outgoing.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| unreachable(&error))?;
    *outgoing.headers_mut() = headers::forwarded(&parts.headers, address);
    headers::remove_hop_by_hop(outgoing.headers_mut());
    let host = host.or_else(|| HeaderValue::from_str(&destination.authority()).ok());
    if let Some(host) = &host {
        outgoing.headers_mut().insert(HOST, host.clone());
    }
    if let Ok(uri) = HeaderValue::from_str(&format!("{before}{path}")) {
        outgoing.headers_mut().insert(FORWARDED_URI, uri);
    }
    let dialed = destination.connect(&*connection.server.kubelets.dialer).await;
    let stream = dialed.map_err(|error| unreachable(&error))?;
    let (response, driving) = exchange(stream, outgoing).await.map_err(|error| unreachable(&error))?;
    let rewriter = LinkRewriter {
        before,
        backend: destination.authority(),
        host: host.and_then(|host| host.to_str().ok().map(String::from)).unwrap_or_default(),
    };
    let (mut parts, body) = response.into_parts();
    headers::remove_hop_by_hop(&mut parts.headers);
    headers::remove_cors(&mut parts.headers);
    let location = parts.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = location.map(|location| rewriter.link(location)) {
        if let Ok(location) = HeaderValue::from_str(&location) {
            parts.headers.insert(LOCATION, location);
        }
    } else if rewrite::is_html(&parts.headers) && parts.status != StatusCode::NOT_MODIFIED {
        let coding = parts.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes).unwrap_or_default();
        if matches!(coding, b"" | b"gzip") {
            let page = HtmlBody::new(RelayedBody::new(body, driving), rewriter, coding == b"gzip");
            parts.headers.remove(CONTENT_LENGTH);
            return Ok(Response::from_parts(parts, Body::Html(Box::new(page))));
        }
    }
    Ok(Response::from_parts(parts, Body::Relayed(Box::new(RelayedBody::new(body, driving)))))
}

/// Splits a path after `proxy`.
fn split(path: &str) -> (&str, &str) {
    let below = match path.strip_prefix("/clusters/") {
        Some(rest) => rest.find('/').map_or(path.len(), |slash| "/clusters/".len() + slash),
        None => 0,
    };
    // api, version, then [namespaces, namespace,] resource, name and proxy.
    let segments = if path[below..].split('/').nth(3) == Some("namespaces") { 7 } else { 5 };
    let slashes = path[below..].match_indices('/').map(|(at, _)| below + at);
    let end = slashes.clone().nth(segments).unwrap_or(path.len());
    path.split_at(end)
}

/// Redirects to the path with a trailing slash, because relative links need it.
fn redirect_with_slash(location: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

async fn pod(connection: &Connection<'_>) -> Result<Destination, Status> {
    let target = ProxyTarget::parse("pod", connection.object_ref.name)?;
    let pod = connection.object("pods", target.name)?;
    let port = match target.port {
        "" => first_port(&pod),
        port => Some(number(port)?),
    };
    let host = pod_address(&pod)?.to_string();
    destination(connection, target.scheme, host, port).await
}

/// Returns a destination. The default port depends on the scheme.
async fn destination(
    connection: &Connection<'_>,
    scheme: &str,
    host: String,
    port: Option<u16>,
) -> Result<Destination, Status> {
    let tls = (scheme == "https").then(|| connection.server.kubelets.untrusted());
    let usual = if tls.is_some() { 443 } else { 80 };
    let port = port.unwrap_or(usual);
    let addresses = connection.addresses(&host, port).await?;
    Ok(Destination { host, port, tls, addresses })
}

fn number(port: &str) -> Result<u16, Status> {
    port.parse().map_err(|_| {
        let text = format!("dial tcp: lookup tcp/{port}: unknown port");
        Status::service_unavailable(format!("error trying to reach service: {text}"))
    })
}

async fn service(connection: &Connection<'_>) -> Result<Destination, Status> {
    let ProxyTarget { scheme, name, mut port } = ProxyTarget::parse("service", connection.object_ref.name)?;
    let service;
    if let Ok(number) = port.parse::<i64>() {
        service = connection.object("services", name)?;
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let Some(found) = ports.into_iter().find(|port| port["port"] == number) else {
            let message = format!("no service port {number} found for service {name:?}");
            return Err(Status::service_unavailable(message));
        };
        port = found["name"].as_str().unwrap_or_default();
    }
    let endpoints = connection.object("endpoints", name)?;
    let subsets = endpoints["subsets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let none =
        |name: &str| Status::service_unavailable(format!("no endpoints available for service {name:?}"));
    if subsets.is_empty() {
        return Err(none(name));
    }
    // Rotate through subsets and addresses to spread the load.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let turn = NEXT.fetch_add(1, Ordering::Relaxed);
    for subset in rotated(subsets, turn) {
        let ports = subset["ports"].as_array().into_iter().flatten();
        let addresses = subset["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
        for found in ports.filter(|found| found["name"].as_str().unwrap_or_default() == port) {
            let Some(number) = found["port"].as_u64().and_then(|number| number.try_into().ok()) else {
                continue;
            };
            let mut addresses = rotated(addresses, turn);
            if let Some(address) = addresses.find(|address| is_pod(connection, address)) {
                let host = address["ip"].as_str().unwrap_or_default().to_string();
                return destination(connection, scheme, host, Some(number)).await;
            }
        }
    }
    Err(none(connection.object_ref.name))
}

fn rotated(items: &[Value], turn: usize) -> impl Iterator<Item = &Value> {
    let start = if items.is_empty() { 0 } else { turn % items.len() };
    items[start..].iter().chain(&items[..start])
}

/// Reports whether an address belongs to a Pod in the same namespace. Other addresses are not connected to.
fn is_pod(connection: &Connection<'_>, address: &Value) -> bool {
    let (target, ip) = (&address["targetRef"], &address["ip"]);
    if target["namespace"] != connection.object_ref.namespace {
        return false;
    }
    let Ok(pod) = connection.object("pods", target["name"].as_str().unwrap_or_default()) else {
        return false;
    };
    let status = &pod["status"];
    let mut all = status["podIPs"].as_array().into_iter().flatten().map(|known| &known["ip"]);
    all.any(|known| known == ip) || (status["podIPs"].is_null() && &status["podIP"] == ip)
}

async fn node(connection: &Connection<'_>) -> Result<Destination, Status> {
    let target = ProxyTarget::parse("node", connection.object_ref.name)?;
    let node = connection.node(target.name)?;
    // As upstream, this applies to nodes of root; workspaces below root have `TenantAddresses`.
    if connection.is_trusted() {
        connection.check_host(&node.host).await?;
    }
    match target.port {
        "" => connection.kubelet(&node, false).await,
        port if port == node.port.to_string() => connection.kubelet(&node, false).await,
        port => destination(connection, target.scheme, node.host, Some(number(port)?)).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_after_proxy() {
        let pod = "/api/v1/namespaces/n/pods/p:80/proxy";
        let cases = [
            (pod.to_string(), pod, ""),
            (format!("{pod}/"), pod, "/"),
            (format!("{pod}/a//b%2Fc/"), pod, "/a//b%2Fc/"),
            ("/api/v1/nodes/n/proxy/logs/".to_string(), "/api/v1/nodes/n/proxy", "/logs/"),
            (
                format!("/clusters/root:a{pod}/x"),
                "/clusters/root:a/api/v1/namespaces/n/pods/p:80/proxy",
                "/x",
            ),
        ];
        for (path, before, rest) in &cases {
            assert_eq!(split(path), (*before, *rest), "{path}");
        }
    }
}
