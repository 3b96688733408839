//! A way in, for the targets in `fuzz/`, to parsers that are nobody else's business.

use serde_json::Value;

use crate::endpoint::request::{Query, Wanted};
use crate::endpoint::statistics::asked_node;
use crate::endpoint::{exec, logs};

/// Whether a container of a pod comes to an end by itself.
pub fn is_ending(container: &Value, pod: &Value) -> bool {
    crate::program::of(container, pod).ends.is_some()
}

/// Reads what a kubelet is asked for: a path, a query, and the address that a proxy was asked for. Whether all of them mean
/// something.
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
