//! Resolves the target ports of a Service in its pods.

// upstream: pkg/api/v1/pod/util.go

use std::collections::{BTreeMap, HashMap};

use atoll_meta::views::{ContainerView, PodView};
use serde_json::Value;

use super::ports;

/// The target ports of a Service. Ports with the same target are resolved together, so a pod costs one lookup
/// for each port of its containers, however many ports the Service has.
pub struct Targets<'s> {
    /// The Service's ports whose target is a number. They are the same in all pods.
    pub numbered: Vec<ServicePort<'s>>,
    /// The Service's ports by named target.
    named: Vec<Vec<ServicePort<'s>>>,
    /// Places in `named`, by name and protocol.
    places: HashMap<(&'s str, Option<&'s str>), usize>,
}

/// A port of a Service, with the number of its target if that is the same in all pods.
#[derive(Clone, Copy)]
pub struct ServicePort<'s> {
    pub port: &'s Value,
    pub number: i64,
}

/// The named targets that a pod has, with their numbers, sorted. Pods with the same resolution have the same
/// ports.
pub type Resolution = Vec<(usize, i64)>;

impl<'s> Targets<'s> {
    pub fn of(service: &'s Value) -> Targets<'s> {
        let mut targets = Targets { numbered: Vec::new(), named: Vec::new(), places: HashMap::new() };
        for port in ports(service) {
            match &port["targetPort"] {
                Value::String(name) => {
                    let target = (name.as_str(), port["protocol"].as_str());
                    let place = *targets.places.entry(target).or_insert(targets.named.len());
                    if place == targets.named.len() {
                        targets.named.push(Vec::new());
                    }
                    targets.named[place].push(ServicePort { port, number: 0 });
                }
                other => {
                    let number = other.as_i64().unwrap_or(0);
                    targets.numbered.push(ServicePort { port, number });
                }
            }
        }
        targets
    }

    /// Finds the named targets in a pod.
    pub fn resolve(&self, pod: &Value) -> Resolution {
        if self.named.is_empty() {
            return Vec::new();
        }
        let spec = PodView::of(pod).spec();
        let mut found: BTreeMap<usize, Option<i64>> = BTreeMap::new();
        // Sidecar containers count, too. The first port with a name counts.
        for port in spec.containers().chain(spec.sidecars()).flat_map(ContainerView::ports) {
            let Some(name) = port["name"].as_str() else { continue };
            if let Some(place) = self.places.get(&(name, port["protocol"].as_str())) {
                found.entry(*place).or_insert_with(|| port["containerPort"].as_i64());
            }
        }
        found.into_iter().filter_map(|(place, number)| Some((place, number?))).collect()
    }

    /// Returns the Service's ports with one named target, which has this number.
    pub fn named(&self, place: usize, number: i64) -> impl Iterator<Item = ServicePort<'s>> {
        self.named[place].iter().map(move |named| ServicePort { port: named.port, number })
    }

    /// Returns all ports of a pod.
    pub fn ports(&self, resolution: &Resolution) -> impl Iterator<Item = ServicePort<'s>> {
        let named = resolution.iter().flat_map(|(place, number)| self.named(*place, *number));
        self.numbered.iter().copied().chain(named)
    }

    /// Returns the number of ports of a pod.
    pub fn count(&self, resolution: &Resolution) -> usize {
        self.numbered.len() + resolution.iter().map(|(place, _)| self.named[*place].len()).sum::<usize>()
    }
}
