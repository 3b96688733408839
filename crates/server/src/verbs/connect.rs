//! Subresources that lead to a node or into a container: logs, exec, attach, port-forward, proxy.
//!
//! This server has no way to nodes. It answers as upstream does up to where that would call a node, and says so then.

use std::sync::Arc;

use atoll_admission::Options;
use atoll_meta::{FieldError, FieldPath, Status, json};
use atoll_registry::{Place, Row};
use http::{HeaderMap, Response, StatusCode, header};
use serde_json::Value;

use super::gate::Gate;
use super::patch::Warnings;
use super::place;
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::options::integer;

/// Whether a subresource is one of these.
pub fn is_connection(subresource: &str) -> bool {
    matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy")
}

pub async fn answer(server: &Arc<Server>, row: &Row, call: &Call) -> Result<Response<Body>, Status> {
    let to = Connection { server, row, call, place: place(row, call)? };
    if call.info.subresource != "log" {
        to.admit().await?;
    }
    match (row.resource.as_str(), call.info.subresource.as_str()) {
        ("pods", "log") => to.log(),
        ("pods", "exec" | "attach") => to.container().and_then(|pod| to.stream(&pod)),
        ("pods", "portforward") => {
            ports(call)?;
            to.object("pods", to.place.name).and_then(|pod| to.stream(&pod))
        }
        ("pods", _) => to.pod_proxy(),
        ("services", _) => to.service_proxy(),
        _ => to.node_proxy(),
    }
}

struct Connection<'a> {
    server: &'a Server,
    row: &'a Row,
    call: &'a Call,
    place: Place<'a>,
}

impl Connection<'_> {
    async fn admit(&self) -> Result<(), Status> {
        let warnings = Warnings::default();
        let gate = Gate::of(self.server, self.row, self.call, self.place, Options::Connect, &warnings);
        gate.connect().await
    }

    fn log(&self) -> Result<Response<Body>, Status> {
        let errors = log_errors(self.call)?;
        if !errors.is_empty() {
            return Err(Status::invalid("", "PodLogOptions", self.place.name, errors));
        }
        let pod = self.container()?;
        // What has not begun anywhere has nothing to say.
        if node_of(&pod).is_empty() {
            let mut nothing = Response::new(Body::empty());
            *nothing.status_mut() = StatusCode::NO_CONTENT;
            return Ok(nothing);
        }
        self.node(node_of(&pod))?;
        Err(self.unreachable())
    }

    /// The pod, if it has the container that is asked for.
    fn container(&self) -> Result<Value, Status> {
        let pod = self.object("pods", self.place.name)?;
        let name = self.place.name;
        let wanted = self.call.query.get("container").unwrap_or_default();
        let named = |list: &str| names(&pod["spec"][list]);
        let all = [named("initContainers"), named("containers"), named("ephemeralContainers")].concat();
        match (wanted, named("containers").len()) {
            ("", 1) => {}
            ("", 0) => {
                return Err(Status::bad_request(format!(
                    "a container name must be specified for pod {name}"
                )));
            }
            ("", _) => {
                return Err(Status::bad_request(format!(
                    "a container name must be specified for pod {name}, choose one of: [{}]",
                    all.join(" ")
                )));
            }
            (wanted, _) if all.contains(&wanted) => {}
            (wanted, _) => {
                return Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")));
            }
        }
        Ok(pod)
    }

    fn stream(&self, pod: &Value) -> Result<Response<Body>, Status> {
        match node_of(pod) {
            "" => {
                let message = format!("pod {} does not have a host assigned", self.place.name);
                Err(Status::bad_request(message))
            }
            node => {
                self.node(node)?;
                match is_upgrade(&self.call.headers) {
                    true => Err(self.unreachable()),
                    false => Err(Status::bad_request("Upgrade request required")),
                }
            }
        }
    }

    fn pod_proxy(&self) -> Result<Response<Body>, Status> {
        let (name, _) = self.target("pod")?;
        let pod = self.object("pods", name)?;
        let first = pod["status"]["podIPs"][0]["ip"].as_str();
        let address = first.or(pod["status"]["podIP"].as_str()).unwrap_or_default();
        if !address.parse().is_ok_and(is_reachable) {
            return Err(Status::bad_request("address not allowed"));
        }
        Err(self.unreachable())
    }

    fn service_proxy(&self) -> Result<Response<Body>, Status> {
        let (name, port) = self.target("service")?;
        if let Ok(number) = port.parse::<i64>() {
            let service = self.object("services", name)?;
            let ports = service["spec"]["ports"].as_array();
            if !ports.is_some_and(|ports| ports.iter().any(|port| port["port"] == number)) {
                let message = format!("no service port {number} found for service {name:?}");
                return Err(Status::service_unavailable(message));
            }
        }
        let endpoints = self.object("endpoints", name)?;
        if endpoints["subsets"].as_array().is_none_or(Vec::is_empty) {
            return Err(Status::service_unavailable(format!("no endpoints available for service {name:?}")));
        }
        Err(self.unreachable())
    }

    fn node_proxy(&self) -> Result<Response<Body>, Status> {
        let (name, _) = self.target("node")?;
        self.node(name)?;
        Err(self.unreachable())
    }

    /// A node that could be called if there were a way.
    fn node(&self, name: &str) -> Result<(), Status> {
        let node = self.object("nodes", name)?;
        if node["status"]["addresses"].as_array().is_none_or(Vec::is_empty) {
            return Err(Status::plain_internal("no preferred addresses found; known addresses: []"));
        }
        Ok(())
    }

    /// Name and port of `name`, `name:port` or `scheme:name:port`.
    fn target(&self, kind: &str) -> Result<(&str, &str), Status> {
        let parts: Vec<&str> = self.place.name.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        match name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            true => Err(Status::bad_request(format!("invalid {kind} request {:?}", self.place.name))),
            false => Ok((name, port)),
        }
    }

    /// An object of the core group. What is missing is called what the request is about, as upstream has it.
    fn object(&self, resource: &str, name: &str) -> Result<Value, Status> {
        let missing = || Status::not_found("", &self.row.resource, name);
        let row = self.server.registry.catalog.find("", "v1", resource).ok_or_else(missing)?;
        let namespace = if row.namespaced { self.place.namespace } else { "" };
        let found = self.server.registry.get(row, &Place { namespace, name, ..self.place });
        let parsed = json::parse(&found.map_err(|_| missing())?.json());
        parsed.map(|parsed| parsed.value).map_err(|error| Status::internal_error(error.to_string()))
    }

    fn unreachable(&self) -> Status {
        Status::service_unavailable(format!(
            "{}/{} leads to a node, and this server has no connection to nodes",
            self.row.resource, self.call.info.subresource
        ))
    }
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

fn names(containers: &Value) -> Vec<&str> {
    containers.as_array().into_iter().flatten().filter_map(|container| container["name"].as_str()).collect()
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// What Go calls a global unicast address.
fn is_reachable(address: std::net::IpAddr) -> bool {
    let local = match address {
        std::net::IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(local || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

fn log_errors(call: &Call) -> Result<Vec<FieldError>, Status> {
    let mut errors = Vec::new();
    let mut invalid = |name: &'static str, value: i64, message: &str| {
        errors.push(FieldError::invalid(&FieldPath::new(name), value, message));
    };
    let [tail, limit, since] =
        ["tailLines", "limitBytes", "sinceSeconds"].map(|name| integer(&call.query, name));
    let (tail, limit, since) = (tail?, limit?, since?);
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        invalid("tailLines", tail, "must be greater than or equal to 0");
    }
    if let Some(limit) = limit.filter(|limit| *limit < 1) {
        invalid("limitBytes", limit, "must be greater than 0");
    }
    match (since, call.query.get("sinceTime").filter(|time| !time.is_empty())) {
        (Some(_), Some(_)) => {
            let message = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&FieldPath::new("[]"), message));
        }
        (Some(since), None) if since < 1 => invalid("sinceSeconds", since, "must be greater than 0"),
        _ => {}
    }
    if call.query.get("stream").is_some() {
        errors.push(FieldError::forbidden(&FieldPath::new("stream"), "may not be specified"));
    }
    Ok(errors)
}

fn ports(call: &Call) -> Result<(), Status> {
    for text in call.query.all("ports").flat_map(|ports| ports.split(',')) {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if text.parse::<u16>().is_err() || !digits {
            let problem = if digits { "value out of range" } else { "invalid syntax" };
            let message =
                format!("cannot convert to []int32: strconv.ParseUint: parsing {text:?}: {problem}");
            return Err(Status::bad_request(message));
        }
    }
    Ok(())
}
