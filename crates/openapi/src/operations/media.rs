//! Media types of requests and responses.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go

pub const ANYTHING: &[&str] = &["*/*"];
pub const TEXT: &[&str] =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Media types of a kind. A kind without a built-in type supports neither protobuf nor strategic merge
/// patches.
pub struct Media {
    pub whole: &'static [&'static str],
    pub streamed: &'static [&'static str],
    pub patches: &'static [&'static str],
}
pub const BUILT_IN: Media = Media {
    whole: &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"],
    streamed: &[
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ],
    patches: &[
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ],
};
pub const CUSTOM: Media = Media {
    whole: &["application/json", "application/yaml"],
    streamed: &["application/json", "application/yaml", "application/json;stream=watch"],
    patches: &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"],
};
