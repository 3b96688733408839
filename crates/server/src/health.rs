//! `/healthz`, `/livez` and `/readyz`: one line per check, all together or each at its own path.

// upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};

use crate::Server;
use crate::body::Body;
use crate::query::Query;

/// Time that the store may take to return its revision.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The server responds.
    Ping,
    /// Logging works. Each thread writes its own lines, so a server that responds can log.
    Log,
    /// The store responds. A store that is only not writable, for example because the disk is full, still
    /// serves reads.
    Store,
    /// Stored objects are in memory and kept up to date.
    Cache,
    /// A post-start hook of kube-apiserver whose work this server does before it serves.
    PostStartHook(&'static str),
    /// The server is not about to stop.
    Shutdown,
}

/// Names of kube-apiserver's post-start hooks, in its order. Their work is done here before the first request
/// is served: admission is set up, stored objects are in memory and definitions are compiled. Every workspace
/// has its namespaces, roles, priority classes, Service and the ConfigMap with client CAs from the start, and
/// Services never share an address. Groups have their APIServices, and OpenAPI documents are generated from
/// memory.
///
/// Upstream's end-to-end tests require all of them but `rbac/bootstrap-roles`.
const POST_START_HOOKS: [&str; 19] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/storage-readiness",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
];

impl Check {
    fn of(root: &str) -> Vec<Check> {
        let is_ready = root == "readyz";
        let first =
            [Check::Ping, Check::Log, Check::Store].into_iter().chain(is_ready.then_some(Check::Cache));
        first
            .chain(POST_START_HOOKS.map(Check::PostStartHook))
            .chain(is_ready.then_some(Check::Shutdown))
            .collect()
    }

    fn name(self) -> &'static str {
        match self {
            Check::Ping => "ping",
            Check::Log => "log",
            // There is no etcd, but probes use this name.
            Check::Store => "etcd",
            Check::Cache => "informer-sync",
            Check::PostStartHook(name) => name,
            Check::Shutdown => "shutdown",
        }
    }

    fn is_named(self, name: &str) -> bool {
        // The former name of the check.
        self.name() == name || self == Check::Store && name == "store"
    }

    async fn passes(self, server: &Server) -> bool {
        match self {
            Check::Ping | Check::Log | Check::Cache | Check::PostStartHook(_) => true,
            Check::Store => {
                let asked = tokio::time::timeout(STORE_TIMEOUT, server.registry.store.revision()).await;
                matches!(asked, Ok(Ok(_)))
            }
            Check::Shutdown => !server.is_stopping(),
        }
    }
}

pub fn is_check(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

pub async fn handle(server: &Server, path: &str, query: &Query) -> Response<Body> {
    let (root, wanted) = match path.trim_start_matches('/').split_once('/') {
        Some((root, wanted)) => (root, Some(wanted)),
        None => (path.trim_start_matches('/'), None),
    };
    let checks = Check::of(root);
    if let Some(wanted) = wanted {
        return match checks.iter().find(|check| check.is_named(wanted)) {
            Some(check) if check.passes(server).await => {
                // Upstream does not send nosniff here.
                let mut response = text(StatusCode::OK, "ok".into());
                response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
                response
            }
            Some(_) => {
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {wanted} failed\n"))
            }
            None => text(StatusCode::NOT_FOUND, "404 page not found\n".into()),
        };
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut failed = Vec::new();
    let mut lines = String::new();
    for check in checks {
        let name = check.name();
        if excluded.iter().any(|excluded| check.is_named(excluded)) {
            lines.push_str(&format!("[+]{name} excluded: ok\n"));
        } else if check.passes(server).await {
            lines.push_str(&format!("[+]{name} ok\n"));
        } else {
            lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{root} check failed\n"));
    }
    if query.get("verbose").is_some() {
        return text(StatusCode::OK, format!("{lines}{root} check passed\n"));
    }
    text(StatusCode::OK, "ok".into())
}

fn text(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
