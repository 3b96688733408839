//! Destinations of requests, computed from objects.

// upstream: pkg/registry/core/pod/strategy.go
// upstream: pkg/kubelet/client/kubelet_client.go

use std::net::IpAddr;

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, Status};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::options::integer;
use crate::query::Query;

/// Characters that Go escapes in query values.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b' ');
/// Characters that are escaped in a path segment.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':').remove(b'@');

/// Returns the container that is meant by `wanted`, which may be empty.
pub fn container<'a>(pod: &'a Value, wanted: &'a str) -> Result<&'a str, Status> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let named = |list: &str| names(&pod["spec"][list]);
    let all = [named("initContainers"), named("containers"), named("ephemeralContainers")].concat();
    match (wanted, &named("containers")[..]) {
        ("", [only]) => Ok(only),
        ("", []) => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (wanted, _) if all.contains(&wanted) => Ok(wanted),
        (wanted, _) => Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}"))),
    }
}

fn names(containers: &Value) -> Vec<&str> {
    containers.as_array().into_iter().flatten().filter_map(|container| container["name"].as_str()).collect()
}

/// Returns the node that a Pod is bound to.
pub fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())
}

/// Returns the address of a node whose type comes first in `preferred`.
pub fn node_address<'a>(node: &'a Value, preferred: &[String]) -> Result<&'a str, Status> {
    let addresses = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |address: &'a Value, name: &str| address[name].as_str().unwrap_or_default();
    for kind in preferred {
        if let Some(found) = addresses.iter().find(|address| text(address, "type") == kind) {
            return Ok(text(found, "address"));
        }
    }
    let known: Vec<String> = addresses
        .iter()
        .map(|address| format!("{{{} {}}}", text(address, "type"), text(address, "address")))
        .collect();
    let message = format!("no preferred addresses found; known addresses: [{}]", known.join(" "));
    Err(Status::plain_internal(message))
}

/// Returns the first address of a Pod, if it is a global unicast address.
pub fn pod_address(pod: &Value) -> Result<IpAddr, Status> {
    let first = pod["status"]["podIPs"][0]["ip"].as_str();
    let address = first.or(pod["status"]["podIP"].as_str()).and_then(|address| address.parse().ok());
    address
        .filter(|address| is_global_unicast(*address))
        .ok_or_else(|| Status::bad_request("address not allowed"))
}

/// Returns the first container port of a Pod.
pub fn first_port(pod: &Value) -> Option<u16> {
    let containers = pod["spec"]["containers"].as_array()?;
    let port = containers.iter().find_map(|container| container["ports"][0]["containerPort"].as_u64())?;
    port.try_into().ok()
}

/// Reports whether an address is global unicast by the definition of Go's net package.
pub fn is_global_unicast(address: IpAddr) -> bool {
    let local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => return is_global_unicast(mapped.into()),
            None => address.is_unicast_link_local(),
        },
    };
    !(local || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// A parsed `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
pub struct ProxyTarget<'a> {
    pub scheme: &'a str,
    pub name: &'a str,
    pub port: &'a str,
}

impl<'a> ProxyTarget<'a> {
    pub fn parse(kind: &str, text: &'a str) -> Result<ProxyTarget<'a>, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        match name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            true => Err(Status::bad_request(format!("invalid {kind} request {}", quote(text)))),
            false => Ok(ProxyTarget { scheme, name, port }),
        }
    }
}

/// Validates the options of a request for logs and returns the query for the kubelet.
pub fn log_query(query: &Query, pod: &str) -> Result<String, Status> {
    let mut errors = Vec::new();
    let mut invalid = |name: &'static str, value: i64, message: &str| {
        errors.push(FieldError::invalid(&FieldPath::new(name), value, message));
    };
    let [tail, limit, since] = ["tailLines", "limitBytes", "sinceSeconds"].map(|name| integer(query, name));
    let (tail, limit, since) = (tail?, limit?, since?);
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        invalid("tailLines", tail, "must be greater than or equal to 0");
    }
    if let Some(limit) = limit.filter(|limit| *limit < 1) {
        invalid("limitBytes", limit, "must be greater than 0");
    }
    let time = query.get("sinceTime").filter(|time| !time.is_empty());
    match (since, time) {
        (Some(_), Some(_)) => {
            let message = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&FieldPath::new("[]"), message));
        }
        (Some(since), None) if since < 1 => invalid("sinceSeconds", since, "must be greater than 0"),
        _ => {}
    }
    if query.get("stream").is_some() {
        errors.push(FieldError::forbidden(&FieldPath::new("stream"), "may not be specified"));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", pod, errors));
    }
    // Sorted by name, as upstream encodes them.
    let flag = |name: &'static str| query.is_true(name).then(|| (name, "true".to_string()));
    let number = |name: &'static str, value: Option<i64>| value.map(|value| (name, value.to_string()));
    let all = [
        flag("follow"),
        number("limitBytes", limit),
        flag("previous"),
        number("sinceSeconds", since),
        time.map(|time| ("sinceTime", time.to_string())),
        number("tailLines", tail),
        flag("timestamps"),
    ];
    Ok(encode(all.iter().flatten().map(|(name, value)| (*name, value.as_str()))))
}

/// Returns the query for the kubelet's port-forward endpoint.
pub fn forward_query(query: &Query) -> Result<String, Status> {
    let mut ports = Vec::new();
    for text in query.all("ports").flat_map(|ports| ports.split(',')) {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u16>() {
            Ok(port) if digits => ports.push(port.to_string()),
            _ => {
                let problem = if digits { "value out of range" } else { "invalid syntax" };
                let message = format!(
                    "cannot convert to []int32: strconv.ParseUint: parsing {}: {problem}",
                    quote(text)
                );
                return Err(Status::bad_request(message));
            }
        }
    }
    let ports = ports.join(",");
    Ok(encode((!ports.is_empty()).then_some(("port", ports.as_str()))))
}

/// Encodes pairs as a query, as Go does.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let escaped = |text| utf8_percent_encode(text, ESCAPED).to_string().replace(' ', "+");
    let pairs = pairs.into_iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns a path of these segments, escaped.
pub fn path(segments: &[&str]) -> String {
    segments
        .iter()
        .flat_map(|segment| ["/".to_string(), utf8_percent_encode(segment, SEGMENT).to_string()])
        .collect()
}

/// Joins host and port, with brackets around IPv6 addresses.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn container_is_found_or_defaulted() {
        let one = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "a" }] } });
        let many = json!({ "metadata": { "name": "p" }, "spec": {
            "containers": [{ "name": "a" }, { "name": "b" }], "initContainers": [{ "name": "i" }],
            "ephemeralContainers": [{ "name": "e" }],
        } });
        let choose = "a container name must be specified for pod p, choose one of: [i a b e]";
        let cases = [
            (&one, "", Ok("a")),
            (&one, "x", Err("container x is not valid for pod p")),
            (&many, "", Err(choose)),
            (&many, "e", Ok("e")),
            (&many, "i", Ok("i")),
        ];
        for (pod, wanted, expected) in cases {
            let seen = container(pod, wanted);
            assert_eq!(seen.map_err(|status| status.message().to_string()), expected.map_err(String::from));
        }
        let none = json!({ "metadata": { "name": "p" }, "spec": {} });
        assert_eq!(
            container(&none, "").unwrap_err().message(),
            "a container name must be specified for pod p"
        );
    }

    #[test]
    fn preferred_node_address_is_used() {
        let node = json!({ "status": { "addresses": [
            { "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": "n" },
        ] } });
        let preferred = |kinds: &[&str]| kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>();
        assert_eq!(node_address(&node, &preferred(&["Hostname", "InternalIP"])).unwrap(), "n");
        assert_eq!(node_address(&node, &preferred(&["ExternalIP", "InternalIP"])).unwrap(), "10.0.0.1");
        let missing = node_address(&node, &preferred(&["ExternalIP"])).unwrap_err();
        let message = "no preferred addresses found; known addresses: [{InternalIP 10.0.0.1} {Hostname n}]";
        assert_eq!((missing.message(), missing.code()), (message, 500));
    }

    #[test]
    fn only_global_unicast_pod_addresses_are_allowed() {
        for (address, expected) in [
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("fe80::1", false),
            ("224.0.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("no", false),
        ] {
            let pod = json!({ "status": { "podIPs": [{ "ip": address }] } });
            assert_eq!(pod_address(&pod).is_ok(), expected, "{address}");
        }
    }

    #[test]
    fn targets_are_parsed() {
        let target = |scheme, name, port| Ok(ProxyTarget { scheme, name, port });
        let cases = [
            ("a", target("", "a", "")),
            ("a:80", target("", "a", "80")),
            ("a:", target("", "a", "")),
            ("https:a:web", target("https", "a", "web")),
            ("ftp:a:80", Err("invalid pod request \"ftp:a:80\"")),
            (":80", Err("invalid pod request \":80\"")),
            ("a:b:c:d", Err("invalid pod request \"a:b:c:d\"")),
        ];
        for (text, expected) in cases {
            let seen = ProxyTarget::parse("pod", text).map_err(|status| status.message().to_string());
            assert_eq!(seen, expected.map_err(String::from), "{text}");
        }
    }

    #[test]
    fn kubelet_queries_are_encoded_as_upstream_does() {
        let log = |query: &str| {
            log_query(&Query::parse(query), "p")
                .map_err(|status| (status.code(), status.message().to_string()))
        };
        assert_eq!(log("container=c&pretty=1"), Ok(String::new()));
        let all =
            "timestamps=1&tailLines=5&follow=true&previous=true&limitBytes=9&sinceTime=2020-01-01T00:00:00Z";
        let expected = "follow=true&limitBytes=9&previous=true&sinceTime=2020-01-01T00%3A00%3A00Z&tailLines=5&timestamps=true";
        assert_eq!(log(all), Ok(expected.into()));
        assert_eq!(log("follow=false&sinceSeconds=3"), Ok("sinceSeconds=3".into()));
        assert_eq!(log("tailLines=-1").unwrap_err().0, 422);
        assert_eq!(log("tailLines=x").unwrap_err().0, 400);
        assert_eq!(log("sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z").unwrap_err().0, 422);
        let forward = |query: &str| forward_query(&Query::parse(query)).map_err(|status| status.code());
        assert_eq!(forward(""), Ok(String::new()));
        assert_eq!(forward("ports=80&ports=443,8080"), Ok("port=80%2C443%2C8080".into()));
        assert_eq!((forward("ports=x"), forward("ports=70000")), (Err(400), Err(400)));
        let command = [("command", "sh"), ("command", "-c"), ("command", "echo a b;c&d=é")];
        assert_eq!(encode(command), "command=sh&command=-c&command=echo+a+b%3Bc%26d%3D%C3%A9");
        assert_eq!(path(&["exec", "ns", "p od", "c"]), "/exec/ns/p%20od/c");
        assert_eq!((authority("::1", 1), authority("a", 2)), ("[::1]:1".into(), "a:2".into()));
    }
}
