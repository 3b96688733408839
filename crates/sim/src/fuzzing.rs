//! Exports private parsers for the targets in `fuzz/`.

use serde_json::Value;

use crate::endpoint::request::{Query, Wanted};
use crate::endpoint::statistics::asked_node;
use crate::endpoint::{exec, logs};

/// Whether a container of a pod ends by itself.
pub fn is_ending(container: &Value, pod: &Value) -> bool {
    crate::program::of(container, pod).ends.is_some()
}

/// Parses a request to a kubelet: path, query, and the URI that a proxy forwards. Returns whether all of them
/// are valid.
pub fn is_understood(path: &str, query: &str, uri: &str) -> bool {
    let query = Query::parse(query);
    let _ = logs::Wanted::of(&query, 0);
    let wanted = Wanted::parse(path);
    if let Some(Wanted::Pod { what, namespace, name, container }) = wanted {
        assert!([what, namespace, name, container].iter().all(|part| !part.contains('/')));
    }
    let words: Vec<&str> = query.values("command").collect();
    wanted.is_some() && asked_node(uri).is_some() && exec::is_known(&words)
}
