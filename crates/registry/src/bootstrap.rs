//! What every workspace is born with.

use atoll_merge::apply::Author;
use atoll_watch::{Facts, Layer};
use bytes::Bytes;
use serde_json::json;

use crate::catalog::Catalog;
use crate::{facts, resets};

/// Id of the root workspace; all others have random ones.
pub const ROOT: &str = "root";

/// The namespaces that upstream creates.
pub const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The shared layer; `created` is when this control plane first started.
pub fn layer(catalog: &Catalog, created: i64) -> Layer {
    let mut layer = Layer::default();
    let Some(row) = catalog.stored("", "namespaces") else { return layer };
    for name in SYSTEM_NAMESPACES {
        let mut namespace = json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "creationTimestamp": atoll_meta::time::format(created),
                "labels": { "kubernetes.io/metadata.name": name },
            },
        });
        let (time, resets) = (atoll_meta::time::format(created), resets::of(row, ""));
        let author = Author { manager: "kube-apiserver", subresource: "", time: &time, resets };
        row.managed.record(row.managed.empty(), &mut namespace, &author);
        namespace["spec"] = json!({ "finalizers": ["kubernetes"] });
        namespace["status"] = json!({ "phase": "Active" });
        let encoded = Bytes::from(atoll_meta::json::encode_object(&namespace));
        let facts = facts::of(row, &namespace);
        let facts = Facts { labels: facts.labels.clone(), fields: facts.fields.clone() };
        layer.add(&row.group, &row.resource, "", name, encoded, facts);
    }
    layer
}
