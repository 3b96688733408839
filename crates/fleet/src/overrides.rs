//! Overrides: changes that `spec.overrides` of a Cluster makes to shapes.
//!
//! ```text
//!   object ─ match? ─ registry ─ storageClass ─ env ─ labels, annotations ─ patch ─► shape
//!            └──────────────────── one row after the other ────────────────────┘
//! ```

mod image;
mod pods;
mod validate;

use std::collections::BTreeMap;

use atoll_merge::{PatchCost, json_patch_within};
use atoll_meta::object;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cluster::ClusterView;
pub use validate::validate;

/// Bytes that all overrides of a cluster may add to an object, apart from patches, which have limits of their own.
/// Overrides apply to each container, so small ones can make an object of many containers very large.
const MAX_ADDED: usize = 1 << 20;

/// All overrides of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Overrides {
    rows: Vec<Override>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Override {
    #[serde(rename = "match")]
    matches: Match,
    registry: Option<Registry>,
    /// Storage class names of the cluster by the names that users write.
    storage_class: BTreeMap<String, String>,
    env: Vec<Variable>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    patch: Vec<Value>,
}

/// Selects objects; an empty field matches all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Match {
    /// `Deployment`, or `Deployment.apps`.
    kinds: Vec<String>,
    namespaces: Vec<String>,
    labels: BTreeMap<String, String>,
}

/// Replacement of an image registry.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Registry {
    /// A registry, optionally with a path; all registries if absent.
    #[serde(default)]
    from: Option<String>,
    to: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

impl Overrides {
    /// Reads the overrides of a Cluster.
    ///
    /// # Errors
    ///
    /// The overrides are invalid, which [`validate`] would have reported.
    pub fn of(cluster: &Value) -> Result<Overrides, String> {
        Overrides::read(ClusterView::of(cluster).overrides())
    }

    /// Reads overrides in the form of `spec.overrides`.
    ///
    /// # Errors
    ///
    /// The overrides are invalid.
    pub fn read(overrides: &Value) -> Result<Overrides, String> {
        if overrides.is_null() {
            return Ok(Overrides::default());
        }
        Overrides::deserialize(overrides).map_err(|error| format!("spec.overrides: {error}"))
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Applies the overrides to an object.
    ///
    /// # Errors
    ///
    /// A patch does not apply, or would change the identity of the object, or the object would become too large.
    /// The object is then unchanged.
    pub fn apply(&self, object: &mut Value) -> Result<(), String> {
        let mut changed: Option<Value> = None;
        let mut cost = OverrideCost::default();
        for (index, row) in self.rows.iter().enumerate() {
            let current = changed.as_ref().unwrap_or(object);
            if !row.matches.is_met(current) {
                continue;
            }
            let current = changed.get_or_insert_with(|| object.clone());
            row.apply(current, &mut cost).map_err(|error| format!("spec.overrides[{index}]{error}"))?;
        }
        if let Some(changed) = changed {
            *object = changed;
        }
        Ok(())
    }
}

impl Override {
    /// Applies one row. Errors begin with the name of its field.
    fn apply(&self, object: &mut Value, cost: &mut OverrideCost) -> Result<(), String> {
        if let Some(registry) = &self.registry {
            pods::for_each_image(object, &mut |name| {
                // The cost is checked before the name is built, because the limit protects the memory.
                if cost.add(registry.to.len())
                    && let Some(other) = image::moved(name, registry.from.as_deref(), &registry.to)
                {
                    *name = other;
                }
            });
            cost.check("registry")?;
        }
        if !self.storage_class.is_empty() {
            pods::for_each_claim(object, &mut |claim| reclassed(claim, &self.storage_class));
        }
        if !self.env.is_empty() {
            let variables = self.env.iter().map(|one| (one.name.as_str(), one.value.as_str()));
            pods::set_variables(object, variables, &mut |bytes| cost.add(bytes));
            cost.check("env")?;
        }
        for (key, value) in &self.labels {
            object::set_label(object, key, value);
        }
        for (key, value) in &self.annotations {
            object::set_annotation(object, key, value);
        }
        if self.patch.is_empty() {
            return Ok(());
        }
        let before = identity(object);
        let patched = json_patch_within(object, &Value::Array(self.patch.clone()), &mut cost.patches);
        patched.map_err(|error| format!(".patch: {error}"))?;
        if identity(object) != before {
            return Err(".patch: it would change the identity of the object".to_owned());
        }
        Ok(())
    }
}

/// The cost of all overrides of an object.
#[derive(Default)]
struct OverrideCost {
    added: usize,
    patches: PatchCost,
}

impl OverrideCost {
    /// Adds bytes. Returns whether the limit allows them.
    fn add(&mut self, bytes: usize) -> bool {
        self.added = self.added.saturating_add(bytes);
        self.added <= MAX_ADDED
    }

    fn check(&self, field: &str) -> Result<(), String> {
        match self.added <= MAX_ADDED {
            true => Ok(()),
            false => Err(format!(
                ".{field}: the overrides of the cluster would add more than {} KiB to the object",
                MAX_ADDED >> 10
            )),
        }
    }
}

/// Returns the fields that identify an object.
fn identity(object: &Value) -> [String; 4] {
    let name = object::name(object);
    [object::api_version(object), object::kind(object), object::namespace(object), name].map(str::to_owned)
}

impl Match {
    fn is_met(&self, object: &Value) -> bool {
        let any = |wanted: &[String], is: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|one| is(one))
        };
        any(&self.kinds, &|kind| is_kind(object, kind))
            && any(&self.namespaces, &|namespace| object::namespace(object) == namespace)
            && self.labels.iter().all(|(key, value)| object::label(object, key) == Some(value))
    }
}

fn is_kind(object: &Value, wanted: &str) -> bool {
    let (kind, group) = wanted.split_once('.').map_or((wanted, None), |(kind, group)| (kind, Some(group)));
    let actual = object::split_api_version(object::api_version(object)).map_or("", |(group, _)| group);
    object::kind(object) == kind && group.is_none_or(|group| group == actual)
}

/// Replaces the storage class of a volume claim, if it names one.
fn reclassed(claim: &mut Value, classes: &BTreeMap<String, String>) {
    const BEFORE_THE_FIELD: &str = "volume.beta.kubernetes.io/storage-class";
    if let Some(class) = claim["spec"]["storageClassName"].as_str().and_then(|class| classes.get(class)) {
        claim["spec"]["storageClassName"] = class.as_str().into();
    }
    let annotations = claim.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let named =
        annotations.and_then(|annotations: &mut Map<String, Value>| annotations.get_mut(BEFORE_THE_FIELD));
    if let Some(named) = named
        && let Some(class) = named.as_str().and_then(|class| classes.get(class))
    {
        *named = class.as_str().into();
    }
}

#[cfg(test)]
mod tests;
