//! Paths of requests. Names in them come from objects that any user may have written, so each segment is
//! percent-encoded here, and nothing else puts names into paths.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Percent-encodes a segment of a path or a value of a query.
pub fn encoded(text: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Returns the path of a version of an API group, such as `/api/v1` or `/apis/apps/v1`.
pub fn group_version(group: &str, version: &str) -> String {
    match group.is_empty() {
        true => format!("/api/{}", encoded(version)),
        false => format!("/apis/{}/{}", encoded(group), encoded(version)),
    }
}

/// Returns the path of a resource in a namespace; with an empty namespace, of all namespaces or of a
/// cluster-scoped resource.
pub fn collection(group: &str, version: &str, namespace: &str, plural: &str) -> String {
    let (base, plural) = (group_version(group, version), encoded(plural));
    match namespace.is_empty() {
        true => format!("{base}/{plural}"),
        false => format!("{base}/namespaces/{}/{plural}", encoded(namespace)),
    }
}

/// Returns the path of an object in a collection.
pub fn object(collection: &str, name: &str) -> String {
    format!("{collection}/{}", encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_percent_encoded() {
        assert_eq!(encoded("system:view"), "system:view");
        assert_eq!(encoded("a b?c#d%\u{e9}"), "a%20b%3Fc%23d%25%C3%A9");
        assert_eq!(group_version("", "v1"), "/api/v1");
        assert_eq!(group_version("a/b", "v1?c"), "/apis/a%2Fb/v1%3Fc");
        for (namespace, plural, expected) in [
            ("n", "deployments", "/apis/apps/v1/namespaces/n/deployments"),
            ("", "deployments", "/apis/apps/v1/deployments"),
            ("n/pods?watch=true#", "a/b", "/apis/apps/v1/namespaces/n%2Fpods%3Fwatch%3Dtrue%23/a%2Fb"),
        ] {
            assert_eq!(collection("apps", "v1", namespace, plural), expected);
        }
        assert_eq!(object("/api/v1/nodes", "a/proxy?b"), "/api/v1/nodes/a%2Fproxy%3Fb");
    }
}
