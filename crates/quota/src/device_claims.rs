//! ResourceClaims, by device class. Devices that a pod requests as extended resources are not counted twice.

// upstream: pkg/quota/v1/evaluator/core/resource_claims.go

use atoll_meta::object;
use atoll_meta::quantity::{Format, Quantity};
use serde_json::Value;

use crate::amounts::Amounts;
use crate::{QuotaLookup, pods};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
const BY_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Prefix of a pod's request for devices of a class without an extended resource name.
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
const REQUESTS: &str = "requests.";
const FOR_EXTENDED_RESOURCES: &str = "resource.kubernetes.io/extended-resource-claim";
/// Devices that are counted for a claim with allocation mode `All`.
const MOST_DEVICES: i64 = 32;

pub fn matching<'n>(names: impl Iterator<Item = &'n str>, lookup: &dyn QuotaLookup) -> Vec<&'n str> {
    let mut classes = None;
    names
        .filter(|name| {
            if *name == COUNT || name.ends_with(BY_CLASS) {
                return true;
            }
            if !pods::is_extended_for_quota(name) {
                return false;
            }
            let classes = classes.get_or_insert_with(|| lookup.device_classes());
            let resource = name.strip_prefix(REQUESTS).unwrap_or_default();
            let implicit = name.strip_prefix(IMPLICIT);
            classes.iter().any(|class| {
                implicit == Some(object::name(class)) || extended_resource(class) == Some(resource)
            })
        })
        .collect()
}

fn extended_resource(class: &Value) -> Option<&str> {
    class["spec"]["extendedResourceName"].as_str().filter(|name| !name.is_empty())
}

pub fn usage(claim: &Value, lookup: &dyn QuotaLookup) -> Amounts {
    let mut usage = Amounts::default();
    for request in claim["spec"]["devices"]["requests"].as_array().into_iter().flatten() {
        let alternatives = request["firstAvailable"].as_array().filter(|list| !list.is_empty());
        match (alternatives, &request["exactly"]) {
            (Some(alternatives), _) => {
                // Any alternative may be chosen, so the highest count of each class is used.
                let mut most = Amounts::default();
                for alternative in alternatives {
                    let mut own = Amounts::default();
                    let (name, count) = devices(alternative);
                    if !count.is_zero() {
                        own.set(name, count);
                    }
                    most.raise_to(&own);
                }
                usage.add(&most);
            }
            (None, exactly) if exactly.is_object() => {
                let (name, count) = devices(exactly);
                usage.add_one(&name, &count);
            }
            _ => {}
        }
    }
    add_extended_resources(&mut usage, claim, lookup);
    usage.set_count(COUNT, 1);
    usage
}

fn devices(request: &Value) -> (String, Quantity) {
    let count = match request["allocationMode"].as_str() {
        Some("ExactCount") => request["count"].as_i64().unwrap_or(0),
        Some("All") => MOST_DEVICES,
        _ => 0,
    };
    let class = request["deviceClassName"].as_str().unwrap_or_default();
    (format!("{class}{BY_CLASS}"), Quantity::new(count, Format::DecimalSi))
}

/// Adds the devices under the names of extended resources, without those that are already counted for the
/// pod.
fn add_extended_resources(usage: &mut Amounts, claim: &Value, lookup: &dyn QuotaLookup) {
    let by_class = usage.iter().filter_map(|(name, count)| {
        let class = name.strip_suffix(BY_CLASS).filter(|class| !class.is_empty())?;
        Some((class.to_string(), count.clone()))
    });
    let by_class: Vec<(String, Quantity)> = by_class.collect();
    if by_class.is_empty() {
        return;
    }
    let classes = lookup.device_classes();
    let charged = charged_to_pod(claim, lookup).unwrap_or_default();
    for (class, count) in by_class {
        let known = classes.iter().find(|known| object::name(known) == class);
        let extended = known.and_then(extended_resource).map(|resource| format!("{REQUESTS}{resource}"));
        for name in extended.into_iter().chain([format!("{IMPLICIT}{class}")]) {
            let mut left = count.clone();
            if let Some(charged) = charged.get(&name) {
                left.subtract(charged);
            }
            if !left.is_zero() && !left.is_negative() {
                usage.set(name, left);
            }
        }
    }
}

/// Returns the usage of the pod that owns this claim, if the claim is for its extended resources.
fn charged_to_pod(claim: &Value, lookup: &dyn QuotaLookup) -> Option<Amounts> {
    let pod = owning_pod(claim)?;
    let namespace = object::namespace(claim);
    let owner = lookup.pod(namespace, pod.name).filter(|owner| object::uid(owner) == pod.uid)?;
    let status = &owner["status"]["extendedResourceClaimStatus"];
    if status.is_object() {
        let own = status["resourceClaimName"].as_str().unwrap_or_default();
        if own != object::name(claim) {
            return None;
        }
    } else {
        // The pod does not name its claim: only the oldest one can be it.
        let age = |claim: &Value| {
            (
                object::creation_timestamp(claim).unwrap_or_default().to_string(),
                object::name(claim).to_string(),
            )
        };
        let claims = lookup.device_claims(namespace);
        let siblings = claims.iter().filter(|other| owning_pod(other).is_some_and(|own| own.uid == pod.uid));
        if siblings.into_iter().any(|other| age(other) < age(claim)) {
            return None;
        }
    }
    Some(pods::usage(&owner, lookup.now()))
}

fn owning_pod(claim: &Value) -> Option<object::OwnerReference<'_>> {
    let made = object::annotation(claim, FOR_EXTENDED_RESOURCES) == Some("true");
    let owner = object::controller_of(claim).filter(|_| made)?;
    (owner.kind == "Pod" && owner.api_version == "v1").then_some(owner)
}
