//! Parts of volumes as upstream's own types, which have other names than the API, show them in messages.

use atoll_meta::field::BadValue;
use atoll_meta::json;
use serde_json::Value;

use crate::at::At;

fn text(at: &At<'_>, field: &str) -> BadValue {
    BadValue::named_text(at.text_of(field))
}

fn list(at: &At<'_>, show: &dyn Fn(&At<'_>) -> String) -> String {
    match at.is_set() {
        true => format!("[{}]", at.items().map(|item| show(&item)).collect::<Vec<_>>().join(",")),
        false => "null".to_owned(),
    }
}

/// The node affinity of a volume.
pub(crate) fn affinity(affinity: &At<'_>) -> BadValue {
    if !affinity.is_set() {
        return BadValue::Value(Value::Null);
    }
    let requirement = |at: &At<'_>| {
        let values = json::to_string(at.get("values").value);
        format!("{{\"Key\":{},\"Operator\":{},\"Values\":{values}}}", text(at, "key"), text(at, "operator"))
    };
    let term = |at: &At<'_>| {
        let [expressions, fields] =
            ["matchExpressions", "matchFields"].map(|field| list(&at.get(field), &requirement));
        format!("{{\"MatchExpressions\":{expressions},\"MatchFields\":{fields}}}")
    };
    let required = affinity.get("required");
    let required = match required.is_set() {
        true => format!("{{\"NodeSelectorTerms\":{}}}", list(&required.get("nodeSelectorTerms"), &term)),
        false => "null".to_owned(),
    };
    BadValue::Rendered(format!("{{\"Required\":{required}}}"))
}

/// What is to be attached where. A volume that is described in place is shown as the API has it.
pub(crate) fn attachment(spec: &At<'_>) -> BadValue {
    let source = spec.get("source");
    let [name, inline] =
        ["persistentVolumeName", "inlineVolumeSpec"].map(|field| json::to_string(source.get(field).value));
    BadValue::Rendered(format!(
        "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{name},\"InlineVolumeSpec\":{inline}}},\"NodeName\":{}}}",
        text(spec, "attacher"),
        text(spec, "nodeName")
    ))
}

/// A driver on a node, without what may change.
pub(crate) fn driver(driver: &At<'_>) -> BadValue {
    let keys = json::to_string(driver.get("topologyKeys").value);
    BadValue::Rendered(format!(
        "{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{keys},\"Allocatable\":null}}",
        text(driver, "name"),
        text(driver, "nodeID")
    ))
}
