//! Exports private parsers for the targets in `fuzz/`.

use serde_json::Value;

use crate::endpoint::request::{KubeletPath, Query};
use crate::endpoint::statistics::requested_node;
use crate::endpoint::{exec, logs};

/// Whether a container of a pod ends by itself.
pub fn ends_by_itself(container: &Value, pod: &Value) -> bool {
    crate::program::of(container, pod).ends.is_some()
}

/// Parses a request to a kubelet: path, query, and the URI that a proxy forwards. Returns whether all of them
/// are valid.
pub fn is_valid_request(path: &str, query: &str, uri: &str) -> bool {
    let query = Query::parse(query);
    let _ = logs::LogOptions::of(&query, 0);
    let wanted = KubeletPath::parse(path);
    if let Some(KubeletPath::Pod { action, namespace, name, container }) = wanted {
        assert!([action, namespace, name, container].iter().all(|part| !part.contains('/')));
    }
    let words: Vec<&str> = query.values("command").collect();
    wanted.is_some() && requested_node(uri).is_some() && exec::is_known(&words)
}
