//! Pod templates of adopted workloads: giving them access would restart their Pods, so that waits until the
//! template changes for another reason.

use atoll_meta::object;
use serde_json::Value;

use super::pod_spec_path;
use crate::marks::ADOPTED_TEMPLATES;
use crate::namespaces::{base32, hash};

/// Whether the Pod template of a shape is the one that was adopted in a cluster.
pub fn has_adopted_template(above: &Value, shaped: &Value, cluster: &str) -> bool {
    let Some(adopted) = object::annotation(above, ADOPTED_TEMPLATES) else { return false };
    let known = entries(adopted).find(|(name, _)| *name == cluster);
    known.is_some_and(|(_, known)| digest(shaped).as_deref() == Some(known))
}

/// Returns the annotation of an object whose Pod template was adopted in a cluster; `None` if it has none.
pub fn with_adopted_template(above: &Value, shaped: &Value, cluster: &str) -> Option<String> {
    let adopted = object::annotation(above, ADOPTED_TEMPLATES).unwrap_or_default();
    let digest = digest(shaped)?;
    let others = entries(adopted).filter(|(name, _)| *name != cluster);
    let all = others.chain([(cluster, digest.as_str())]);
    Some(all.map(|(name, digest)| format!("{name}={digest}")).collect::<Vec<_>>().join(","))
}

fn entries(adopted: &str) -> impl Iterator<Item = (&str, &str)> {
    adopted.split(',').filter_map(|entry| entry.split_once('='))
}

/// Returns a digest of the Pod template of a shape.
fn digest(shaped: &Value) -> Option<String> {
    let path = pod_spec_path(shaped)?;
    let template = shaped.pointer(path.strip_suffix("/spec")?)?;
    // The keys of objects are sorted.
    Some(base32(hash(&[&template.to_string()])))
}
