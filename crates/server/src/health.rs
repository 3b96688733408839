//! `/healthz`, `/livez` and `/readyz`: one line a check, all at once or each at its own path.

use http::{HeaderValue, Response, StatusCode, header};

use crate::Server;
use crate::body::Body;
use crate::query::Query;

struct Check {
    name: &'static str,
    /// Whether it says if the server can take requests, rather than whether it lives.
    readiness_only: bool,
    passes: fn(&Server) -> bool,
}

const CHECKS: [Check; 4] = [
    Check { name: "ping", readiness_only: false, passes: |_| true },
    Check { name: "log", readiness_only: false, passes: |_| true },
    // What was read from the disk is what is served: a cache that never loaded never got here.
    Check {
        name: "store",
        readiness_only: false,
        passes: |server| server.registry.cache.revision() < u64::MAX,
    },
    Check { name: "shutdown", readiness_only: true, passes: |server| !server.is_stopping() },
];

pub fn is_check(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

pub fn answer(server: &Server, path: &str, query: &Query) -> Response<Body> {
    let mut segments = path.trim_start_matches('/').split('/').filter(|segment| !segment.is_empty());
    let root = segments.next().unwrap_or_default();
    let wanted = segments.next();
    let checks = CHECKS.iter().filter(|check| root == "readyz" || !check.readiness_only);
    if let Some(wanted) = wanted {
        return match checks.into_iter().find(|check| check.name == wanted) {
            Some(check) if (check.passes)(server) => text(StatusCode::OK, "ok".into()),
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
        if excluded.contains(&check.name) {
            lines.push_str(&format!("[+]{} excluded: ok\n", check.name));
        } else if (check.passes)(server) {
            lines.push_str(&format!("[+]{} ok\n", check.name));
        } else {
            lines.push_str(&format!("[-]{} failed: reason withheld\n", check.name));
            failed.push(check.name);
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
