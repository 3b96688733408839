//! Objects that are placed in part: some of their replicas have no place on any cluster.

// upstream: pkg/controller/deployment/util/deployment_util.go

use atoll_meta::object;
use serde_json::Value;

use super::{PlacedObject, enumerated};
use crate::int_or_percent::resolve;
use crate::placed_by;
use crate::placement::Placement;
use crate::scheduled::CLUSTERS;

/// The command that explains where an object is.
const EXPLAIN: &str = "atoll explain ";

impl PlacedObject<'_> {
    /// Returns the message about replicas without a place; `None` if all have one.
    pub(super) fn missing(&self, placement: &Placement) -> Option<String> {
        let replicas = self.object["spec"]["replicas"].as_i64().unwrap_or(1);
        // The scheduler has not decided about a smaller number yet.
        let missing = placement.missing.min(replicas);
        if missing <= 0 || placement.clusters.is_empty() {
            return None;
        }
        let explain = self.explain_command();
        if placement.by != placed_by::DEFAULT {
            return Some(format!(
                "{missing} of {replicas} replicas have no place on any cluster; see why with: {explain}"
            ));
        }
        // By default, it does not leave its namespace, although other clusters may have room.
        let object = explain.trim_start_matches(EXPLAIN);
        let names: Vec<&str> = placement.clusters.iter().map(|share| share.name.as_str()).collect();
        let (on, first) = (enumerated(&names), names.first().unwrap_or(&""));
        Some(format!(
            "{missing} of {replicas} replicas have no place on {on}, where it is placed by default; for another cluster: kubectl \
             annotate {object} {CLUSTERS}=NAME; to divide it: kubectl annotate {object} {CLUSTERS}={first}=1,NAME=1; see where \
             there is room with: {explain}"
        ))
    }

    /// The command that explains where the object is.
    pub(super) fn explain_command(&self) -> String {
        let (kind, name) = (object::kind(self.object).to_lowercase(), object::name(self.object));
        let flag = match object::namespace(self.object) {
            "" | "default" => String::new(),
            namespace => format!(" --namespace {namespace}"),
        };
        // Objects of lists have no kind.
        let kind = if kind.is_empty() { self.resource.1 } else { &kind };
        format!("{EXPLAIN}{kind}/{name}{flag}")
    }

    /// Whether as many replicas of a Deployment are available as its update strategy requires.
    pub(super) fn has_minimum(&self, status: &Value) -> bool {
        let (spec, replicas) = (&self.object["spec"], self.object["spec"]["replicas"].as_i64().unwrap_or(1));
        let unavailable = match spec["strategy"]["type"].as_str() {
            Some("Recreate") => 0,
            _ => {
                let rolling = &spec["strategy"]["rollingUpdate"];
                let surge = resolve(&rolling["maxSurge"], replicas, true).unwrap_or(0);
                let unavailable = resolve(&rolling["maxUnavailable"], replicas, false).unwrap_or(0);
                if surge == 0 { unavailable.max(1) } else { unavailable }
            }
        };
        status["availableReplicas"].as_i64().unwrap_or(0) >= replicas - unavailable.min(replicas)
    }
}
