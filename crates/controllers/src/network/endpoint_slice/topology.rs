//! Topology-aware hints: distributes traffic over zones in proportion to the CPUs of their nodes.

// upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go
// upstream: staging/src/k8s.io/endpointslice/topologycache/utils.go
// upstream: staging/src/k8s.io/endpointslice/topologycache/sliceinfo.go

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use atoll_informer::Key;
use atoll_meta::object;
use atoll_meta::quantity::Quantity;
use atoll_meta::views::NodeView;
use serde_json::{Value, json};

use super::hints::{self, Hints};

pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Accepted overload of an endpoint relative to its share.
const OVERLOAD: f64 = 0.2;

/// Fraction of all CPUs by zone.
pub type Shares = BTreeMap<String, f64>;
/// Number of endpoints by zone.
pub type Counts = BTreeMap<String, usize>;

/// Whether a Service requests topology-aware hints.
pub fn is_requested(service: &Value) -> bool {
    let annotation = |name: &str| object::annotation(service, &format!("service.kubernetes.io/{name}"));
    let said = annotation("topology-aware-hints").or_else(|| annotation("topology-mode"));
    matches!(said, Some("Auto" | "auto"))
}

pub fn is_ready(node: &Value) -> bool {
    NodeView::of(node).is_ready()
}

/// Returns the shares; `None` if a node lacks a zone or CPUs, or there is only one zone.
pub fn shares(nodes: &[Arc<Value>]) -> Option<Shares> {
    const CONTROL_PLANE_LABELS: [&str; 2] =
        ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
    let is_worker = |node: &&Arc<Value>| {
        is_ready(node) && !CONTROL_PLANE_LABELS.iter().any(|label| object::label(node, label).is_some())
    };
    let mut processors: BTreeMap<String, i64> = BTreeMap::new();
    for node in nodes.iter().filter(is_worker) {
        let zone = object::label(node, ZONE).filter(|zone| !zone.is_empty())?;
        let amount = Quantity::parse(NodeView::of(node).allocatable()["cpu"].as_str()?).ok()?;
        let millis = Some(amount.millis()).filter(|_| !amount.is_zero())?;
        *processors.entry(zone.into()).or_default() += millis;
    }
    let all: i64 = processors.values().sum();
    let share = |(zone, millis): (String, i64)| (zone, millis as f64 / all as f64);
    (processors.len() > 1 && all != 0).then(|| processors.into_iter().map(share).collect())
}

/// Number of endpoints that a zone should get.
struct Allotment {
    most: usize,
    wanted: f64,
}

/// Computes the allotment of each zone, or fails with upstream's reason.
fn allot(shares: Option<&Shares>, endpoints: usize) -> Result<BTreeMap<&str, Allotment>, String> {
    let shares = shares
        .ok_or("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")?;
    let zones = shares.len();
    let refused = |why: &str| Err(format!("{why} ({endpoints} endpoints, {zones} zones)"));
    if zones > endpoints {
        return refused("Insufficient number of endpoints");
    }
    let least = |share: &f64| (share * endpoints as f64 * (1.0 / (1.0 + OVERLOAD))).ceil() as usize;
    let Some(spare) = endpoints.checked_sub(shares.values().map(least).sum()) else {
        return refused(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold",
        );
    };
    let allotment = |share: &f64| Allotment {
        most: least(share) + spare,
        wanted: (share * endpoints as f64).max(least(share) as f64),
    };
    Ok(shares.iter().map(|(zone, share)| (zone.as_str(), allotment(share))).collect())
}

/// Sets the hints of slices that are written, and adds unchanged slices that need other hints to `update`. On
/// failure all hints are removed, and the reason is returned.
pub fn assign(
    shares: Option<&Shares>,
    create: &mut [Value],
    update: &mut Vec<Value>,
    kept: &[&Arc<Value>],
) -> Result<Counts, String> {
    let outcome = try_assign(shares, create, update, kept);
    match outcome {
        Ok((counts, moved)) => {
            update.extend(moved);
            Ok(counts)
        }
        Err(reason) => {
            hints::assign(Hints::None, create, update, kept);
            Err(reason)
        }
    }
}

/// Returns the counts, and the formerly unchanged slices that must be written.
fn try_assign(
    shares: Option<&Shares>,
    create: &mut [Value],
    update: &mut [Value],
    kept: &[&Arc<Value>],
) -> Result<(Counts, Vec<Value>), String> {
    let written = create.iter().chain(update.iter());
    let all: usize =
        written.chain(kept.iter().map(|slice| slice.as_ref())).map(|slice| ready(slice).count()).sum();
    let allotments = allot(shares, all)?;
    let mut counts = Counts::new();
    let mut moved: Vec<Value> = Vec::new();
    for slice in kept {
        match hinted(slice, &counts, &allotments) {
            Some(hinted) => {
                hinted.into_iter().for_each(|(zone, count)| *counts.entry(zone).or_default() += count)
            }
            None => moved.push(slice.as_ref().clone()),
        }
    }
    let mut slices: Vec<&mut Value> =
        create.iter_mut().chain(update.iter_mut()).chain(moved.iter_mut()).collect();
    for endpoint in slices.iter_mut().flat_map(|slice| ready_mut(slice)) {
        let Some(zone) = endpoint["zone"].as_str().filter(|zone| !zone.is_empty()).map(String::from) else {
            return Err("One or more endpoints do not have a zone specified".into());
        };
        endpoint["hints"] = for_zone(&zone);
        *counts.entry(zone).or_default() += 1;
    }
    let (mut giving, mut receiving) = exchange(&allotments, &counts);
    for endpoint in slices.iter_mut().flat_map(|slice| ready_mut(slice)) {
        let zone = endpoint["zone"].as_str().unwrap_or_default().to_string();
        let Some(from) = giving.get_mut(&zone).filter(|left| **left > 0) else { continue };
        let Some((to, room)) = receiving.iter_mut().find(|(_, room)| **room > 0) else { break };
        (*from, *room) = (*from - 1, *room - 1);
        endpoint["hints"] = for_zone(to);
        *counts.entry(to.clone()).or_default() += 1;
        *counts.entry(zone).or_default() -= 1;
    }
    match counts.is_empty() {
        true => Err("No hints allocated for zones".into()),
        false => Ok((counts, moved)),
    }
}

fn for_zone(zone: &str) -> Value {
    json!({"forZones": [{"name": zone}]})
}

fn is_ready_endpoint(endpoint: &Value) -> bool {
    endpoint["conditions"]["ready"] == true
}

fn ready(slice: &Value) -> impl Iterator<Item = &Value> {
    slice["endpoints"].as_array().into_iter().flatten().filter(|endpoint| is_ready_endpoint(endpoint))
}

fn ready_mut(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    slice["endpoints"].as_array_mut().into_iter().flatten().filter(|endpoint| is_ready_endpoint(endpoint))
}

/// Returns the hint counts of a slice that can stay unchanged; `None` if it cannot.
fn hinted(slice: &Value, counts: &Counts, allotments: &BTreeMap<&str, Allotment>) -> Option<Counts> {
    let mut hinted = Counts::new();
    for endpoint in ready(slice) {
        let zones = endpoint["hints"]["forZones"].as_array().filter(|zones| !zones.is_empty())?;
        for zone in zones.iter().filter_map(|zone| zone["name"].as_str()) {
            allotments.get(zone)?;
            *hinted.entry(zone.into()).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&String, &usize)| {
        let most = allotments.get(zone.as_str()).map_or(0, |allotment| allotment.most);
        count + counts.get(zone).copied().unwrap_or(0) <= most
    };
    hinted.iter().all(fits).then_some(hinted)
}

/// Returns how many endpoints each zone gives to other zones, and how many it receives.
fn exchange(allotments: &BTreeMap<&str, Allotment>, counts: &Counts) -> (Counts, Counts) {
    let (mut surplus, mut need) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allotment) in allotments {
        let difference = counts.get(*zone).copied().unwrap_or(0) as f64 - allotment.wanted;
        match difference {
            more if more > 0.0 => drop(surplus.insert(*zone, more)),
            less if less < 0.0 => drop(need.insert(*zone, -less)),
            _ => {}
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((from, more)), Some((to, less))) = (most(&mut surplus), most(&mut need)) {
        if (*more < 1.0 && *less < 1.0) || *more < 0.5 || *less < 0.5 {
            break;
        }
        (*more, *less) = (*more - 1.0, *less - 1.0);
        *giving.entry(from.into()).or_default() += 1;
        *receiving.entry(to.into()).or_default() += 1;
    }
    (giving, receiving)
}

/// Returns the zone with the highest amount.
fn most<'z, 'm>(zones: &'m mut BTreeMap<&'z str, f64>) -> Option<(&'z str, &'m mut f64)> {
    let zones = zones.iter_mut().filter(|(_, amount)| **amount > 0.0);
    zones
        .map(|(zone, amount)| (*zone, amount))
        .reduce(|most, other| if *other.1 > *most.1 { other } else { most })
}

/// Whether a zone has too few endpoints for its share.
fn is_overloaded(counts: &Counts, shares: Option<&Shares>) -> bool {
    let all: usize = counts.values().sum();
    let lacks = |(zone, share): (&String, &f64)| {
        let least = (all as f64 * share * (1.0 / (1.0 + OVERLOAD))).ceil() as usize;
        counts.get(zone).is_none_or(|count| *count < least)
    };
    !counts.is_empty() && shares.is_none_or(|shares| shares.iter().any(lacks))
}

/// Result of topology-aware hints for one address family.
#[derive(Debug, PartialEq)]
pub enum HintsOutcome {
    NotRequested,
    Assigned(Counts),
    Failed(String),
}

/// An event about a Service.
#[derive(Debug, PartialEq, Eq)]
pub struct HintsEvent {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Hint counts of Services with topology-aware hints, by address family.
#[derive(Default)]
pub struct Topologies {
    assigned: Mutex<HashMap<Key, AssignedHints>>,
}

#[derive(Default)]
struct AssignedHints {
    families: BTreeMap<String, Counts>,
    /// Whether the event about enabled hints was recorded and not revoked since.
    is_recorded: bool,
}

impl Topologies {
    /// Stores the result, and returns the event to record.
    pub fn record(&self, key: &Key, family: &str, outcome: HintsOutcome) -> Option<HintsEvent> {
        const DISABLED: &str = "TopologyAwareHintsDisabled";
        let mut assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
        let was_recorded = assigned.get(key).is_some_and(|assigned| assigned.is_recorded);
        let event = |warning, reason, message: &str| {
            Some(HintsEvent { warning, reason, message: format!("{message}, addressType: {family}") })
        };
        if let HintsOutcome::Assigned(counts) = outcome {
            let assigned = assigned.entry(key.clone()).or_default();
            assigned.families.insert(family.into(), counts);
            assigned.is_recorded = true;
            return match was_recorded {
                true => None,
                false => event(false, "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled"),
            };
        }
        if let Some(own) = assigned.get_mut(key) {
            own.families.remove(family);
            own.is_recorded = false;
            if own.families.is_empty() {
                assigned.remove(key);
            }
        }
        match outcome {
            HintsOutcome::Failed(reason) => event(true, DISABLED, &reason),
            _ if was_recorded => event(true, DISABLED, "Topology Aware Hints has been disabled"),
            _ => None,
        }
    }

    pub fn forget(&self, key: &Key) {
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Returns the Services of a workspace that must be reconciled because its nodes changed.
    pub fn overloaded(&self, workspace: &str, nodes: impl FnOnce() -> Vec<Arc<Value>>) -> Vec<Key> {
        let assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut here = assigned.iter().filter(|(key, _)| &*key.workspace == workspace).peekable();
        if here.peek().is_none() {
            return Vec::new();
        }
        let shares = shares(&nodes());
        here.filter(|(_, assigned)| {
            assigned.families.values().any(|counts| is_overloaded(counts, shares.as_ref()))
        })
        .map(|(key, _)| key.clone())
        .collect()
    }
}

#[cfg(test)]
mod tests;
