//! Usage of PersistentVolumeClaims: number, size, by class.

// upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go

use atoll_meta::object;
use atoll_meta::quantity::Quantity;
use serde_json::Value;

use crate::amounts::Amounts;
use crate::scopes::Scope;

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Separator between a storage class and the quota name.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub fn matches(name: &str) -> bool {
    let by_class = |counted| name.strip_suffix(counted).is_some_and(|class: &str| class.ends_with(BY_CLASS));
    [COUNT, CLAIMS, STORAGE].contains(&name) || [CLAIMS, STORAGE].into_iter().any(by_class)
}

pub fn usage(claim: &Value) -> Amounts {
    let mut usage = Amounts::default();
    usage.set_count(CLAIMS, 1);
    usage.set_count(COUNT, 1);
    let class = object::annotation(claim, CLASS_ANNOTATION);
    let class = class.or_else(|| claim["spec"]["storageClassName"].as_str()).unwrap_or_default();
    if !class.is_empty() {
        usage.set_count(format!("{class}{BY_CLASS}{CLAIMS}"), 1);
    }
    if let Some(storage) = storage(claim) {
        if !class.is_empty() {
            usage.set(format!("{class}{BY_CLASS}{STORAGE}"), storage.clone());
        }
        usage.set(STORAGE, storage);
    }
    usage
}

/// Returns the storage in whole bytes: the requested, or the allocated if that is more.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |value: &Value| {
        let mut amount = Quantity::parse(value.as_str()?).ok()?;
        amount.round_up_to_units();
        Some(amount)
    };
    let asked = amount(&claim["spec"]["resources"]["requests"]["storage"])?;
    let allocated = amount(&claim["status"]["allocatedResources"]["storage"]);
    Some(allocated.filter(|allocated| *allocated > asked).unwrap_or(asked))
}

pub fn is_within(scope: &Scope, claim: &Value) -> Result<bool, String> {
    if scope.name != "VolumeAttributesClass" {
        return Ok(false);
    }
    // While a volume changes its class, it counts for both.
    let status = &claim["status"];
    let classes = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let classes = classes.into_iter().filter_map(Value::as_str).filter(|class| !class.is_empty());
    let classes: Vec<&str> = classes.collect();
    if scope.is_exists() { Ok(!classes.is_empty()) } else { scope.selects(&classes) }
}
