//! Paths and queries of requests to kubelets.

use percent_encoding::percent_decode_str;

/// A parsed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    Health,
    Summary,
    Resources,
    /// A request for a pod, and possibly for one of its containers.
    Pod {
        what: &'a str,
        namespace: &'a str,
        name: &'a str,
        container: &'a str,
    },
}

impl Wanted<'_> {
    pub fn parse(path: &str) -> Option<Wanted<'_>> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        Some(match parts[..] {
            ["healthz"] => Wanted::Health,
            ["stats", "summary"] => Wanted::Summary,
            ["metrics", "resource"] => Wanted::Resources,
            [what, namespace, name] => Wanted::Pod { what, namespace, name, container: "" },
            // The pod's uid may precede the container.
            [what, namespace, name, container] | [what, namespace, name, _, container] => {
                Wanted::Pod { what, namespace, name, container }
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
        let pod = |what, container| Some(Wanted::Pod { what, namespace: "n", name: "p", container });
        for (path, expected) in [
            ("/healthz", Some(Wanted::Health)),
            ("/healthz/", Some(Wanted::Health)),
            ("/stats/summary", Some(Wanted::Summary)),
            ("/metrics/resource", Some(Wanted::Resources)),
            ("/portForward/n/p", pod("portForward", "")),
            ("/containerLogs/n/p/c", pod("containerLogs", "c")),
            ("/exec/n/p/a-uid/c", pod("exec", "c")),
            ("/exec/n/p/a-uid/c/more", None),
            ("/pods", None),
            ("/", None),
        ] {
            assert_eq!(Wanted::parse(path), expected, "{path}");
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
