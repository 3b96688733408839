//! Rules for requests of the control plane through a tunnel. The rights of the agent's account limit them further.

use http::{Method, Uri};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// First segments of paths that belong to the Kubernetes API.
const ROOTS: [&str; 7] = ["api", "apis", "healthz", "livez", "openapi", "readyz", "version"];
/// The namespace of the agent, whose Secrets hold its own credentials.
const OWN_NAMESPACE: &str = "atoll-system";

const FIELD_SELECTOR: &str = "fieldSelector";

/// Returns the path and query of a request to the cluster, or why it is refused.
pub fn target(method: &Method, uri: &Uri) -> Result<String, String> {
    let query = match check(method, uri.path())? {
        Scope::Any => uri.query().map(str::to_string),
        Scope::OtherNamespaces => Some(without_own_namespace(uri.query().unwrap_or_default())?),
    };
    Ok(match query {
        Some(query) => format!("{}?{query}", uri.path()),
        None => uri.path().to_string(),
    })
}

/// The objects that a request may reach.
#[derive(Debug, PartialEq, Eq)]
enum Scope {
    Any,
    /// All objects except those in the namespace of the agent.
    OtherNamespaces,
}

/// Returns the objects that a request may reach, or why it is refused. `path` is its path without the query.
fn check(method: &Method, path: &str) -> Result<Scope, String> {
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
        Some(["secrets", ..]) => Ok(Scope::OtherNamespaces),
        _ => Ok(Scope::Any),
    }
}

/// Adds to a query that objects in the namespace of the agent are not selected.
fn without_own_namespace(query: &str) -> Result<String, String> {
    let is_selector = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        percent_decode_str(name).decode_utf8_lossy() == FIELD_SELECTOR
    };
    let pairs = || query.split('&').filter(|pair| !pair.is_empty());
    let mut selectors = pairs().filter(is_selector);
    let given = selectors.next().and_then(|pair| pair.split_once('=')).map_or("", |(_, value)| value);
    if selectors.next().is_some() {
        return Err(format!("{FIELD_SELECTOR} is given twice"));
    }
    let given = given.replace('+', " ");
    let given = percent_decode_str(&given).decode_utf8();
    let given = given.map_err(|_| format!("{FIELD_SELECTOR} is not UTF-8"))?;
    // It precedes the given selector, which may end in a backslash.
    let mut selector = format!("metadata.namespace!={OWN_NAMESPACE}");
    if !given.is_empty() {
        selector = format!("{selector},{given}");
    }
    let selector = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
    let mut pairs: Vec<String> = pairs().filter(|pair| !is_selector(pair)).map(str::to_string).collect();
    pairs.push(format!("{FIELD_SELECTOR}={selector}"));
    Ok(pairs.join("&"))
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

    #[test]
    fn lists_of_all_namespaces_leave_out_that_of_the_agent() {
        let own = "fieldSelector=metadata%2Enamespace%21%3Datoll%2Dsystem";
        for (uri, expected) in [
            ("/api/v1/secrets", format!("/api/v1/secrets?{own}")),
            ("/api/v1/%73ecrets/", format!("/api/v1/%73ecrets/?{own}")),
            ("/api/v1/watch/secrets?watch=1", format!("/api/v1/watch/secrets?watch=1&{own}")),
            ("/api/v1/secrets?fieldSelector=", format!("/api/v1/secrets?{own}")),
            (
                "/api/v1/secrets?field%53elector=type%3DOpaque%5C&limit=5",
                format!("/api/v1/secrets?limit=5&{own}%2Ctype%3DOpaque%5C"),
            ),
            // API servers ignore a selector that they cannot decode, which would drop the added part.
            ("/api/v1/secrets?fieldSelector=%zz", format!("/api/v1/secrets?{own}%2C%25zz")),
            ("/api/v1/pods?limit=5", "/api/v1/pods?limit=5".to_string()),
            ("/api/v1/namespaces/shop/secrets", "/api/v1/namespaces/shop/secrets".to_string()),
        ] {
            assert_eq!(target(&Method::GET, &uri.parse().unwrap()), Ok(expected), "{uri}");
        }
        let twice = "/api/v1/secrets?fieldSelector=type%3DOpaque&%66ieldSelector=type%3DOpaque";
        assert!(target(&Method::GET, &twice.parse().unwrap()).is_err());
    }
}
