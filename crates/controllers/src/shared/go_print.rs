//! Prints values as Go does: in messages, and for the order of lists, which upstream sorts by a hash of the
//! printed value.

// upstream: pkg/util/hash/hash.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/dump/dump.go

use serde_json::Value;

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// FNV-1a with 128 bits. Its bytes compare like the number.
pub fn fnv(text: &str) -> u128 {
    fnv_after(OFFSET, text)
}

/// Continues a hash with more text.
fn fnv_after(hash: u128, text: &str) -> u128 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// Prints a required string field.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Prints an optional field.
fn optional(object: &Value, field: &str) -> String {
    match &object[field] {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Prints a port of an EndpointSlice.
pub fn slice_port(port: &Value) -> String {
    format!(
        "(v1.EndpointPort){{Name:(*string){} Protocol:(*v1.Protocol){} Port:(*int32){} AppProtocol:(*string){}}}",
        optional(port, "name"),
        optional(port, "protocol"),
        optional(port, "port"),
        optional(port, "appProtocol"),
    )
}

/// Prints a port of Endpoints without its type, which is omitted inside a list.
pub fn listed_port(port: &Value) -> String {
    format!(
        "{{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:(*string){}}}",
        text(port, "name"),
        port["port"].as_i64().unwrap_or(0),
        text(port, "protocol"),
        optional(port, "appProtocol"),
    )
}

/// Prints a port of Endpoints.
pub fn endpoint_port(value: &Value) -> String {
    format!("(v1.EndpointPort){}", listed_port(value))
}

/// Prints an address of Endpoints without its type.
pub fn listed_address(address: &Value) -> String {
    let target = match &address["targetRef"] {
        Value::Null => "<nil>".into(),
        target => format!(
            "{{Kind:(string){} Namespace:(string){} Name:(string){} UID:(types.UID){} APIVersion:(string){} ResourceVersion:(string){} FieldPath:(string){}}}",
            text(target, "kind"),
            text(target, "namespace"),
            text(target, "name"),
            text(target, "uid"),
            text(target, "apiVersion"),
            text(target, "resourceVersion"),
            text(target, "fieldPath"),
        ),
    };
    format!(
        "{{IP:(string){} Hostname:(string){} NodeName:(*string){} TargetRef:(*v1.ObjectReference){target}}}",
        text(address, "ip"),
        text(address, "hostname"),
        optional(address, "nodeName"),
    )
}

/// Returns the hash of a subset of Endpoints from its printed addresses and ports. The text of a whole subset
/// may be long and is never in memory.
pub fn subset_hash<'a>(
    addresses: impl Iterator<Item = &'a str>,
    not_ready_addresses: impl Iterator<Item = &'a str>,
    ports: impl Iterator<Item = &'a str>,
) -> u128 {
    let mut hash = fnv("(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)");
    hash = list_hash(hash, addresses);
    hash = fnv_after(hash, " NotReadyAddresses:([]v1.EndpointAddress)");
    hash = list_hash(hash, not_ready_addresses);
    hash = fnv_after(hash, " Ports:([]v1.EndpointPort)");
    hash = list_hash(hash, ports);
    fnv_after(hash, "}")
}

/// Continues a hash with a list, which is nil if empty.
fn list_hash<'a>(mut hash: u128, items: impl Iterator<Item = &'a str>) -> u128 {
    let mut before = "[";
    for item in items {
        hash = fnv_after(fnv_after(hash, before), item);
        before = " ";
    }
    fnv_after(hash, if before == "[" { "<nil>" } else { "]" })
}

/// Prints a label selector for messages.
pub fn label_selector(selector: &Value) -> String {
    if selector.is_null() {
        return "nil".into();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut labels: Vec<String> = labels.map(|(label, value)| format!("{label}: {},", text(value))).collect();
    labels.sort();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        let values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        let (key, operator) = (text(&expression["key"]), text(&expression["operator"]));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.concat(),
        expressions.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_are_those_of_go() {
        let http = json!({"name": "http", "port": 80, "protocol": "TCP"});
        let unnamed = json!({"port": 80, "protocol": "TCP", "appProtocol": "h2"});
        let slice_unnamed = json!({"name": "", "port": 80, "protocol": "TCP", "appProtocol": "h2"});
        let address = json!({"ip": "10.0.0.1", "hostname": "h", "nodeName": "n",
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}});
        let (address, port) = (listed_address(&address), listed_port(&http));
        let (address, port) = (address.as_str(), port.as_str());
        let unready = listed_address(&json!({"ip": "1.2.3.4"}));
        let none = || std::iter::empty::<&str>();
        // From fnv.New128a over dump.ForHash of the same values.
        for (printed, hash) in [
            (endpoint_port(&http), 0x754b003f50f133a539c60d18cfb30a55_u128),
            (endpoint_port(&unnamed), 0x37ee7437affda815545503cde56ea508),
            (slice_port(&http), 0xb6c4d325122a5ba6f795b0bbffcebb6f),
            (slice_port(&slice_unnamed), 0xb74058f6460dd83c973dee95653d3ad2),
        ] {
            assert_eq!(fnv(&printed), hash, "{printed}");
        }
        let ready = subset_hash([address, address].into_iter(), none(), [port].into_iter());
        assert_eq!(ready, 0x0129d2d38f774e13f15b0e4b3b52e367);
        let waiting = subset_hash(none(), [unready.as_str()].into_iter(), none());
        assert_eq!(waiting, 0x4b67fd63c52c25456f2bfe51caa99231);
    }

    #[test]
    fn selectors_are_printed_as_in_go() {
        let selector = json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}],
        });
        let printed = "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}";
        assert_eq!(label_selector(&selector), printed);
        assert_eq!(label_selector(&Value::Null), "nil");
    }
}
