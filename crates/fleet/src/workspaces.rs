//! The workspaces that may place objects on a cluster.

use serde_json::Value;

use crate::cluster::ClusterView;

/// Whether a workspace may place new objects on a Cluster. `path` is relative to the registering workspace,
/// such as `org:team`; the registering workspace itself, with an empty path, always may.
pub fn may_use(cluster: &Value, path: &str) -> bool {
    let Some(workspaces) = ClusterView::of(cluster).workspaces() else { return true };
    let covers = |allowed: &str| {
        path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    path.is_empty() || workspaces.iter().filter_map(Value::as_str).any(covers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workspace_is_allowed_with_its_descendants() {
        for (workspaces, path, expected) in [
            (json!(null), "", true),
            (json!(null), "team:a", true),
            (json!([]), "", true),
            (json!([]), "team", false),
            (json!(["team"]), "team", true),
            (json!(["team"]), "team:a:b", true),
            (json!(["team"]), "teams", false),
            (json!(["team"]), "other", false),
            (json!(["team:a"]), "team", false),
            (json!(["team:a"]), "team:a", true),
            (json!(["team:a", "other"]), "other:b", true),
        ] {
            let cluster = json!({ "spec": { "workspaces": workspaces } });
            assert_eq!(may_use(&cluster, path), expected, "{workspaces} {path}");
        }
    }
}
