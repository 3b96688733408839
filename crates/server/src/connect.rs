//! Subresources that lead to a node or into a container: logs, exec, attach, port-forward, proxy.
//!
//! ```text
//!   handle ─► location (which node, which container, which path)
//!      ├─ log        ─► backend ─► the kubelet's response, as it comes
//!      ├─ stream     ─► translate (WebSocket to SPDY), tunnel, or relay as it is
//!      └─ proxy      ─► relay, with links rewritten
//! ```

// upstream: pkg/registry/core/pod/rest/subresources.go
// upstream: pkg/kubelet/client/kubelet_client.go

pub mod backend;
mod headers;
pub mod kubelets;
pub(crate) mod location;
mod logs;
pub(crate) mod page;
mod proxy;
pub(crate) mod rewrite;
mod stream;
mod translate;
mod trusted_kubelets;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use atoll_admission::AdmissionOptions;
use atoll_authz::{Attributes, Authorizer};
use atoll_meta::{Status, json};
use atoll_registry::bootstrap::ROOT;
use atoll_registry::{ObjectRef, Row};
use http::{Request, Response};
use serde_json::Value;

use self::backend::{Destination, RequestBody};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::verbs::{RequestAdmission, Warnings, object_ref};

/// A request whose body is not read here but forwarded.
pub struct ForwardedRequest {
    pub request: Request<RequestBody>,
    /// The client's address.
    pub address: Option<IpAddr>,
}

pub async fn handle(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    forwarded: ForwardedRequest,
) -> Result<Response<Body>, Status> {
    let connection = Connection { server, row, call, object_ref: object_ref(row, call)? };
    let subresource = call.info.subresource.as_str();
    if subresource == "log" {
        return logs::handle(&connection).await;
    }
    if call.query.all("dryRun").next().is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    connection.admit().await?;
    match subresource {
        "proxy" => proxy::handle(&connection, forwarded).await,
        _ => stream::handle(&connection, forwarded).await,
    }
}

/// The request and the object that it refers to.
struct Connection<'a> {
    server: &'a Arc<Server>,
    row: &'a Row,
    call: &'a Call,
    object_ref: ObjectRef<'a>,
}

/// The address and features of a node.
struct Node {
    host: String,
    port: u16,
    features: Vec<String>,
}

impl Connection<'_> {
    async fn admit(&self) -> Result<(), Status> {
        let warnings = Warnings::default();
        let admission = RequestAdmission::new(
            self.server,
            self.row,
            self.call,
            self.object_ref,
            AdmissionOptions::Connect,
            &warnings,
        );
        admission.connect().await
    }

    /// Access to a container needs the right to create, even for GET.
    async fn check_create(&self) -> Result<(), Status> {
        let info = &self.call.info;
        if info.verb == "create" {
            return Ok(());
        }
        let attributes = Attributes { user: &self.call.user, verb: "create", target: info.target() };
        let authorize = |authorizer: &Authorizer<'_>| authorizer.authorize(&attributes);
        let allowed = self.server.with_authorizer(&self.call.workspace, 0, authorize).await?;
        allowed.map_err(|_| Status::forbidden("", &self.row.resource, self.object_ref.name, ""))
    }

    fn node(&self, name: &str) -> Result<Node, Status> {
        let node = self.object("nodes", name)?;
        let host = location::node_address(&node, &self.server.kubelets.address_types)?.to_string();
        let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
        let port = port.and_then(|port| port.try_into().ok()).filter(|port| *port > 0);
        let features = node["status"]["declaredFeatures"].as_array().into_iter().flatten();
        let features = features.filter_map(Value::as_str).map(String::from).collect();
        Ok(Node { host, port: port.unwrap_or(kubelets::PORT), features })
    }

    /// Returns the destination of a node's kubelet. Only nodes of root get the server's client certificate
    /// and may be at addresses of the server's own machine, unless a registered cluster of root provides the
    /// CA of the kubelet.
    async fn kubelet(&self, node: &Node, skip_verification: bool) -> Result<Destination, Status> {
        let kubelets = &self.server.kubelets;
        if !self.is_trusted()
            && let Some(authority) = trusted_kubelets::authority(
                &self.server.registry,
                self.object_ref.workspace,
                &node.host,
                node.port,
            )
        {
            let tls = kubelets.for_trusted(&authority, self.object_ref.workspace).map_err(|error| {
                Status::internal_error(format!("the CA of the kubelet is invalid: {error}"))
            })?;
            let addresses = Vec::new();
            return Ok(Destination { host: node.host.clone(), port: node.port, tls: Some(tls), addresses });
        }
        let tls = match self.is_trusted() {
            true => kubelets.tls(skip_verification),
            false => kubelets.untrusted(),
        };
        let addresses = self.addresses(&node.host, node.port).await?;
        Ok(Destination { host: node.host.clone(), port: node.port, tls: Some(tls), addresses })
    }

    /// Resolves and checks a host that a workspace below root has named. Empty if any address is allowed.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Status> {
        let kubelets = &self.server.kubelets;
        if self.is_trusted() || kubelets.tenants.are_unrestricted() {
            return Ok(Vec::new());
        }
        let found = kubelets.dialer.for_tenant(host, port, &kubelets.tenants).await;
        found.map_err(|problem| Status::forbidden("", &self.row.resource, self.object_ref.name, &problem))
    }

    fn is_trusted(&self) -> bool {
        self.object_ref.workspace == ROOT
    }

    async fn check_host(&self, host: &str) -> Result<(), Status> {
        self.server.kubelets.dialer.is_allowed(host).await.map_err(Status::bad_request)
    }

    /// Returns an object of the core group. The error names the resource of the request, as upstream does.
    fn object(&self, resource: &str, name: &str) -> Result<Value, Status> {
        let missing = || Status::not_found("", &self.row.resource, name);
        let row = self.server.registry.catalog.find("", "v1", resource).ok_or_else(missing)?;
        let namespace = if row.namespaced { self.object_ref.namespace } else { "" };
        let found = self.server.registry.get(row, &ObjectRef { namespace, name, ..self.object_ref });
        let parsed = json::parse(&found.map_err(|_| missing())?.json());
        parsed.map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
    }
}
