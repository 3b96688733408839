//! Endpoint hints for `spec.trafficDistribution`: prefer clients in the same zone or on the same node.

// upstream: staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go

use std::sync::Arc;

use serde_json::{Value, json};

/// Kind of hints that a Service requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    None,
    Zone,
    /// Same node, with the zone as fallback.
    Node,
}

impl Hints {
    pub fn of(service: &Value) -> Hints {
        match service["spec"]["trafficDistribution"].as_str() {
            Some("PreferClose" | "PreferSameZone") => Hints::Zone,
            Some("PreferSameNode") => Hints::Node,
            _ => Hints::None,
        }
    }

    /// Returns the hints of an endpoint. An endpoint that is not ready keeps its hints.
    fn wanted(self, endpoint: &Value) -> Value {
        if self == Hints::None {
            return Value::Null;
        }
        if endpoint["conditions"]["ready"] != true {
            return endpoint["hints"].clone();
        }
        let mut hints = json!({});
        if let Some(zone) = endpoint["zone"].as_str() {
            hints["forZones"] = json!([{"name": zone}]);
        }
        if let Some(node) = endpoint["nodeName"].as_str().filter(|_| self == Hints::Node) {
            hints["forNodes"] = json!([{"name": node}]);
        }
        if hints.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { hints }
    }

    fn is_up_to_date(self, slice: &Value) -> bool {
        endpoints(slice).all(|endpoint| endpoint["hints"] == self.wanted(endpoint))
    }

    fn set(self, slice: &mut Value) {
        for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
            let wanted = self.wanted(endpoint);
            let Some(fields) = endpoint.as_object_mut() else { continue };
            match wanted {
                Value::Null => drop(fields.remove("hints")),
                hints => drop(fields.insert("hints".into(), hints)),
            }
        }
    }
}

fn endpoints(slice: &Value) -> impl Iterator<Item = &Value> {
    slice["endpoints"].as_array().into_iter().flatten()
}

/// Sets the hints of slices that are written, and adds unchanged slices with wrong hints to `update`.
pub fn assign(hints: Hints, create: &mut [Value], update: &mut Vec<Value>, kept: &[&Arc<Value>]) {
    update
        .extend(kept.iter().filter(|slice| !hints.is_up_to_date(slice)).map(|slice| slice.as_ref().clone()));
    for slice in create.iter_mut().chain(update) {
        hints.set(slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_what_the_service_prefers() {
        let endpoint =
            |ready: bool, zone: &str| json!({"conditions": {"ready": ready}, "zone": zone, "nodeName": "n"});
        let zone = json!({"forZones": [{"name": "a"}]});
        let both = json!({"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]});
        for (preference, ready, expected) in [
            ("PreferClose", true, zone.clone()),
            ("PreferSameZone", true, zone),
            ("PreferSameNode", true, both),
            ("PreferSameNode", false, Value::Null),
            ("", true, Value::Null),
        ] {
            let service = json!({"spec": {"trafficDistribution": preference}});
            let mut update = Vec::new();
            let existing = Arc::new(json!({"endpoints": [endpoint(ready, "a")]}));
            assign(Hints::of(&service), &mut [], &mut update, &[&existing]);
            assert_eq!(update.is_empty(), expected.is_null(), "{preference}");
            if let Some(slice) = update.first() {
                assert_eq!(slice["endpoints"][0]["hints"], expected, "{preference}");
            }
        }
    }

    #[test]
    fn hints_are_removed_when_not_requested() {
        let existing = Arc::new(json!({"endpoints": [{"hints": {"forZones": [{"name": "a"}]}}]}));
        let mut update = Vec::new();
        assign(Hints::None, &mut [], &mut update, &[&existing]);
        assert_eq!(update, [json!({"endpoints": [{}]})]);
    }
}
