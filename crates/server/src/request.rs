//! The attributes of a request, parsed from its method and path.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go

use atoll_authz::Target;
use atoll_meta::names;
use atoll_meta::selector::FieldSelector;
use http::Method;
use percent_encoding::percent_decode_str;

use crate::query::Query;

/// A resource request or a request for another path.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// The decoded path below the workspace.
    pub path: String,
    /// The workspace in `/clusters/…`, as the client wrote it.
    pub workspace: Option<String>,
    /// The RBAC verb: get, list, watch, create, update, patch, delete or deletecollection. For other paths,
    /// the HTTP method in lower case.
    pub verb: &'static str,
    pub is_resource: bool,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// The name that the field selector of a list or watch requires. Authorization treats it like a name in
    /// the path.
    pub selected: String,
    /// The path after the subresource, for proxies.
    pub rest: String,
    /// Whether the path has `namespaces/…` before the resource; the path of a Namespace itself does not.
    pub in_namespace: bool,
    /// Whether a segment is empty, `.` or `..`, or contains a slash.
    pub is_malformed: bool,
}

/// A path that is not valid UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPath;

/// The subresources of a Namespace. Anything else after its name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    pub fn parse(method: &Method, raw_path: &str, query: &Query) -> Result<Self, BadPath> {
        let mut info = RequestInfo { verb: method_verb(method), ..RequestInfo::default() };
        let below = match raw_path.strip_prefix("/clusters/") {
            Some(rest) => {
                let (workspace, below) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
                info.workspace = Some(decode(workspace)?);
                below
            }
            None => raw_path,
        };
        // Each segment is decoded separately, so that an encoded slash never becomes a separator.
        let segments: Vec<String> = below.split('/').skip(1).map(decode).collect::<Result<_, _>>()?;
        // Only the last segment may be empty: a path may end with a slash.
        let odd = |segment: &String| matches!(segment.as_str(), "." | "..") || segment.contains('/');
        let inner = segments.len().saturating_sub(1);
        info.path = format!("/{}", segments.join("/"));
        info.resource_of(&segments, query, method);
        // The path after a proxy is passed on unchecked.
        let checked = match info.subresource.as_str() {
            "proxy" => segments.iter().position(|segment| segment == "proxy").unwrap_or(inner),
            _ => inner,
        };
        info.is_malformed =
            segments.iter().take(checked + 1).any(odd) || segments[..checked].iter().any(String::is_empty);
        Ok(info)
    }

    fn resource_of(&mut self, segments: &[String], query: &Query, method: &Method) {
        let mut parts = segments.iter().map(String::as_str).filter(|segment| !segment.is_empty());
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => match parts.next() {
                Some(group) => group,
                None => return,
            },
            _ => return,
        };
        let Some(version) = parts.next() else { return };
        let mut parts: Vec<&str> = parts.collect();
        let deprecated_watch = parts.first() == Some(&"watch") && parts.len() > 1;
        if deprecated_watch {
            parts.remove(0);
        }
        let total = parts.len();
        let (namespace, parts) = match parts[..] {
            [] => return,
            ["namespaces", namespace, resource, ..] if !NAMESPACE_SUBRESOURCES.contains(&resource) => {
                (namespace, &parts[2..])
            }
            // For authorization, a Namespace is in itself.
            ["namespaces", namespace, ..] if group.is_empty() => (namespace, &parts[..]),
            _ => ("", &parts[..]),
        };
        self.is_resource = true;
        self.in_namespace = parts.len() + 2 == total;
        self.group = group.to_string();
        self.version = version.to_string();
        self.namespace = namespace.to_string();
        let segment = |position: usize| parts.get(position).copied().unwrap_or_default().to_string();
        (self.resource, self.name, self.subresource) = (segment(0), segment(1), segment(2));
        self.rest = parts.get(3..).unwrap_or_default().join("/");
        self.verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD
                if deprecated_watch || (self.name.is_empty() && query.is_true("watch")) =>
            {
                "watch"
            }
            Method::GET | Method::HEAD if self.name.is_empty() => "list",
            Method::GET | Method::HEAD => "get",
            _ => "",
        };
        if self.name.is_empty() && !deprecated_watch && matches!(self.verb, "list" | "watch") {
            let selector = query.get("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
            let selected = selector.as_ref().and_then(|selector| selector.required_exact("metadata.name"));
            let selected = selected.filter(|name| names::path_segment_name(name).is_empty());
            self.selected = selected.unwrap_or_default().to_string();
        }
    }

    pub fn target(&self) -> Target<'_> {
        if !self.is_resource {
            return Target::Path(&self.path);
        }
        Target::Resource {
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: if self.name.is_empty() { &self.selected } else { &self.name },
        }
    }

    /// Returns `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether the request has no time limit.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch" || self.is_connection()
    }

    /// Whether the request is forwarded to a node or a Pod.
    pub fn is_connection(&self) -> bool {
        let subresources: &[&str] = match (self.group.as_str(), self.resource.as_str()) {
            ("", "pods") => &["attach", "exec", "log", "portforward", "proxy"],
            ("", "services" | "nodes") => &["proxy"],
            _ => &[],
        };
        subresources.contains(&self.subresource.as_str())
    }
}

fn decode(segment: &str) -> Result<String, BadPath> {
    percent_decode_str(segment).decode_utf8().map(String::from).map_err(|_| BadPath)
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::parse(&method, path, &Query::parse(query)).unwrap()
    }

    #[test]
    fn resources_are_parsed_from_the_path() {
        // method, uri → verb group version namespace resource name subresource
        let cases = [
            ("GET", "/api/v1/pods", "list||v1||pods||"),
            ("GET", "/api/v1/pods?watch=true", "watch||v1||pods||"),
            ("GET", "/api/v1/pods?watch=0", "list||v1||pods||"),
            ("GET", "/api/v1/watch/pods", "watch||v1||pods||"),
            ("GET", "/api/v1/namespaces", "list||v1||namespaces||"),
            ("GET", "/api/v1/namespaces/a", "get||v1|a|namespaces|a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update||v1|a|namespaces|a|finalize"),
            ("GET", "/api/v1/namespaces/a/pods", "list||v1|a|pods||"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection||v1|a|pods||"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/d/status",
                "patch|apps|v1|a|deployments|d|status",
            ),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "create|apps|v1|a|deployments||"),
            ("HEAD", "/apis/apps/v1/deployments/x", "get|apps|v1||deployments|x|"),
        ];
        for (method, uri, expected) in cases {
            let info = parse(method, uri);
            let seen = [
                info.verb,
                &info.group,
                &info.version,
                &info.namespace,
                &info.resource,
                &info.name,
                &info.subresource,
            ];
            assert_eq!(seen.join("|"), expected, "{method} {uri}");
            assert!(info.is_resource);
        }
    }

    #[test]
    fn a_selected_name_is_authorized_like_a_name_in_the_path() {
        let cases = [
            ("/api/v1/pods?fieldSelector=metadata.name%3Da", "a"),
            ("/api/v1/pods?watch=1&fieldSelector=metadata.name=a,spec.x=y", "a"),
            ("/api/v1/pods?fieldSelector=metadata.name!%3Da", ""),
            ("/api/v1/pods?fieldSelector=metadata.name%3Da%2Fb", ""),
            ("/api/v1/pods?fieldSelector=metadata.name%3D", ""),
            ("/api/v1/pods?fieldSelector=(", ""),
            ("/api/v1/watch/pods?fieldSelector=metadata.name%3Da", ""),
            ("/api/v1/namespaces/n/pods/b?fieldSelector=metadata.name%3Da", "b"),
        ];
        for (uri, expected) in cases {
            let info = parse("GET", uri);
            let Target::Resource { name, .. } = info.target() else { panic!("{uri}") };
            assert_eq!(name, expected, "{uri}");
        }
        assert_eq!(parse("DELETE", "/api/v1/pods?fieldSelector=metadata.name%3Da").selected, "");
    }

    #[test]
    fn other_paths_are_not_resources() {
        for path in [
            "/",
            "/healthz",
            "/api",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/api/v1",
            "/clusters/root/version",
        ] {
            assert!(!parse("GET", path).is_resource, "{path}");
        }
    }

    #[test]
    fn the_workspace_is_parsed() {
        let info = parse("GET", "/clusters/root:org/api/v1/pods");
        assert_eq!((info.workspace.as_deref(), info.path.as_str()), (Some("root:org"), "/api/v1/pods"));
        assert_eq!(parse("GET", "/clusters/*/api/v1/pods").workspace.as_deref(), Some("*"));
        assert_eq!(parse("GET", "/clusters/root").path, "/");
    }

    #[test]
    fn malformed_paths_are_detected() {
        let odd = [
            "/clusters/root/../x/api/v1/pods",
            "/api/v1/namespaces/a%2Fb/pods",
            "/api/v1/%2e%2e/pods",
            "/api//v1/pods",
            "//api/v1/pods",
        ];
        for path in odd {
            assert!(parse("GET", path).is_malformed, "{path}");
        }
        assert!(!parse("GET", "/api/v1/pods/").is_malformed);
        let proxied = "/api/v1/namespaces/a/pods/p/proxy/x//y%2Fz/../";
        assert!(!parse("GET", proxied).is_malformed);
        assert!(parse("GET", &proxied.replace("pods/p", "pods//p")).is_malformed);
        let bad = RequestInfo::parse(&Method::GET, "/api/%ff", &Query::parse(""));
        assert_eq!(bad, Err(BadPath));
        // A repeated prefix is an unknown path.
        assert!(!parse("GET", "/clusters/root/clusters/other/api/v1/pods").is_resource);
    }
}
