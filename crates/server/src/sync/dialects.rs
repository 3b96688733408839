//! The hooks of dialects in sync views: metadata of shares, and names of namespaces below.

use atoll_fleet::namespaces::is_prescribable;
use atoll_meta::object;
use atoll_registry::dialect::{MARKER, NamespaceAbove, ShareTarget};
use atoll_store::{Key, key};
use serde_json::Value;

use crate::Server;

/// Returns the workspace of a ConfigMap of dialects.
pub fn enabling_workspace(key: &Key) -> Option<&str> {
    let parts = key.parts()?;
    let is_it = (parts.resource, parts.name) == ("configmaps", MARKER)
        && parts.namespace == atoll_fleet::marks::SYSTEM_NAMESPACE;
    is_it.then_some(parts.workspace)
}

/// Adds the labels and annotations that dialects give an object below. Atoll's own cannot be set.
pub fn add_metadata(
    server: &Server,
    parts: &key::Parts<'_>,
    cluster: &Value,
    above: &Value,
    shaped: &mut Value,
) {
    let target = ShareTarget {
        workspace: parts.workspace,
        group: parts.api_group(),
        resource: parts.resource,
        cluster,
    };
    for dialect in server.registry.enabled_dialects(parts.workspace) {
        let added = dialect.share_metadata(&target, above);
        for (field, entries) in [("labels", added.labels), ("annotations", added.annotations)] {
            let own = entries.into_iter().filter(|(name, _)| !name.starts_with(OWN));
            let own: Vec<(String, String)> = own.collect();
            if own.is_empty() {
                continue;
            }
            let metadata = object::metadata_mut(shaped);
            let known = metadata.entry(field).or_insert_with(|| Value::Object(Default::default()));
            if let Some(known) = known.as_object_mut() {
                known.extend(own.into_iter().map(|(name, value)| (name, value.into())));
            }
        }
    }
}

/// The prefix of Atoll's marks.
const OWN: &str = "atoll.dev/";

/// The name that a dialect prescribes for a namespace below.
pub fn namespace_below(
    server: &Server,
    workspace: &str,
    namespace: &str,
    object: &Value,
    cluster: &Value,
) -> Option<String> {
    let above = NamespaceAbove { workspace, namespace, object, cluster };
    let dialects = server.registry.enabled_dialects(workspace);
    let name = dialects.iter().find_map(|dialect| dialect.namespace_below(&above))?;
    is_prescribable(&name).then_some(name)
}
