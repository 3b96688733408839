//! Paths and queries of requests to kubelets.

// upstream: pkg/kubelet/server/server.go

use percent_encoding::percent_decode_str;

/// A parsed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletPath<'a> {
    Health,
    Summary,
    Resources,
    /// A request for a pod, and possibly for one of its containers.
    Pod {
        action: &'a str,
        namespace: &'a str,
        name: &'a str,
        container: &'a str,
    },
}

impl KubeletPath<'_> {
    pub fn parse(path: &str) -> Option<KubeletPath<'_>> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        Some(match parts[..] {
            ["healthz"] => KubeletPath::Health,
            ["stats", "summary"] => KubeletPath::Summary,
            ["metrics", "resource"] => KubeletPath::Resources,
            [action, namespace, name] => KubeletPath::Pod { action, namespace, name, container: "" },
            // The pod's uid may precede the container.
            [action, namespace, name, container] | [action, namespace, name, _, container] => {
                KubeletPath::Pod { action, namespace, name, container }
            }
            _ => return None,
        })
    }
}

/// Decoded names and values of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: &str) -> Query {
        let decoded =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Query(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    /// Returns the first value of a name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    pub fn values<'q>(&'q self, name: &str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed() {
        let pod = |action, container| Some(KubeletPath::Pod { action, namespace: "n", name: "p", container });
        for (path, expected) in [
            ("/healthz", Some(KubeletPath::Health)),
            ("/healthz/", Some(KubeletPath::Health)),
            ("/stats/summary", Some(KubeletPath::Summary)),
            ("/metrics/resource", Some(KubeletPath::Resources)),
            ("/portForward/n/p", pod("portForward", "")),
            ("/containerLogs/n/p/c", pod("containerLogs", "c")),
            ("/exec/n/p/a-uid/c", pod("exec", "c")),
            ("/exec/n/p/a-uid/c/more", None),
            ("/pods", None),
            ("/", None),
        ] {
            assert_eq!(KubeletPath::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("command=sh&command=-c&&command=echo+a%26b&follow&x=1=2");
        assert_eq!(query.values("command").collect::<Vec<_>>(), ["sh", "-c", "echo a&b"]);
        assert_eq!(query.value("follow"), Some(""));
        assert_eq!(query.value("x"), Some("1=2"));
        assert_eq!(query.value("y"), None);
    }
}
