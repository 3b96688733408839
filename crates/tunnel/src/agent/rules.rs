//! Rules for requests of the control plane through a tunnel. The rights of the agent's account limit them further.

use http::Method;
use percent_encoding::percent_decode_str;

/// First segments of paths that belong to the Kubernetes API.
const ROOTS: [&str; 7] = ["api", "apis", "healthz", "livez", "openapi", "readyz", "version"];
/// The namespace of the agent, whose Secrets hold its own credentials.
const OWN_NAMESPACE: &str = "atoll-system";

/// Returns why a request is refused, if it is. `path` is the path of the request without its query.
pub fn check(method: &Method, path: &str) -> Result<(), String> {
    let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    if !methods.contains(method) {
        return Err(format!("the method {method} does not belong to the Kubernetes API"));
    }
    let not_an_api = || format!("the path {path:?} does not belong to the Kubernetes API");
    let rest = path.strip_prefix('/').ok_or_else(not_an_api)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    // The API server decodes each segment, so the rules must see the decoded form.
    let segments: Option<Vec<String>> = rest.split('/').map(decoded).collect();
    let segments = segments.ok_or_else(not_an_api)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if !segments.first().is_some_and(|root| ROOTS.contains(root)) {
        return Err(not_an_api());
    }
    match in_core(&segments) {
        Some(["namespaces", _, "serviceaccounts", _, "token", ..]) => {
            Err("tokens of the cluster are not issued through the tunnel".into())
        }
        Some(["namespaces", OWN_NAMESPACE, "secrets", ..]) => {
            Err(format!("Secrets in {OWN_NAMESPACE} are not served through the tunnel"))
        }
        _ => Ok(()),
    }
}

/// Returns the segments after the version of the core group.
fn in_core<'a>(segments: &'a [&'a str]) -> Option<&'a [&'a str]> {
    match segments {
        // The deprecated path of a watch.
        ["api", _, "watch", rest @ ..] | ["api", _, rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Decodes a segment that is one name, and not another part of the path.
fn decoded(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    let is_name = !matches!(&*text, "" | "." | "..") && !text.contains(['/', '\\', '%', '\0']);
    is_name.then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kubernetes_api_is_reached() {
        for (path, is_allowed) in [
            ("/api/v1/pods", true),
            ("/api/v1/namespaces/shop/pods/web/exec", true),
            ("/apis/apps/v1/namespaces/shop/deployments/web/", true),
            ("/apis", true),
            ("/version", true),
            ("/openapi/v3/apis/apps/v1", true),
            ("/readyz", true),
            ("/api/v1/namespaces/atoll-system/configmaps/atoll-claim", true),
            ("/api/v1/namespaces/shop/secrets/password", true),
            ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", true),
            ("/", false),
            ("", false),
            ("version", false),
            ("/metrics", false),
            ("/logs/audit", false),
            ("/debug/pprof", false),
            ("/.well-known/openid-configuration", false),
            ("//api/v1/pods", false),
            ("/api//v1/pods", false),
            ("/api/v1/../../metrics", false),
            ("/api/%2e%2e/metrics", false),
            ("/api/v1%2fpods", false),
            ("/api/v1/pods/%ff", false),
            ("/api/v1/pods/a%00", false),
            ("/api/v1/%252e%252e", false),
        ] {
            assert_eq!(check(&Method::GET, path).is_ok(), is_allowed, "{path}");
        }
        for method in [Method::CONNECT, Method::OPTIONS, Method::TRACE] {
            assert!(check(&method, "/api/v1/pods").is_err(), "{method}");
        }
    }

    #[test]
    fn credentials_of_the_cluster_stay_there() {
        for path in [
            "/api/v1/namespaces/shop/serviceaccounts/web/token",
            "/api/v1/namespaces/shop/serviceaccounts/web/token/",
            "/api/v1/namespaces/shop/%73erviceaccounts/web/%74oken",
            "/api/v1/namespaces/atoll-system/secrets",
            "/api/v1/namespaces/atoll-system/secrets/agent",
            "/api/v1/namespaces/atoll%2Dsystem/secrets/agent",
            "/api/v1/watch/namespaces/atoll-system/secrets",
        ] {
            assert!(check(&Method::POST, path).is_err(), "{path}");
        }
        assert!(check(&Method::GET, "/api/v1/namespaces/shop/serviceaccounts/token").is_ok());
    }
}
