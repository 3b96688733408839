//! The Services that an Ingress leads to.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_informer::Key;
use atoll_meta::views::items;
use serde_json::Value;

use super::scoped;

/// Most Services of an Ingress that are followed.
const MAX_SERVICES: usize = 256;

/// Workspace, namespace and name of each Service.
pub fn index_keys(ingress: &Value) -> Vec<String> {
    let at = Key::of(ingress);
    services(ingress).into_iter().map(|name| scoped(&at, name)).collect()
}

/// Names of the Services that an Ingress leads to.
pub fn services(ingress: &Value) -> BTreeSet<&str> {
    let spec = &ingress["spec"];
    let paths = items(&spec["rules"]).iter().flat_map(|rule| items(&rule["http"]["paths"]));
    let backends = [&spec["defaultBackend"]].into_iter().chain(paths.map(|path| &path["backend"]));
    backends.filter_map(|backend| backend["service"]["name"].as_str()).take(MAX_SERVICES).collect()
}

/// The clusters of Services.
pub fn shares<'a>(services: impl Iterator<Item = &'a Value>) -> Vec<Share> {
    let mut found: BTreeMap<String, Share> = BTreeMap::new();
    for share in services.flat_map(|service| Placement::of(service).clusters) {
        found.entry(share.name.clone()).or_insert_with(|| Share::on(&share.name, &share.uid));
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ingresses_lead_to_services() {
        let backend = |name: &str| json!({ "service": { "name": name, "port": { "number": 80 } } });
        let rule = |name: &str| json!({ "http": { "paths": [{ "backend": backend(name) }] } });
        let bucket = json!({ "resource": { "kind": "Bucket", "name": "b" } });
        for (spec, expected) in [
            (json!({}), vec![]),
            (json!({ "defaultBackend": backend("web") }), vec!["web"]),
            (json!({ "rules": [rule("b"), rule("a"), rule("b"), { "host": "x" }] }), vec!["a", "b"]),
            (json!({ "defaultBackend": bucket, "rules": "none" }), vec![]),
        ] {
            let ingress = json!({ "metadata": { "namespace": "n" }, "spec": spec });
            let found: Vec<&str> = services(&ingress).into_iter().collect();
            assert_eq!(found, expected, "{ingress}");
            assert_eq!(index_keys(&ingress).len(), expected.len());
        }
        let many: Vec<Value> = (0..300).map(|number| rule(&format!("s{number}"))).collect();
        assert_eq!(services(&json!({ "spec": { "rules": many } })).len(), MAX_SERVICES);
    }
}
