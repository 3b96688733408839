//! Requests to the API of a cluster: `/services/clusters/CLUSTER/proxy/…` in the registering workspace. They are
//! sent with the account that syncs the cluster, over the connection of the control plane (push) or the tunnel
//! of the cluster's agent. Only users with the right to the path send them, by default administrators of the
//! workspace.

use std::sync::Arc;

use atoll_authn::User;
use atoll_client::cluster_api::{Upgrade, request_headers, response_headers, set_upgrade, upgrade_protocol};
use atoll_client::connect_error::{self, Cause};
use atoll_client::connected_clusters::ConnectedCluster;
use atoll_client::{BoxError, ResponseBody};
use atoll_fleet::ClusterView;
use atoll_meta::{Status, object};
use atoll_tunnel::{relay, rules};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, UPGRADE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{OpenRequest, registered};
use crate::Server;
use crate::body::{Body, ClusterBody, ClusterStream, UnreadCharge};
use crate::workspace::Workspace;

const PREFIX: &str = "/services/clusters/";
const INFIX: &str = "/proxy";

/// Returns the cluster of a path, and the path in the cluster.
fn split(path: &str) -> Option<(&str, &str)> {
    let (cluster, below) = path.strip_prefix(PREFIX)?.split_once('/')?;
    let below = below.strip_prefix(&INFIX[1..])?;
    (!cluster.is_empty() && below.starts_with('/')).then_some((cluster, below))
}

/// Whether a path leads to the API of a cluster.
pub fn is_request(path: &str) -> bool {
    split(path).is_some()
}

/// Returns the same of a URI that may name a workspace. Nothing in it is decoded.
fn target(uri: &Uri) -> Option<(&str, Uri)> {
    let path = uri.path();
    let path = match path.strip_prefix("/clusters/") {
        Some(rest) => &rest[rest.find('/')?..],
        None => path,
    };
    let (cluster, below) = split(path)?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some((cluster, format!("{below}{query}").parse().ok()?))
}

pub async fn handle(
    server: &Arc<Server>,
    workspace: &Workspace,
    user: &User,
    parts: Parts,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    let (name, uri) = target(&parts.uri).ok_or_else(Status::not_found_generic)?;
    // An agent applies these rules by itself; the connection of the control plane has no agent.
    let allowed = rules::target(&parts.method, &uri).map_err(|why| Status::forbidden("", "", "", &why))?;
    let uri: Uri = allowed.parse().map_err(|_| Status::bad_request("the path is invalid"))?;
    let (cluster, uid) = connected(server, workspace.id()?, name)?;
    let open = server.open_requests.open((name, &uid), user)?;
    if upgrade_protocol(&parts.headers).is_some() {
        return upgrade(server, &cluster, open, uri, parts).await;
    }
    // The connection may keep the body until the response has ended.
    let size = body.len();
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = request_headers(&parts.headers);
    let answered = cluster.api.forward(request).await;
    let response = answered.map_err(|error| failed(&error))?;
    forwarded(response, size, &cluster, open)
}

/// Charges the budget of a cluster for a response that has begun.
fn charge(cluster: &ConnectedCluster, request: usize, headers: &HeaderMap) -> Result<UnreadCharge, Status> {
    let headers: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    UnreadCharge::new(cluster.budget.clone(), request + headers, cluster.api.unread_limit())
}

/// Returns the connection of a cluster, and its uid.
fn connected(server: &Server, workspace: &str, name: &str) -> Result<(ConnectedCluster, String), Status> {
    let registered = registered(server, workspace, name)?;
    let uid = object::uid(&registered);
    let found = server.connected_clusters.get(uid).map(|cluster| (cluster, uid.to_string()));
    found.ok_or_else(|| {
        let what = match ClusterView::of(&registered).mode() {
            "push" => format!("the control plane is not connected to cluster {name}"),
            _ => format!("no agent of cluster {name} has a tunnel to the control plane"),
        };
        connect_error::unavailable(Cause::Unreachable, &what)
    })
}

fn failed(error: &BoxError) -> Status {
    connect_error::to_status(error)
}

/// Forwards a request that changes its protocol, then copies bytes in both directions.
async fn upgrade(
    server: &Arc<Server>,
    cluster: &ConnectedCluster,
    open: OpenRequest,
    uri: Uri,
    mut parts: Parts,
) -> Result<Response<Body>, Status> {
    let client = parts.extensions.remove::<OnUpgrade>().ok_or_else(|| {
        Status::bad_request("the connection of this request cannot change its protocol; use HTTP/1.1")
    })?;
    let mut request = Request::new(());
    *request.method_mut() = parts.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = request_headers(&parts.headers);
    if let Some(protocol) = parts.headers.remove(UPGRADE) {
        set_upgrade(request.headers_mut(), protocol);
    }
    match cluster.api.upgrade(request).await.map_err(|error| failed(&error))? {
        Upgrade::Refused(response) => forwarded(response, 0, cluster, open),
        Upgrade::Switched(switched, stream) => {
            let stream =
                ClusterStream::new(stream, charge(cluster, 0, switched.headers())?.with_request(open));
            let stopped = server.stopped();
            tokio::spawn(async move {
                let Ok(client) = client.await else { return };
                tokio::select! {
                    () = relay(TokioIo::new(client), stream) => {}
                    () = stopped => {}
                }
            });
            let mut response = Response::new(Body::empty());
            *response.status_mut() = switched.status();
            *response.headers_mut() = response_headers(switched.headers());
            if let Some(protocol) = switched.headers().get(UPGRADE) {
                set_upgrade(response.headers_mut(), protocol.clone());
            }
            Ok(response)
        }
    }
}

/// Returns the response to a request of `size` bytes.
fn forwarded(
    response: Response<ResponseBody>,
    size: usize,
    cluster: &ConnectedCluster,
    open: OpenRequest,
) -> Result<Response<Body>, Status> {
    let (parts, body) = response.into_parts();
    let body = ClusterBody::new(body, charge(cluster, size, &parts.headers)?.with_request(open));
    let mut response = Response::new(Body::Cluster(Box::new(body)));
    *response.status_mut() = parts.status;
    *response.headers_mut() = response_headers(&parts.headers);
    without_pages(response.headers_mut());
    Ok(response)
}

/// Makes sure that a browser shows nothing of a cluster as a page of the control plane.
fn without_pages(headers: &mut HeaderMap) {
    let is_data = |kind: &HeaderValue| {
        let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"].contains(&kind)
            || kind.starts_with("application/com.github.proto-openapi")
    };
    if !headers.get(CONTENT_TYPE).is_some_and(is_data) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_clusters() {
        for (uri, expected) in [
            (
                "/services/clusters/east/proxy/api/v1/pods?watch=true",
                Some(("east", "/api/v1/pods?watch=true")),
            ),
            ("/clusters/root:team/services/clusters/east/proxy/version", Some(("east", "/version"))),
            ("/services/clusters/east/proxy/api/v1/%2e%2e", Some(("east", "/api/v1/%2e%2e"))),
            ("/services/clusters/east/proxy/", Some(("east", "/"))),
            ("/services/clusters/east/proxy", None),
            ("/services/clusters/east/proxyapi", None),
            ("/services/clusters//proxy/api", None),
            ("/services/clusters/east", None),
            ("/services/clusters", None),
            ("/clusters/root:team", None),
        ] {
            let parsed: Uri = uri.parse().unwrap();
            let expected = expected.map(|(name, below)| (name, below.parse().unwrap()));
            assert_eq!(target(&parsed), expected, "{uri}");
        }
    }

    #[test]
    fn browsers_see_no_pages() {
        for (kind, expected) in [
            ("application/json", "application/json"),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ),
            ("text/html", "text/plain; charset=utf-8"),
            ("image/svg+xml", "text/plain; charset=utf-8"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            without_pages(&mut headers);
            assert_eq!(
                (&headers[CONTENT_TYPE], &headers[X_CONTENT_TYPE_OPTIONS]),
                (&HeaderValue::from_static(expected), &HeaderValue::from_static("nosniff"))
            );
        }
    }
}
